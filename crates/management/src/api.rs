use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use leveret_broker::Broker;
use leveret_broker::views::Client;
use leveret_config::{EnabledPlugins, ManagementApi};
use leveret_model::Topology;
use leveret_node::{Listening, Log, NodeHandle};
use parking_lot::Mutex;

use crate::bodies::Bodies;
use crate::history::{Histories, Ranges, Subject};
use crate::password_rule::PasswordRule;
use crate::running_traces::Traces;
use crate::running_transfers::Transfers;
use crate::sampling::Sampler;
use crate::sessions::Sessions;
use crate::streams_open::{OpenStreams, TAPS, WATCHERS};
use crate::timeline::{Timeline, TimelineEvent};

/// The state of the HTTP API: the node, its names and settings. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeHandle,
    name: String,
    data_directory: PathBuf,
    durability: String,
    started: Instant,
    started_ms: u64,
    logins: Logins,
    bodies: Bodies,
    sampler: Sampler,
    histories: Histories,
    configuration: Mutex<String>,
    plugins: OnceLock<Plugins>,
    target_cluster_size: OnceLock<u32>,
    rules: OnceLock<ManagementApi>,
    password_rule: OnceLock<PasswordRule>,
    log: OnceLock<Log>,
    traces: Traces,
    trace_directory: OnceLock<PathBuf>,
    sessions: Sessions,
    open_streams: OpenStreams,
    open_taps: OpenStreams,
    path_prefix: OnceLock<String>,
    timeline: Timeline,
    transfers: Transfers,
}

/// The enabled plugins of RabbitMQ.
#[derive(Debug)]
pub(crate) struct Plugins {
    /// The file that lists them, whether it exists or not.
    pub(crate) file: Option<PathBuf>,
    /// The plugins enabled explicitly.
    pub(crate) explicit: Vec<String>,
    /// The plugins in effect: those and their dependencies.
    pub(crate) running: Vec<String>,
}

impl Plugins {
    fn of(file: Option<PathBuf>, enabled: &EnabledPlugins) -> Self {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        // Tools may run in another directory.
        let file = file.map(|file| std::path::absolute(&file).unwrap_or(file));
        Plugins { file, explicit: owned(enabled.explicit()), running: owned(enabled.running()) }
    }
}

/// Counters of logins over HTTP.
#[derive(Default)]
pub(crate) struct Logins {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl Logins {
    pub(crate) fn count(&self, succeeded: bool) {
        let counter = if succeeded { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Numbers of successful and failed logins.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

impl Api {
    /// The API of `node`. `name` is the node's name in responses, `durability` the description of confirms in the
    /// banner.
    pub fn new(node: NodeHandle, name: String, data_directory: PathBuf, durability: String) -> Self {
        let started_ms = node.clock().now().wall_ms;
        let inner = Inner {
            node,
            name,
            data_directory,
            durability,
            started: Instant::now(),
            started_ms,
            logins: Logins::default(),
            bodies: Bodies::default(),
            sampler: Sampler::default(),
            histories: Histories::default(),
            configuration: Mutex::default(),
            plugins: OnceLock::new(),
            target_cluster_size: OnceLock::new(),
            rules: OnceLock::new(),
            password_rule: OnceLock::new(),
            log: OnceLock::new(),
            traces: Traces::default(),
            trace_directory: OnceLock::new(),
            sessions: Sessions::default(),
            open_streams: OpenStreams::new(WATCHERS),
            open_taps: OpenStreams::new(TAPS),
            path_prefix: OnceLock::new(),
            timeline: Timeline::default(),
            transfers: Transfers::default(),
        };
        Api { inner: Arc::new(inner) }
    }

    /// Sets the number of nodes that the operator wants. Only the first call counts.
    pub fn set_target_cluster_size(&self, nodes: u32) {
        let _ = self.inner.target_cluster_size.set(nodes);
    }

    pub(crate) fn target_cluster_size(&self) -> u32 {
        *self.inner.target_cluster_size.get_or_init(|| 1)
    }

    /// Sets the text of the node's configuration.
    pub fn set_configuration(&self, text: String) {
        *self.inner.configuration.lock() = text;
    }

    pub(crate) fn configuration(&self) -> String {
        self.inner.configuration.lock().clone()
    }

    /// Sets the enabled plugins and the file that lists them. Only the first call counts: they take effect at a
    /// start.
    pub fn set_plugins(&self, file: Option<PathBuf>, enabled: &EnabledPlugins) {
        let _ = self.inner.plugins.set(Plugins::of(file, enabled));
    }

    pub(crate) fn plugins(&self) -> &Plugins {
        self.inner.plugins.get_or_init(|| Plugins::of(None, &EnabledPlugins::default()))
    }

    /// Sets the rules for requests. Only the first call counts: they take effect at a start.
    pub fn set_rules(&self, rules: ManagementApi) {
        let _ = self.inner.rules.set(rules);
    }

    pub(crate) fn rules(&self) -> &ManagementApi {
        self.inner.rules.get_or_init(ManagementApi::default)
    }

    /// Sets the rule for new passwords. Only the first call counts: it takes effect at a start.
    pub fn set_password_rule(&self, rule: PasswordRule) {
        let _ = self.inner.password_rule.set(rule);
    }

    pub(crate) fn password_rule(&self) -> &PasswordRule {
        self.inner.password_rule.get_or_init(PasswordRule::default)
    }

    pub(crate) fn bodies(&self) -> &Bodies {
        &self.inner.bodies
    }

    /// Sets the process's log. Only the first call counts.
    pub fn set_log(&self, log: Log) {
        let _ = self.inner.log.set(log);
    }

    /// Sets the directory of trace files, which is `traces` in the data directory otherwise. Only the first call counts.
    pub fn set_trace_directory(&self, directory: PathBuf) {
        let _ = self.inner.trace_directory.set(directory);
    }

    pub(crate) fn trace_directory(&self) -> PathBuf {
        self.inner.trace_directory.get().cloned().unwrap_or_else(|| self.data_directory().join("traces"))
    }

    pub(crate) fn traces(&self) -> &Traces {
        &self.inner.traces
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.inner.log.get()
    }

    /// Sets the prefix of all paths. Only the first call counts.
    pub(crate) fn set_path_prefix(&self, prefix: &str) {
        let _ = self.inner.path_prefix.set(prefix.to_owned());
    }

    /// The prefix of all paths, such as `/rabbitmq`, or nothing.
    pub(crate) fn path_prefix(&self) -> &str {
        self.inner.path_prefix.get().map_or("", String::as_str)
    }

    /// Reads the history that an earlier node left in the data directory.
    pub fn read_timeline(&self) {
        if let Err(error) = self.timeline().read(&self.timeline_file()) {
            tracing::warn!("the history of the last hours in {} isn't used: {error}", self.timeline_file().display());
        }
        self.happened("node_started", self.name());
    }

    /// Leaves the history in the data directory for the next node, at a clean stop.
    pub fn write_timeline(&self) {
        self.happened("node_stopped", self.name());
        if let Err(error) = self.timeline().write(&self.timeline_file()) {
            tracing::warn!("the history of the last hours isn't kept: {error}");
        }
    }

    fn timeline_file(&self) -> PathBuf {
        self.data_directory().join("timeline")
    }

    /// Notes an event on the line of time.
    pub(crate) fn happened(&self, kind: &str, what: &str) {
        self.timeline().happened(TimelineEvent::new(self.node().clock().now().wall_ms, kind, what));
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        &self.inner.timeline
    }

    pub(crate) fn transfers(&self) -> &Transfers {
        &self.inner.transfers
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    pub(crate) fn open_streams(&self) -> &OpenStreams {
        &self.inner.open_streams
    }

    pub(crate) fn open_taps(&self) -> &OpenStreams {
        &self.inner.open_taps
    }

    pub(crate) fn node(&self) -> &NodeHandle {
        &self.inner.node
    }

    pub(crate) fn broker(&self) -> &Arc<Broker> {
        self.inner.node.broker()
    }

    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.broker().registry.snapshot().topology.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn data_directory(&self) -> &std::path::Path {
        &self.inner.data_directory
    }

    pub(crate) fn durability(&self) -> &str {
        &self.inner.durability
    }

    pub(crate) fn logins(&self) -> &Logins {
        &self.inner.logins
    }

    pub(crate) fn sampler(&self) -> &Sampler {
        &self.inner.sampler
    }

    pub(crate) fn histories(&self) -> &Histories {
        &self.inner.histories
    }

    /// Adds the requested history of a subject to a response.
    pub(crate) fn show_past(&self, subject: Subject, body: &mut serde_json::Value, ranges: Option<&Ranges>) {
        if let Some(ranges) = ranges {
            self.histories().show(subject, body, ranges, self.node().clock().now());
        }
    }

    /// Time of the node's start, in milliseconds since 1970.
    pub(crate) fn started_ms(&self) -> u64 {
        self.inner.started_ms
    }

    /// How long the node has been up, in milliseconds.
    pub(crate) fn uptime_ms(&self) -> u64 {
        u64::try_from(self.inner.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Number of members of the cluster; 1 if the node is alone.
    #[must_use]
    pub fn cluster_size(&self) -> u32 {
        let members = self.broker().registry.snapshot().topology.members().count();
        u32::try_from(members.max(1)).unwrap_or(u32::MAX)
    }

    /// The cluster's name, as set or as configured.
    pub(crate) fn cluster_name(&self) -> String {
        let topology = self.topology();
        let set = topology.global_parameter("cluster_name").and_then(|name| name.as_str().map(str::to_owned));
        set.unwrap_or_else(|| self.broker().settings.cluster_name.clone())
    }

    /// The listeners that are open; in maintenance, none for clients is.
    pub(crate) fn listeners(&self) -> Vec<Listening> {
        self.node().open_listeners()
    }

    /// Asks connections to close. Returns their number.
    pub(crate) fn close_where(&self, reason: &str, which: impl Fn(&Client) -> bool) -> usize {
        let broker = self.broker();
        broker.clients().iter().filter(|client| which(client) && broker.close(client.id, reason)).count()
    }
}
