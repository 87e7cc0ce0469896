use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use leveret_backends::LoopbackUsers;
use leveret_broker::protocol::NotSpoken;
use leveret_broker::settings::NameSecret;
use leveret_broker::{AlarmSource, Authenticate, Broker, Protocol, Settings, Setup};
use leveret_log::{Disk, EntryOptions, Options as LogOptions, Report};
use leveret_metrics::Counters;
use leveret_model::{Durability, MemberNumber, PlacementNumber, VhostDefaults};
use leveret_peer::{ForwardedRequest, ForwardedResponse, GossipListener, GossipSetting};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::alarms::{self, AlarmLimits, AlarmMonitor, SharedLimits};
use crate::clock::Clock;
use crate::clock_follower;
use crate::cluster::ClusterRemote;
use crate::cluster::discovery::Discovery;
use crate::cluster::gossip::OwnWords;
use crate::cluster::member::{ask_to_join, forward_http, hand_over, rebalance};
use crate::cluster::view::ClusterView;
use crate::clustering::{ClusterOptions, Clustering, address_of};
use crate::cores::{Acceptors, LinkSeats, Listener, RunningCore, SocketOptions, listen};
use crate::descriptors::{self, Descriptors};
use crate::disk::{DiskThreads, Fatal, FsDisk};
use crate::first_start;
use crate::first_user::{self, FirstUser};
use crate::http::SideRuntime;
use crate::identity::{IDENTITY_FILE, Identity, IdentityError, Standing};
use crate::listener_kind::{HTTP, HTTPS};
use crate::local_socket::{LocalSocket, LocalSocketError};
use crate::lock::DirectoryLock;
use crate::next_start::{Joined, NextStart, START_ANEW};
use crate::offline::STORE;
use crate::population::Population;
use crate::ports::{Listening, Ports, PortsFile};
use crate::random;
use crate::signals;
use crate::start_watch::{self, StartWatch};
use crate::tls::{Tls, TlsError, watch};
use crate::volume::{self, SmallVolume};

/// Longest time that a stop waits for connections to answer `connection.close`.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// Interval at which a stop checks whether all dead letters have been moved.
const DEAD_LETTER_STEP: Duration = Duration::from_millis(2);

/// Options for starting a node.
pub struct NodeOptions {
    /// Number of cores; `None` for as many as the machine and the cgroup's quota allow.
    pub cores: Option<usize>,
    /// Delay after each sync of the write-ahead log; for tests.
    pub sync_delay: Duration,
    /// Milliseconds by which the system's clock is taken to be ahead of what it says, for tests.
    pub clock_ahead_ms: u64,
    /// The log's limits and delays.
    pub log: LogOptions,
    /// Whether files of the log are made shorter on a small volume.
    pub fits_log_to_volume: bool,
    /// The user created on an empty data directory. None if definitions are loaded, and [`Node::finish_first_start`] is
    /// called then.
    pub first_user: Option<FirstUser>,
    /// The configured defaults of new vhosts.
    pub vhost_defaults: leveret_config::VhostDefaults,
    /// The node's own exchanges, by vhost and name, which [`Node::accept`] declares.
    pub own_exchanges: Vec<(String, &'static str)>,
    /// The broker's limits and texts.
    pub broker: Settings,
    /// Limits beyond which publishers are blocked.
    pub alarms: AlarmLimits,
    /// Options of accepted sockets.
    pub sockets: SocketOptions,
    /// The protocols that clients may speak.
    pub protocols: Vec<Arc<dyn Protocol>>,
    /// Checks passwords.
    pub authenticate: Arc<dyn Authenticate>,
    /// Users that `authenticate` lets in from this machine only.
    pub loopback_users: LoopbackUsers,
    /// The node's part of a cluster; `None` if it has no listener for other nodes.
    pub cluster: Option<ClusterOptions>,
    /// Called with the text of a storage error that ends the node. It must end the process.
    pub fatal: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The reason why a node doesn't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory can't be read or written.
    #[error("cannot use {path}: {source}")]
    Directory {
        /// The path that failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The volume of the data directory is too small.
    #[error(transparent)]
    SmallVolume(#[from] SmallVolume),
    /// The node's identity can't be read or written.
    #[error("cannot use {path}: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: IdentityError,
    },
    /// A listener is configured for a protocol that the node doesn't have.
    #[error(transparent)]
    NotSpoken(#[from] NotSpoken),
    /// The content of the data directory can't be recovered.
    #[error(transparent)]
    Recovery(#[from] leveret_broker::StartError),
    /// The first user can't be created as configured.
    #[error("cannot make the default user: {0}")]
    FirstUser(#[from] leveret_model::Refused),
    /// The configured defaults of new vhosts are invalid.
    #[error("cannot give new vhosts their defaults: {0}")]
    VhostDefaults(leveret_model::Refused),
    /// A listener can't be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The host of a listener can't be resolved.
    #[error("cannot listen on host {host}: {source}")]
    Host {
        /// The host as configured.
        host: String,
        /// The system's error.
        source: io::Error,
    },
    /// TLS can't be set up as configured.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The node can't be part of a cluster as configured.
    #[error("{0}")]
    Cluster(String),
    /// A thread or runtime can't be started.
    #[error("cannot start threads: {0}")]
    Threads(#[from] io::Error),
}

/// A running node. To its clients and its log, dropping it without [`Node::stop`] is like a crash.
pub struct Node {
    inner: Arc<Inner>,
    ports_file: Option<PortsFile>,
    /// Ends before the cores, since it wakes their connections.
    alarms: Option<AlarmMonitor>,
    disk_threads: DiskThreads,
    running: Vec<RunningCore>,
    side: SideRuntime,
    stop_signal: Receiver<&'static str>,
    population: Arc<Population>,
    sockets: SocketOptions,
    own_exchanges: Vec<(String, &'static str)>,
    identity: Identity,
    /// Ends before the cores and the broker.
    clustering: Option<Clustering>,
    lock: DirectoryLock,
}

/// The part of a node that the HTTP API and others may use; cheap to clone.
#[derive(Clone)]
pub struct NodeHandle {
    inner: Arc<Inner>,
}

struct Inner {
    broker: Arc<Broker>,
    clock: Clock,
    cores: Vec<Arc<crate::cores::Core>>,
    descriptors: Arc<Descriptors>,
    alarm_limits: Arc<SharedLimits>,
    data_directory: PathBuf,
    loopback_users: LoopbackUsers,
    stop_sender: Sender<&'static str>,
    vhost_defaults: VhostDefaults,
    ports: Mutex<Ports>,
    /// The addresses it listens on; AMQP comes first.
    listening: Mutex<Vec<Listening>>,
    /// The certificates that it presents; set when connections are accepted.
    tls: OnceLock<Vec<Arc<Tls>>>,
    /// None before connections are accepted, and while the node stops.
    acceptors: Mutex<Option<Acceptors>>,
    /// The cluster as this node sees it.
    cluster_view: Option<Arc<ClusterView>>,
    /// The way in which other nodes are found, if the configuration names one.
    discovery: Option<Arc<Discovery>>,
    /// The node's words about itself, for other members.
    own_words: Option<Arc<OwnWords>>,
    /// The way to the cluster's thread, and the port at which other nodes are looked for.
    cluster_remote: Option<(ClusterRemote, u16)>,
    next_start: Mutex<Option<NextStart>>,
    failed_change: Mutex<Option<String>>,
}

impl Node {
    /// Recovers the data directory that `lock` holds, and starts the threads. It accepts no connections yet: see
    /// [`Node::accept`].
    ///
    /// # Errors
    /// The directory can't be used, its content can't be recovered, or a thread can't be started.
    pub fn start(lock: DirectoryLock, mut options: NodeOptions) -> Result<(Self, Report), StartError> {
        let clock = Clock::start_ahead(options.clock_ahead_ms);
        let vhost_defaults = first_user::vhost_defaults(&options.vhost_defaults).map_err(StartError::VhostDefaults)?;
        warn_of_default_type(&vhost_defaults);
        let descriptor_limit = descriptors::raise_limit();
        if let Some(text) = descriptors::warning(descriptor_limit) {
            warn!("{text}");
        }
        let Prepared { data_directory, files, log_options, mut identity, clustering, stop_sender, stop_signal } =
            Prepared::of(&lock, &mut options)?;
        let (disk, fatal): (Arc<dyn Disk>, Fatal) = (files.clone(), options.fatal);
        let watch = StartWatch::begin(start_watch::INTERVAL, |line| info!("{line}"))?;
        watch.step("its store is read");
        let is_member = identity.standing == Standing::Member;
        let count = options.cores.unwrap_or_else(available_cores).max(1);
        let counters: Vec<Arc<Counters>> = (0..count).map(|_| Arc::default()).collect();
        // A new secret for each start, so that names generated by an earlier start are never generated again, whatever
        // the configuration says.
        let settings =
            Settings { name_secret: fresh_secret()?, member: identity.member, boot: identity.boot, ..options.broker };
        let (broker, report) = Broker::recover(
            &*disk,
            log_options.clone(),
            Setup { settings, protocols: options.protocols, authenticator: options.authenticate, counters },
            clock.now(),
        )?;
        watch.step("its threads are started");
        let clock = clock.with_epoch(broker.wall.epoch());
        if let Some(shown) = first_start::cluster_id(&broker.registry.snapshot().topology) {
            let path = data_directory.join(STORE).join(IDENTITY_FILE);
            let error = |source| StartError::Identity { path, source };
            identity.follow(shown, &*disk, &log_options).map_err(error)?;
        }
        let disk_threads = DiskThreads::start(&broker, &disk, &clock, options.sync_delay, &fatal)?;
        let alarm_limits = SharedLimits::new(options.alarms);
        let alarm_monitor = AlarmMonitor::start(&broker, &data_directory, &alarm_limits)?;
        // A node that joins a cluster gets what that has.
        let is_joining = is_member && identity.member != MemberNumber::default();
        if !is_joining {
            first_start::begin(&broker, options.first_user.as_ref(), &vhost_defaults, &identity, &clock)?;
        }
        tell_of_weaker_queues(&broker);
        let running = (0..count).map(|index| RunningCore::start(index, &clock)).collect::<io::Result<Vec<_>>>()?;
        running.iter().for_each(|core| core.serve_queues(&broker));
        if let Some(clustering) = clustering.as_ref().filter(|_| is_member) {
            let entry_options = EntryOptions { file_bytes: log_options.file_bytes, ..EntryOptions::default() };
            let entry_options = EntryOptions { node_id: identity.log_node_id, ..entry_options };
            let seats = Arc::new(LinkSeats::new(&running, &broker));
            watch.step("the entry log of its cluster is read, and files are made for it");
            clustering.attach(&broker, &identity, &disk, (&clock, entry_options), seats, &fatal)?;
        }
        let side = SideRuntime::start()?;
        let view = clustering.as_ref().map(|clustering| clustering.node.view.clone());
        side.spawn(clock_follower::follow(broker.clone(), clock.clone(), view.clone()));
        let population: Arc<Population> = Arc::default();
        let (open, most) = (files.descriptors(), files.descriptors_max());
        let descriptors = Descriptors::share(descriptor_limit, open, most, population.clone());
        let inner = Arc::new(Inner {
            broker,
            clock,
            cores: running.iter().map(|running| running.core.clone()).collect(),
            descriptors,
            alarm_limits,
            data_directory,
            loopback_users: options.loopback_users,
            stop_sender,
            vhost_defaults,
            ports: Mutex::default(),
            listening: Mutex::default(),
            tls: OnceLock::new(),
            acceptors: Mutex::new(None),
            cluster_view: view,
            discovery: clustering.as_ref().and_then(|clustering| clustering.discovery.clone()),
            own_words: clustering.as_ref().map(|clustering| clustering.words.clone()),
            cluster_remote: clustering.as_ref().map(|clustering| (clustering.node.remote(), clustering.peer_port)),
            next_start: Mutex::new(None),
            failed_change: Mutex::new(None),
        });
        if let Some(clustering) = &clustering {
            clustering.words.set_listeners(told_listeners(Arc::downgrade(&inner)));
        }
        let node = Self {
            inner,
            ports_file: None,
            alarms: Some(alarm_monitor),
            disk_threads,
            running,
            side,
            stop_signal,
            population,
            sockets: options.sockets,
            own_exchanges: options.own_exchanges,
            identity,
            clustering,
            lock,
        };
        Ok((node, report))
    }

    /// Opens a listener for [`Node::accept`] or [`Node::spawn`].
    ///
    /// # Errors
    /// The address is taken, not this host's, or not allowed.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
        listen(address).map_err(|source| StartError::Listen { address, source })
    }

    /// Accepts connections on `listeners` and writes `ports.json`, including the ports of `others`. The files of `tls`
    /// are reloaded whenever they change.
    ///
    /// # Errors
    /// `ports.json` can't be written, or a listener accepts a protocol that isn't among those of [`NodeOptions`].
    pub fn accept(&mut self, listeners: Vec<Listener>, tls: Vec<Arc<Tls>>) -> Result<Ports, StartError> {
        // After definitions, which may make the vhosts.
        first_start::declare_own(
            &self.inner.broker,
            &self.own_exchanges,
            &self.inner.vhost_defaults,
            &self.inner.clock,
        )?;
        self.side.spawn(watch(tls.clone()));
        // It is only set once, since a node accepts once.
        let _ = self.inner.tls.set(tls);
        let opened = listeners.iter().filter_map(|listener| {
            Some(Listening { kind: listener.kind, address: listener.socket.local_addr().ok()? })
        });
        let ports = {
            let mut listening = self.inner.listening.lock();
            listening.splice(..0, opened);
            Ports::of(listening.iter().copied())
        };
        if let Some(http) = ports.get(&HTTP).or(ports.get(&HTTPS)) {
            let _ = self.inner.broker.http_port.set(http);
        }
        *self.inner.ports.lock() = ports.clone();
        let acceptors = Acceptors::start(
            listeners,
            &self.running,
            &self.inner.broker,
            &self.population,
            &self.inner.descriptors,
            self.sockets,
        )?;
        *self.inner.acceptors.lock() = Some(acceptors);
        let file = PortsFile::write(self.lock.directory(), &ports)
            .map_err(|source| StartError::Directory { path: self.lock.directory().to_owned(), source })?;
        self.ports_file = Some(file);
        Ok(ports)
    }

    /// Ends a first start whose content comes from definitions: later starts don't treat the directory as empty.
    ///
    /// # Errors
    /// The model refuses the cluster's id.
    pub fn finish_first_start(&self) -> Result<(), StartError> {
        first_start::finish(&self.inner.broker, &self.identity, &self.inner.clock)
    }

    /// Registers the addresses of servers that are spawned on this node, for [`NodeHandle::listening`]. Has to be
    /// called before [`Node::accept`], which adds its own.
    pub fn others_listen(&self, others: impl IntoIterator<Item = Listening>) {
        self.inner.listening.lock().extend(others);
    }

    /// Opens the socket for commands on this machine, for [`Node::spawn`]. It has to be dropped before the node stops,
    /// so that it doesn't remove the next node's socket.
    ///
    /// # Errors
    /// Its path is too long, or it can't be created.
    pub fn open_local_socket(&self) -> Result<(LocalSocket, UnixListener), LocalSocketError> {
        LocalSocket::open(self.lock.directory())
    }

    /// Runs `work` on the runtime beside the cores, which serves HTTP. It is dropped with the node.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.side.spawn(work);
    }

    /// Makes SIGHUP call `work`, on the runtime that serves HTTP.
    ///
    /// # Errors
    /// The system doesn't let the process handle signals.
    pub fn on_hangup(&self, work: impl FnMut() + Send + 'static) -> io::Result<()> {
        signals::on_hangup(self.side.handle(), work)
    }

    /// Answers requests of the HTTP API that other members forward, on the runtime beside the cores.
    pub fn answer_forwarded<F: Future<Output = ForwardedResponse> + Send + 'static>(
        &self,
        answer: impl Fn(ForwardedRequest) -> F + Send + Sync + 'static,
    ) {
        if let Some(clustering) = &self.clustering {
            clustering.http.answer_with(self.side.handle().clone(), answer);
        }
    }

    /// The runtime beside the cores.
    #[must_use]
    pub fn side_runtime(&self) -> &tokio::runtime::Handle {
        self.side.handle()
    }

    /// Whether it is a member of a cluster.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.identity.standing == Standing::Member
    }

    /// The part of the node that others may use.
    #[must_use]
    pub fn handle(&self) -> NodeHandle {
        NodeHandle { inner: self.inner.clone() }
    }

    /// Waits until the process is asked to stop, by SIGTERM, SIGINT or [`NodeHandle::ask_to_stop`]. Returns the name of
    /// the requester. A signal that came before the node started counts.
    #[must_use]
    pub fn wait_for_signal(&self) -> &'static str {
        // The node has a sender itself, so there is one as long as it waits.
        self.stop_signal.recv().unwrap_or("the end of its senders")
    }

    /// Stops cleanly: accepts no new connections, sends `connection.close` with `reason` to the existing ones, then
    /// writes everything and a closing record to disk. Returns the lock of the data directory, for another start.
    pub fn stop(mut self, reason: &str) -> DirectoryLock {
        self.ports_file = None;
        if let Some(mut acceptors) = self.inner.acceptors.lock().take() {
            acceptors.suspend();
        }
        self.alarms = None;
        self.inner.broker.close_all(reason);
        let left = self.population.wait_until_empty(CLOSE_PATIENCE);
        if left > 0 {
            info!("{left} connections did not answer connection.close in {CLOSE_PATIENCE:?} and are cut off");
        }
        let patience = std::time::Instant::now() + CLOSE_PATIENCE;
        while self.inner.broker.has_dead_letters() && std::time::Instant::now() < patience {
            std::thread::sleep(DEAD_LETTER_STEP);
        }
        if let Some(clustering) = self.clustering.take() {
            clustering.node.stop();
        }
        // Dropping their tasks notifies the broker, which has to happen before the log gets its closing record.
        self.running.iter_mut().for_each(RunningCore::stop);
        self.side.stop();
        self.inner.broker.stop(self.inner.clock.now());
        self.disk_threads.drain();
        self.lock
    }
}

impl NodeHandle {
    /// The broker.
    #[must_use]
    pub fn broker(&self) -> &Arc<Broker> {
        &self.inner.broker
    }

    /// Puts the node into maintenance: closes its listeners for clients, then its connections, except those of AMQP 1.0
    /// clients that ignore maintenance. HTTP continues.
    pub async fn drain(&self) {
        info!("This node is being put into maintenance (drain) mode");
        let tasks = self.inner.acceptors.lock().as_mut().map(Acceptors::suspend).unwrap_or_default();
        for task in tasks {
            // The task ends by being cancelled; its listener is closed then.
            let _ = task.await;
        }
        self.inner.broker.drain();
        info!("Suspended all listeners and will no longer accept client connections");
    }

    /// Closes the listeners for clients; connections and HTTP continue. [`NodeHandle::revive`] opens the listeners again.
    pub async fn suspend_listeners(&self) {
        let tasks = self.inner.acceptors.lock().as_mut().map(Acceptors::suspend).unwrap_or_default();
        for task in tasks {
            // The task ends by being cancelled; its listener is closed then.
            let _ = task.await;
        }
        info!("Suspended all listeners and will no longer accept client connections");
    }

    /// Ends the maintenance: opens the listeners again.
    ///
    /// # Errors
    /// The address is in use by now; the node stays in maintenance.
    pub fn revive(&self) -> io::Result<()> {
        if let Some(acceptors) = &mut *self.inner.acceptors.lock() {
            acceptors.resume(|| self.inner.broker.revive())?;
            info!("Resumed all listeners and will accept client connections again");
        }
        Ok(())
    }

    /// The cluster as this node sees it; `None` without a listener for other nodes.
    #[must_use]
    pub fn cluster(&self) -> Option<&Arc<ClusterView>> {
        self.inner.cluster_view.as_ref()
    }

    /// The names of the nodes that discovery finds; none if the configuration names no way. May take some seconds, in which the thread
    /// waits for name servers.
    ///
    /// # Errors
    /// Names can't be found.
    pub fn discover_peers(&self) -> Result<Vec<String>, String> {
        self.inner.discovery.as_ref().map_or(Ok(Vec::new()), |discovery| discovery.names())
    }

    /// Forwards a request of the HTTP API to a member of the cluster.
    ///
    /// # Errors
    /// The member can't be reached, doesn't respond in time, or the request or the response is too large.
    pub async fn forward(
        &self,
        member: MemberNumber,
        request: ForwardedRequest,
        within: Duration,
    ) -> Result<ForwardedResponse, String> {
        let (remote, _) = self.inner.cluster_remote.as_ref().ok_or("the node has no cluster")?;
        let (sender, response) = tokio::sync::oneshot::channel();
        // An asker that is gone needs no response.
        forward_http(remote, member, request, within, move |response| sender.send(response).unwrap_or_default());
        response.await.unwrap_or_else(|_| Err("the node stops".to_owned()))
    }

    /// Hands the leadership of a placement of queues over to another member.
    ///
    /// # Errors
    /// This node doesn't lead it, or the other can't, or doesn't within 3 s.
    pub async fn hand_over(&self, placement: PlacementNumber, to: MemberNumber) -> Result<(), String> {
        let (remote, _) = self.inner.cluster_remote.as_ref().ok_or("the node has no cluster")?;
        let (sender, done) = tokio::sync::oneshot::channel();
        // An asker that is gone needs no answer.
        hand_over(remote, (placement, to), move |result| sender.send(result).unwrap_or_default());
        done.await.unwrap_or_else(|_| Err("the node stops".to_owned()))
    }

    /// Hands the leaderships over that other members are to have.
    pub async fn rebalance(&self) {
        if let Some((remote, _)) = &self.inner.cluster_remote {
            let (sender, done) = tokio::sync::oneshot::channel();
            rebalance(remote, move || sender.send(()).unwrap_or_default());
            // It is over as well if the node stops.
            let _ = done.await;
        }
    }

    /// The keys of the configuration that were set, as other members compare them; `None` without a listener for other nodes.
    #[must_use]
    pub fn own_settings(&self) -> Option<&[GossipSetting]> {
        self.inner.own_words.as_ref().map(|words| &*words.settings)
    }

    /// Asks a node of another cluster, or one that is alone, to take this one as a member. Then this node has to start anew, which removes
    /// all that it has.
    ///
    /// # Errors
    /// The other node can't be reached, or refuses.
    pub async fn join_cluster(&self, name: &str) -> Result<NextStart, String> {
        let none = || "this node has no listener for other nodes; set cluster.listeners.tcp.default".to_owned();
        let (remote, port) = self.inner.cluster_remote.as_ref().ok_or_else(none)?;
        let (sender, joined) = tokio::sync::oneshot::channel();
        let address = address_of(name, *port);
        // An asker that is gone needs no answer.
        ask_to_join(remote, name.to_owned(), address, move |joined| sender.send(joined).unwrap_or_default());
        let joined = joined.await.map_err(|_| "the node stops".to_owned())?;
        joined.map(|membership| NextStart::Joined(Joined(membership)))
    }

    /// Stops the node, and starts it as this says.
    pub fn start_anew(&self, next: NextStart) {
        *self.inner.next_start.lock() = Some(next);
        self.ask_to_stop(START_ANEW);
    }

    /// Notes that a change of its cluster, for which it was started, has failed.
    pub fn change_failed(&self, reason: String) {
        *self.inner.failed_change.lock() = Some(reason);
    }

    /// The reason why the change failed for which it was started.
    #[must_use]
    pub fn failed_change(&self) -> Option<String> {
        self.inner.failed_change.lock().clone()
    }

    /// The state of the node after its next start, if that is another one.
    #[must_use]
    pub fn next_start(&self) -> Option<NextStart> {
        *self.inner.next_start.lock()
    }

    /// The node's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// The TLS of its listeners.
    #[must_use]
    pub fn tls(&self) -> &[Arc<Tls>] {
        self.inner.tls.get().map_or(&[], Vec::as_slice)
    }

    /// The ports it listens on.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.inner.ports.lock().clone()
    }

    /// The addresses that it listens on unless its listeners are suspended.
    #[must_use]
    pub fn listening(&self) -> Vec<Listening> {
        self.inner.listening.lock().clone()
    }

    /// The addresses that it listens on at the moment: without those for clients while these are suspended.
    #[must_use]
    pub fn open_listeners(&self) -> Vec<Listening> {
        let is_suspended = self.inner.acceptors.lock().as_ref().is_some_and(Acceptors::is_suspended);
        let mut open = self.listening();
        open.retain(|listening| !(is_suspended && listening.kind.is_for_clients));
        open
    }

    /// Connections on each core, handshakes included.
    #[must_use]
    pub fn connections_per_core(&self) -> Vec<usize> {
        self.inner.cores.iter().map(|core| core.connections()).collect()
    }

    /// Limits beyond which publishers are blocked.
    #[must_use]
    pub fn alarm_limits(&self) -> AlarmLimits {
        self.inner.alarm_limits.current()
    }

    /// Free space below which publishers are blocked at the moment: if the disk is too full for the log, the space that
    /// the log needs to continue.
    #[must_use]
    pub fn disk_free_limit(&self) -> u64 {
        alarms::limit_in_force(&self.inner.broker, self.alarm_limits().disk_free_bytes)
    }

    /// Changes the limits beyond which publishers are blocked, until the node stops, and measures at once.
    pub fn change_alarm_limits(&self, change: impl FnOnce(&mut AlarmLimits)) {
        self.inner.alarm_limits.change(change);
    }

    /// Forces an alarm regardless of measurements, or returns it to measurements; in effect on return.
    pub fn force_alarm(&self, source: AlarmSource, is_forced: bool) {
        self.inner.alarm_limits.force(source, is_forced);
        alarms::check(&self.inner.broker, &self.inner.data_directory, &self.inner.alarm_limits);
    }

    /// Users that may log in from this machine only.
    #[must_use]
    pub fn loopback_users(&self) -> &LoopbackUsers {
        &self.inner.loopback_users
    }

    /// Asks the node to stop, like a signal; `who` is the requester's name in its log.
    pub fn ask_to_stop(&self, who: &'static str) {
        // It only fails if the node is stopping already.
        let _ = self.inner.stop_sender.send(who);
    }

    /// The defaults of new vhosts.
    #[must_use]
    pub fn vhost_defaults(&self) -> &VhostDefaults {
        &self.inner.vhost_defaults
    }

    /// Files and sockets that the process may have open.
    #[must_use]
    pub fn descriptor_limit(&self) -> u64 {
        self.inner.descriptors.limit()
    }

    /// The shares of that limit for AMQP and HTTP.
    #[must_use]
    pub fn descriptors(&self) -> &Arc<Descriptors> {
        &self.inner.descriptors
    }
}

/// The open listeners of a node, for the other members.
fn told_listeners(inner: Weak<Inner>) -> impl Fn() -> Vec<GossipListener> {
    let told = |listening: &Listening| GossipListener {
        interface: listening.interface(),
        port: listening.address.port(),
        protocol: listening.kind.protocol.to_owned(),
        purpose: listening.kind.purpose.to_owned(),
    };
    move || {
        let open = inner.upgrade().map(|inner| NodeHandle { inner }.open_listeners());
        open.iter().flatten().map(told).collect()
    }
}

/// Logs which messages don't survive which failures, so that operators find it in the log of a start.
fn tell_of_weaker_queues(broker: &Broker) {
    let snapshot = broker.registry.snapshot();
    let weaker = |durability| {
        snapshot.queues.values().filter(|queue| queue.info().is_logged() && queue.durability() == durability).count()
    };
    let (os, memory) = (weaker(Durability::Os), weaker(Durability::Memory));
    if os > 0 {
        info!("durability os in {os} queues: a power cut may take messages that were confirmed");
    }
    if memory > 0 {
        info!("durability memory in {memory} durable queues: their messages don't survive a restart");
    }
}

/// Cores of this machine that the process may use, by affinity and the cgroup's quota.
/// Bytes of the operating system's randomness. Early in a machine's boot it may take a moment to gather them.
fn fresh_secret() -> io::Result<NameSecret> {
    let mut secret = NameSecret::default();
    random::fill(&mut secret)?;
    Ok(secret)
}

fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The data directory of a node that starts: its disk and identity, and its part in a cluster.
struct Prepared {
    data_directory: PathBuf,
    files: Arc<FsDisk>,
    log_options: LogOptions,
    identity: Identity,
    clustering: Option<Clustering>,
    stop_sender: Sender<&'static str>,
    stop_signal: Receiver<&'static str>,
}

impl Prepared {
    fn of(lock: &DirectoryLock, options: &mut NodeOptions) -> Result<Self, StartError> {
        let data_directory = lock.directory().to_owned();
        let directory = |path: PathBuf| move |source| StartError::Directory { path, source };
        PortsFile::remove_stale(&data_directory).map_err(directory(data_directory.clone()))?;
        PortsFile::reserve(&data_directory);
        let store = data_directory.join(STORE);
        let files = Arc::new(FsDisk::open(&store).map_err(directory(store.clone()))?);
        let disk: Arc<dyn Disk> = files.clone();
        let log_options = match options.fits_log_to_volume {
            true => volume::fitted(options.log.clone(), &data_directory)?,
            false => options.log.clone(),
        };
        let identity_error = |source| StartError::Identity { path: store.join(IDENTITY_FILE), source };
        let standing = options.cluster.as_ref().map_or_else(Standing::default, ClusterOptions::first_standing);
        let mut identity =
            Identity::begin(&*disk, &log_options, standing, &mut random::fill).map_err(identity_error)?;
        let log_options = LogOptions { node_id: identity.log_node_id, ..log_options };
        let (stop_sender, stop_signal) = signals::listen()?;
        let begun = identity;
        let clustering = options
            .cluster
            .take()
            .map(|cluster| cluster.begin(&mut identity, &data_directory, stop_sender.clone(), &options.fatal));
        let clustering = clustering.transpose()?;
        if identity != begun {
            identity.write(&*disk, &log_options).map_err(identity_error)?;
        }
        let is_member = identity.standing == Standing::Member;
        if is_member && clustering.is_none() {
            let text = "the node is a member of a cluster, and has no listener for other nodes; set cluster.listeners.tcp.default";
            return Err(StartError::Cluster(text.to_owned()));
        }
        Ok(Self { data_directory, files, log_options, identity, clustering, stop_sender, stop_signal })
    }
}

/// Warns of a default type of queues that is switched off.
fn warn_of_default_type(vhost_defaults: &VhostDefaults) {
    if vhost_defaults.queue_types.has(vhost_defaults.queue_type) {
        return;
    }
    let name = vhost_defaults.queue_type.name();
    warn!(
        "queue_types.{name}.enabled = false switches off what default_queue_type says, {name}: in new vhosts, queues that \
         are declared without a type are refused; set default_queue_type to another type"
    );
}
