use std::error::Error;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leveret_config::{Config, Durability, LogLevel, MqttConfig, StreamConfig};
use leveret_log::Report;
use leveret_management::{
    Api, Definitions, MetricsOptions, PasswordRule, PendingChange, Router, Stopped, missing_nodes,
};
use leveret_node::{
    DirectoryLock, FOUND_CLUSTER, LocalSocket, Log, NextStart, Node, NodeOptions, Ports, START_ANEW, START_APP,
    STOP_APP, Standby, asked_to_end, handle_signals, harmless, node_name, refuse_huge_pages,
};
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;
use leveret_session_mqtt::{MqttNode, MqttSettings, WAITING_PER_MAILBOX};
use leveret_session_stream::{Advertised, StreamProtocol, StreamSettings};
use tracing::{error, info, warn};

use crate::arguments::{ServerArguments, Start};
use crate::banner::Banner;
use crate::container::entry_point;
use crate::listeners::{ChosenPorts, Listeners};
use crate::pid_file::PidFile;
use crate::reload::Reload;
use crate::{configuration, detached, notify};

/// The promise of a confirm for queues without a setting of their own (`x-durability`).
fn durability(config: &Config) -> &'static str {
    match config.queue_durability {
        Durability::Synced => "flushed (a confirmed message survives a power cut)",
        Durability::Os => "written (a confirmed message survives a crash of the node, not a power cut)",
        Durability::Memory => "memory (a confirmed message doesn't survive a restart)",
    }
}

/// RabbitMQ's text, which clients show.
const STOP_REASON: &str = "broker forced connection closure with reason 'shutdown'";

/// Longest time that a fatal error waits for its log line to be written.
const LAST_LINE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs a node until it is asked to stop.
pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    // This comes first: memory that is a huge page by then stays one.
    refuse_huge_pages();
    // Before anything is opened, so that a signal never finds a start half done.
    if let Err(reason) = handle_signals() {
        eprintln!("leveret: cannot handle signals: {reason}");
        return ExitCode::FAILURE;
    }
    let found = arguments.look_up().and_then(|start| Ok((configuration::of_start(&start)?, start)));
    let ((config, warnings), start) = match found {
        Ok(configured) => configured,
        Err(reasons) => {
            reasons.iter().for_each(|reason| eprintln!("leveret: {}", harmless(reason)));
            return ExitCode::FAILURE;
        }
    };
    let log = match Log::start(&config.log, start.log_places(&config)) {
        Ok(log) => log,
        Err(reason) => {
            eprintln!("leveret: {}", harmless(&reason.to_string()));
            return ExitCode::FAILURE;
        }
    };
    warnings.iter().for_each(|warning| warn!("{warning}"));
    start.warnings.iter().chain(&entry_point::keep_cookie()).for_each(|warning| warn!("{warning}"));
    let served = serve(&config, arguments, &start, &log);
    if let Err(reason) = &served {
        error!(critical = true, "{reason}");
        eprintln!("leveret: {}", harmless(&reason.to_string()));
    }
    log.stop();
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a node, and another one after each `stop_app` and `start_app`, until the process is asked to end.
fn serve(config: &Config, arguments: &ServerArguments, start: &Start, log: &Log) -> Result<(), Box<dyn Error>> {
    if is_asked_to_end() {
        info!("stopped");
        return Ok(());
    }
    // A directory or port that is in use is detected before anything is recovered.
    let lock = DirectoryLock::acquire(&start.data_dir)?;
    let _pid_file = PidFile::write(start)?;
    let ports = ChosenPorts::default();
    let mut process = Process {
        arguments,
        log,
        commands: None,
        has_started: false,
        ports,
        is_founding: false,
        change: PendingChange::default(),
    };
    let mut returned = Some(process.run_node(config, start, lock)?);
    let mut start_error = None;
    loop {
        let lock = match returned.take().unwrap_or(Ended::Process) {
            Ended::Process => break,
            Ended::StopApp(lock) => lock,
            Ended::StartAnew(lock, next) => {
                next.prepare(&lock)?;
                returned = Some(process.start_again(start, &mut Some(lock))?);
                continue;
            }
            Ended::FoundCluster(lock) => {
                process.is_founding = true;
                returned = Some(process.start_again(start, &mut Some(lock))?);
                continue;
            }
        };
        info!("The node has stopped; its process waits for start_app");
        if process.stand_by(config, start, start_error.take())? != START_APP {
            break;
        }
        // Files are read again, as at any start.
        let mut lock = Some(lock);
        returned = match process.start_again(start, &mut lock) {
            Ok(ended) => Some(ended),
            Err(reason) => {
                error!("start_app: {reason}");
                start_error = Some(reason.to_string());
                // A start that fails after the recovery releases the lock.
                let lock = lock.take().map_or_else(|| DirectoryLock::acquire(&start.data_dir), Ok)?;
                Some(Ended::StopApp(lock))
            }
        };
    }
    info!("stopped");
    Ok(())
}

/// Whether a signal has asked the process to end before it serves anybody, which is logged.
fn is_asked_to_end() -> bool {
    let who = asked_to_end();
    if let Some(who) = who {
        info!("{who} came during the start: stopping");
        notify::manager("STOPPING=1");
    }
    who.is_some()
}

/// Whether a node loads its definitions: a member of a cluster only once that has its size, so that the first nodes don't load what the others
/// bring as well.
fn imports_now(is_member: bool, size: u32, wanted: u32) -> bool {
    !is_member || size >= wanted
}

/// The end of a node.
enum Ended {
    /// The process ends too.
    Process,
    /// It ended by `stop_app`: the lock holds the directory for the next node.
    StopApp(DirectoryLock),
    /// The next node is the first member of a cluster.
    FoundCluster(DirectoryLock),
    /// The next node is another one.
    StartAnew(DirectoryLock, NextStart),
}

/// State that outlives a node: the process may run one node after another.
struct Process<'a> {
    arguments: &'a ServerArguments,
    log: &'a Log,
    /// The local socket. Connections wait while it isn't served.
    commands: Option<(LocalSocket, UnixListener)>,
    has_started: bool,
    /// The ports of the last node that was started.
    ports: ChosenPorts,
    /// Whether a node that is alone becomes the first member of a cluster.
    is_founding: bool,
    /// The change of the node's cluster that was asked for while there was no node.
    change: PendingChange,
}

impl Process<'_> {
    /// Answers commands without a node, until one asks for a node or for the end of the process.
    fn stand_by(
        &mut self,
        config: &Config,
        start: &Start,
        start_error: Option<String>,
    ) -> Result<&'static str, Box<dyn Error>> {
        let standby = Standby::start()?;
        if let Some((_, listener)) = &self.commands {
            let settings = NodeOptions::new(config, Vec::new(), Arc::new(|_| ())).broker;
            let stopped = Stopped {
                name: node_name(config),
                data_directory: start.data_dir.clone(),
                rabbitmq_version: settings.version,
                start_error,
                change: self.change.clone(),
            };
            let router = leveret_management::stopped(stopped, standby.asks());
            serve_on(listener, router, |work| standby.spawn(work))?;
        }
        let who = standby.wait();
        if who != START_APP {
            notify::manager("STOPPING=1");
            info!("{who}: stopping");
            self.commands = None;
        }
        Ok(who)
    }

    /// Starts a node again, with the current configuration.
    fn start_again(&mut self, first: &Start, lock: &mut Option<DirectoryLock>) -> Result<Ended, Box<dyn Error>> {
        let all = |mistakes: Vec<String>| mistakes.join("\n");
        let mut start = self.arguments.look_up().map_err(all)?;
        // The lock is on the first directory.
        start.data_dir.clone_from(&first.data_dir);
        let (config, warnings) = configuration::of_start(&start).map_err(all)?;
        warnings.iter().for_each(|warning| warn!("{warning}"));
        self.log.reload(&config.log)?;
        let lock = lock.take().map_or_else(|| DirectoryLock::acquire(&start.data_dir), Ok)?;
        self.run_node(&config, &start, lock)
    }

    /// Runs a node until it is asked to stop.
    fn run_node(&mut self, config: &Config, start: &Start, lock: DirectoryLock) -> Result<Ended, Box<dyn Error>> {
        if is_asked_to_end() {
            return Ok(Ended::Process);
        }
        let log = self.log;
        let password_rule = PasswordRule::of(&config.credential_validator)?;
        let mut listeners = Listeners::open(config, &self.ports)?;

        let definitions = config.load_definitions.as_ref().map(|path| Definitions::read(path.as_ref())).transpose()?;
        let last_words = log.clone();
        let fatal = Arc::new(move |text: &str| end_the_process(text, &last_words));
        let mqtt = MqttNode::new(mqtt_settings(&config.mqtt));
        let mut options = options(config, &mqtt, fatal);
        options.set_backends(config)?;
        options.cluster = listeners.cluster_options(config, &options, std::mem::take(&mut self.is_founding));
        if definitions.is_some() {
            // As in RabbitMQ: with definitions, neither guest nor the vhost "/" is created.
            options.first_user = None;
        }
        let (mut node, report) = Node::start(lock, options)?;
        log.publish_to(node.handle().broker().notices.clone());
        mqtt.start(node.handle().broker(), node.handle().clock().now());
        tell(&report);
        let durability = durability(config);
        let api = Api::new(node.handle(), node_name(config), start.data_dir.clone(), durability.to_owned());
        set_up(&api, config, start, password_rule, log);
        if let Some(definitions) = definitions {
            load(definitions, &node, &api, config)?;
            node.finish_first_start()?;
        }
        // A recovery and an import aren't broken off: what they have begun is whole when the node stops.
        if is_asked_to_end() {
            self.commands = None;
            node.stop(STOP_REASON);
            return Ok(Ended::Process);
        }
        api.read_timeline();
        node.spawn(api.clone().sample());
        node.spawn(api.clone().resume_transfers());
        node.others_listen(listeners.others());
        for listener in listeners.http {
            listener.serve(&node, leveret_management::api_under(&config.management_path_prefix, api.clone()));
        }
        let pages = config.metrics.clone();
        let pages =
            MetricsOptions { path: pages.path, per_object: pages.per_object, authentication: pages.authentication };
        for listener in listeners.prometheus {
            listener.serve(&node, leveret_management::metrics(api.clone(), pages.clone()));
        }
        self.serve_commands(&node, api.clone());
        let forwarded = api.clone();
        node.answer_forwarded(move |request| leveret_management::answer_forwarded(forwarded.clone(), request));
        let mut reload = Reload {
            arguments: self.arguments.clone(),
            running: config.clone(),
            api: api.clone(),
            node: node.handle(),
            log: log.clone(),
        };
        node.on_hangup(move || reload.now())?;
        let waits_for_nodes = config.target_cluster_size > 1 && !node.is_member();
        if waits_for_nodes {
            // Before a client can connect: its messages would be on this node alone.
            node.handle().broker().drain();
        }
        let ports = node.accept(listeners.clients, listeners.tls)?;
        self.ports = listeners.chosen;
        if waits_for_nodes {
            error!("{}", missing_nodes(config.target_cluster_size));
            node.side_runtime().block_on(node.handle().drain());
        }

        self.announce(&node, ports, config, start, !waits_for_nodes);

        self.begin_change(&node, &api);
        let who = node.wait_for_signal();
        info!("{who}: closing connections and stopping");
        api.write_timeline();
        match who {
            STOP_APP => return Ok(Ended::StopApp(node.stop(STOP_REASON))),
            START_ANEW => {
                let next = node.handle().next_start().unwrap_or(NextStart::Reset);
                return Ok(Ended::StartAnew(node.stop(STOP_REASON), next));
            }
            FOUND_CLUSTER => return Ok(Ended::FoundCluster(node.stop(STOP_REASON))),
            _ => {}
        }
        notify::manager("STOPPING=1");
        // The socket is removed before the lock is released, so that the next node's socket isn't removed.
        self.commands = None;
        node.stop(STOP_REASON);
        Ok(Ended::Process)
    }

    /// Begins the change of the cluster that this start is for, if there is one.
    fn begin_change(&mut self, node: &Node, api: &Api) {
        let Some(change) = self.change.take() else { return };
        let (api, handle) = (api.clone(), node.handle());
        node.spawn(async move {
            if let Err(reason) = api.change_cluster(change).await {
                error!("{reason}");
                handle.change_failed(reason);
            }
        });
    }

    /// Reports that the node runs and, if it serves them, that clients may connect.
    fn announce(&mut self, node: &Node, ports: Ports, config: &Config, start: &Start, is_serving: bool) {
        let is_first = !std::mem::replace(&mut self.has_started, true);
        if is_first {
            let cores = node.handle().connections_per_core().len();
            let banner = Banner { ports, data_directory: &start.data_dir, durability: durability(config), cores };
            // A closed stdout is no reason not to serve. The banner comes before the line in the log, which another
            // thread writes: a program that waits for that line has already got the banner.
            let _ = writeln!(std::io::stdout(), "{banner}");
        }
        if is_serving {
            info!("Server startup complete");
        }
        if !is_first {
            return;
        }
        if is_serving && !self.log.is_on_stdout(LogLevel::Info) {
            let _ = writeln!(std::io::stdout(), "Server startup complete");
        }
        notify::manager("READY=1");
        detached::let_go();
    }

    /// Serves the local socket. If that fails, the node still serves clients; it only can't be commanded.
    fn serve_commands(&mut self, node: &Node, api: Api) {
        let served = match &self.commands {
            Some((_, listener)) => serve_on(listener, leveret_management::local(api), |work| node.spawn(work)),
            None => match node.open_local_socket() {
                Ok((socket, listener)) => {
                    let served = serve_on(&listener, leveret_management::local(api), |work| node.spawn(work));
                    self.commands = Some((socket, listener));
                    served
                }
                Err(reason) => return warn!("rabbitmqctl can't reach this node: {reason}"),
            },
        };
        if let Err(reason) = served {
            warn!("rabbitmqctl can't reach this node: {reason}");
        }
    }
}

/// Serves the local socket as long as the spawned tasks live; the socket itself outlives them.
fn serve_on(
    listener: &UnixListener,
    router: Router,
    spawn: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>),
) -> std::io::Result<()> {
    let listener = listener.try_clone()?;
    spawn(Box::pin(async move {
        if let Err(reason) = leveret_management::serve_local(listener, router).await {
            error!("the socket of rabbitmqctl has failed: {reason}");
        }
    }));
    Ok(())
}

fn tell(report: &Report) {
    if let Some(cut) = &report.cut {
        warn!(
            "the last batch of {} was torn (bytes {} to {}): nothing in it was confirmed; it is kept as {}",
            cut.file, cut.range.start, cut.range.end, cut.kept
        );
    }
    report.damaged.iter().for_each(|damage| error!("storage is damaged: {damage:?}"));
    info!(
        "recovered {} records after the {} logs of the last checkpoint ({})",
        report.replayed,
        report.restored,
        match (report.clean, report.closed) {
            (true, _) => "clean stop",
            (false, true) => "the node was stopped cleanly, and its files were damaged since",
            (false, false) => "the node was not stopped cleanly",
        }
    );
}

/// Ends the process after a failure of storage: nothing may be confirmed any more.
fn end_the_process(text: &str, log: &Log) {
    error!(critical = true, "{text}");
    log.flush(LAST_LINE_PATIENCE);
    eprintln!("leveret: {}", harmless(text));
    std::process::exit(1);
}

/// The settings of MQTT.
fn mqtt_settings(config: &MqttConfig) -> MqttSettings {
    MqttSettings {
        exchange: config.exchange.as_str().into(),
        vhost: config.vhost.as_str().into(),
        allow_anonymous: config.allow_anonymous,
        session_expiry_max_s: config.session_expiry_max_s,
        prefetch: config.prefetch,
        packet_max_unauthenticated: config.packet_max_unauthenticated,
        packet_max: config.packet_max,
        topic_alias_max: config.topic_alias_max,
        disconnects_unauthorized: config.disconnects_unauthorized,
        max_connections: config.max_connections.map(|limit| limit as usize),
        quorum_queues: config.quorum_queues,
        waiting_max: u64::from(config.mailbox_soft_limit) * WAITING_PER_MAILBOX,
        subscriptions_max: config.subscriptions_max as usize,
        retained_max: if config.retains { config.retained_max as usize } else { 0 },
        retained_bytes_max: config.retained_bytes_max,
        ..MqttSettings::default()
    }
}

/// The settings of the stream protocol.
fn stream_settings(config: &StreamConfig) -> StreamSettings {
    let advertised = |host: &Option<String>, port| Advertised { host: host.clone(), port };
    StreamSettings {
        frame_max: config.frame_max,
        initial_frame_max: config.initial_frame_max,
        heartbeat_s: config.heartbeat_s,
        uncompressed_max: config.uncompressed_max,
        partitions_max: config.partitions_max as usize,
        max_connections: config.max_connections.map(|limit| limit as usize),
        advertised: advertised(&config.advertised_host, config.advertised_port),
        advertised_tls: advertised(&config.advertised_tls_host, config.advertised_tls_port),
    }
}

#[test]
fn the_node_that_completes_the_cluster_loads_definitions() {
    assert!(imports_now(false, 1, 3), "it isn't part of a cluster");
    assert!(!imports_now(true, 1, 3) && !imports_now(true, 2, 3));
    assert!(imports_now(true, 3, 3) && imports_now(true, 4, 3) && imports_now(true, 1, 1));
}

/// The node's options, with the protocols that clients speak.
fn options(config: &Config, mqtt: &MqttNode, fatal: Arc<dyn Fn(&str) + Send + Sync>) -> NodeOptions {
    let [mqtt310, mqtt311, mqtt50] = mqtt.protocols().map(Arc::new);
    let stream = Arc::new(StreamProtocol::new(stream_settings(&config.stream)));
    NodeOptions::new(
        config,
        vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol), stream, mqtt310, mqtt311, mqtt50],
        fatal,
    )
}

/// Gives the HTTP API what it shows and holds to.
fn set_up(api: &Api, config: &Config, start: &Start, password_rule: PasswordRule, log: &Log) {
    api.set_configuration(config.effective());
    api.set_plugins(start.enabled_plugins.clone(), &config.plugins);
    api.set_target_cluster_size(config.target_cluster_size);
    api.set_rules(config.management_api.clone());
    api.set_password_rule(password_rule);
    api.set_log(log.clone());
    if let Some(directory) = &config.trace_directory {
        api.set_trace_directory(directory.into());
    }
}

/// Loads definitions, if they are this node's to load.
fn load(definitions: Definitions, node: &Node, api: &Api, config: &Config) -> Result<(), Box<dyn Error>> {
    let (size, wanted) = (api.cluster_size(), config.target_cluster_size);
    if !imports_now(node.is_member(), size, wanted) {
        info!(
            "definitions aren't loaded yet: the cluster has {size} of {wanted} members \
             (cluster_formation.target_cluster_size_hint), and the node that completes it loads them"
        );
        return Ok(());
    }
    let loading = definitions.load(api, config.definitions_skip_if_unchanged, config.definitions_skip_unsupported);
    match node.side_runtime().block_on(loading)? {
        true => info!("definitions are loaded"),
        false => info!("definitions haven't changed since they were loaded"),
    }
    Ok(())
}
