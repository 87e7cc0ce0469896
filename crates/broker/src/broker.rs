//! The node's broker: everything that sessions, disk threads and the HTTP API share.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use leveret_log::{
    BodyFiles, Damage, Disk, DiskError, Done, Hit, Job, JobId, Lane, LiveState, LogId, Next, Options, Report,
    StorageError,
};
use leveret_metrics::{Counters, SizeTotals, Sizes, Totals};
use leveret_model::{
    Command, ConnectionId, DeleteQueue, Identity, MemberNumber, Permit, Queue, QueueId, Refused, RefusedKind,
};
use leveret_queue::{ConsumerId, DeleteIf, MemoryBudget, Place};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::addresses::AddressesElsewhere;
use crate::alarms::{AlarmSource, Alarms};
use crate::asked::{AnswerPlace, NowOrLater, later};
use crate::authenticate::{Authenticate, LoginAttempt, LoginOrigin, LoginOutcome, later_login};
use crate::bodies::{Bodies, BodyJob};
use crate::clients::Clients;
use crate::connection_state::ConnectionStatus;
use crate::deferred::Deferred;
use crate::events;
use crate::group::GroupSlot;
use crate::inquiry::Inquiry;
use crate::log_lines::redeclared::RedeclareLines;
use crate::names::{NameSecret, Names};
use crate::notices::Notices;
use crate::outbox::{Event, Outbox, Wake};
use crate::peer::Peer;
use crate::placed::Placements;
use crate::placed_entries::take_replicas;
use crate::protocol::{Protocol, ProtocolTotals, Protocols, Spoken};
use crate::queue_handle::{LiveAnswer, QueueRef};
use crate::queue_metrics::QueueMetrics;
use crate::quota::Quota;
use crate::reads::{ReadJob, Reads};
use crate::recovered_logs::Logs;
pub use crate::recovered_logs::StartError;
use crate::registry::{ChangeRequest, EndOfQueues, Registry};
use crate::remote::{self, Homes, Lanes};
use crate::replicas::PlacedReplicas;
use crate::reply_to::ReplyTargets;
use crate::services::Services;
use crate::settings::Settings;
use crate::shared_messages::{SharedLimits, SharedMessages};
use crate::spreading::Spreading;
use crate::streams::{LateStream, LocalStream, Placing, Store as _, StoreId, Streams};
use crate::taps::Taps;
use crate::ticket::Ticket;
use crate::time::{Nanos, Now};
use crate::traffic::CoreCounters;
use crate::turn_budget::EXCLUSIVE_QUEUES_PART;
use crate::unauthenticated::{Handshake, Unauthenticated};
use crate::unowned::{Unowned, UnownedLog};
use crate::views::Client;
use crate::wait_for::WaitFor;
use crate::wall_time::{Reading, WallStep, WallTime};

/// No id of a queue, and none follows it.
const NO_MORE_QUEUES: QueueId = QueueId(u64::MAX);

/// The node's broker.
pub struct Broker {
    /// The operator's settings.
    pub settings: Settings,
    /// The control plane.
    pub registry: Arc<Registry>,
    /// The commit streams.
    pub streams: Arc<Streams>,
    /// The ways to queues of other nodes.
    pub lanes: Arc<Lanes>,
    /// The sessions of other nodes' cores that use queues here.
    pub homes: Homes,
    /// The placements of replicated queues.
    pub placements: Arc<Placements>,
    /// The addresses for clients of other nodes.
    pub addresses: AddressesElsewhere,
    /// The node's own log, the first of the streams.
    pub commit: Arc<LocalStream>,
    /// The streams that are logs on this disk, in the order of their ids.
    logs: Vec<Arc<LocalStream>>,
    /// Requests for messages on disk.
    pub reads: Arc<Reads>,
    /// Work that queues leave for their home cores.
    pub deferred: Arc<Deferred>,
    /// Wall time, which follows the system's clock.
    pub wall: WallTime,
    /// The right to a group that stays open, by core.
    group_slots: Box<[Arc<GroupSlot>]>,
    /// The check of passwords and certificates.
    pub authenticator: Arc<dyn Authenticate>,
    /// The memory budget of all queues.
    pub budget: Arc<MemoryBudget>,
    /// Large bodies in files of their own.
    pub bodies: Arc<Bodies>,
    /// Messages that are stored once for several queues.
    pub shared: Arc<SharedMessages>,
    unowned: Unowned,
    /// Alarms that block publishing.
    pub alarms: Alarms,
    /// Requesters that wait for answers without a queue.
    pub replies: Arc<ReplyTargets>,
    /// Sums over all queues.
    pub queue_metrics: Arc<QueueMetrics>,
    /// Open taps of queues and exchanges.
    pub taps: Arc<Taps>,
    /// Quotas of connections and everything they open.
    pub quota: Arc<Quota>,
    /// The budget of bytes that connections hold before their login.
    pub unauthenticated: Arc<Unauthenticated>,
    /// Number of connections that were closed since the start because of their unfinished input.
    pub(crate) unfinished_closed: AtomicU64,
    pub(crate) spreading: Spreading,
    /// The port of the HTTP API, set once it is known. The answer to an HTTP client on an AMQP port names it.
    pub http_port: OnceLock<u16>,
    /// The protocols that clients may speak.
    pub protocols: Protocols,
    counters: Vec<Arc<CoreCounters>>,
    pub(crate) clients: Clients,
    vhosts: Mutex<FxHashMap<Arc<str>, Arc<Counters>>>,
    next_id: AtomicU64,
    /// Bits 32 to 46 of its counter are the node's boot.
    next_consumer: AtomicU64,
    in_maintenance: AtomicBool,
    /// The generator of names for objects that clients leave unnamed.
    pub names: Arc<Names>,
    /// Events and log lines on their way to the broker's own exchanges.
    pub notices: Arc<Notices>,
    /// Number of messages of the broker itself that were dropped, because publishing was blocked or the log was full.
    pub(crate) own_dropped: AtomicU64,
    /// Log lines about declarations that differ from the queue that exists.
    pub redeclared: RedeclareLines,
    /// See [`Broker::channel_max`].
    channel_max: AtomicU16,
    /// See [`Broker::consumer_timeout_ms`].
    consumer_timeout_ms: AtomicU64,
}

/// The parts that a node gives its broker.
pub struct Setup {
    /// Its settings.
    pub settings: Settings,
    /// The protocols that clients speak.
    pub protocols: Vec<Arc<dyn Protocol>>,
    /// Checks who logs in.
    pub authenticator: Arc<dyn Authenticate>,
    /// Counters of each core.
    pub counters: Vec<Arc<Counters>>,
}

impl Broker {
    /// Recovers from a data directory, or begins an empty one.
    ///
    /// # Errors
    /// [`StartError`] with the problem and its location.
    pub fn recover(
        disk: &dyn Disk,
        log_options: Options,
        setup: Setup,
        now: Now,
    ) -> Result<(Arc<Self>, Report), StartError> {
        let logs = (vec![log_options], Streams::by_home as Placing);
        Self::recover_streams(disk, logs, setup, now)
    }

    /// Like [`Broker::recover`], with several logs; `placing` decides which log a queue belongs to. The report is that of the
    /// first log, with the damage of all.
    ///
    /// # Errors
    /// As [`Broker::recover`].
    ///
    /// # Panics
    /// Without options.
    pub fn recover_streams(
        disk: &dyn Disk,
        (options, placing): (Vec<Options>, Placing),
        setup: Setup,
        now: Now,
    ) -> Result<(Arc<Self>, Report), StartError> {
        let Setup { settings, protocols, authenticator, counters } = setup;
        // Before messages of theirs are read from the disk.
        let protocols = Protocols::new(protocols);
        let first = options.first().expect("a node has a log");
        let body_files =
            BodyFiles { piece_bytes: settings.body_piece_bytes, ..BodyFiles::new(first.node_id, first.wal_id) };
        let Logs { logs, mut states, reports } = Logs::recover(disk, options, now)?;
        let commit = logs[0].clone();
        let streams = Arc::new(Streams::new(&logs, placing));
        let late = match settings.answers_late {
            true => join_late(&streams, &logs),
            false => Vec::new(),
        };
        let reads = Arc::new(Reads::default());
        let notices = Arc::new(Notices::new(settings.node_name.clone(), settings.notice_vhosts.clone()));
        let wall = WallTime::new(now);
        let deferred = Arc::new(Deferred::new(counters.len(), wall.epoch().clone()));
        let budget = Arc::new(
            MemoryBudget::new(settings.queue_memory_bytes).with_volatile_limit(settings.volatile_memory_bytes),
        );
        let found = body_files.list(disk).map_err(StorageError::Disk)?;
        let highest = found.last().into_iter().chain(states[0].shared.files.values()).max();
        let bodies = Bodies::new(body_files, highest.map_or(1, |id| id + 1));
        let (copied_to_queues_max, body_file_from) = (settings.copied_to_queues_max, settings.body_file_from);
        let limits = SharedLimits { copied_to_queues_max, body_file_from };
        let shared = std::mem::take(&mut states[0].shared);
        let shared = Arc::new(SharedMessages::new(shared, commit.clone(), bodies.clone(), limits));
        let mut model = std::mem::take(&mut states[0].model);
        model.set_limits(settings.limits.clone());
        model.set_asker(settings.member);
        let names = Arc::new(Names::new(settings.name_secret));
        let replies = Arc::new(ReplyTargets::new(names.clone()));
        let queue_metrics = Arc::new(QueueMetrics::default());
        let taps = Arc::new(Taps::default());
        let lanes = Arc::new(Lanes::default());
        let replicas = Arc::new(PlacedReplicas::new(commit.clone()));
        let left = take_replicas(&mut states[0], &model, &replicas, reports[0].position);
        left.into_iter().for_each(|log| commit.forget(log));
        let placements = Placements::new(replicas);
        let registry = Arc::new(Registry::new(
            model,
            |queue| {
                let at = placing(queue).0 as usize;
                states[at].take(queue.id, &queue.earlier_priorities, reports[at].clean)
            },
            Services {
                streams: streams.clone(),
                reads: reads.clone(),
                deferred: deferred.clone(),
                budget: budget.clone(),
                epoch: wall.epoch().clone(),
                shared: shared.clone(),
                metrics: queue_metrics.clone(),
                counters: counters[0].clone(),
                taps: taps.clone(),
                durability: settings.durability,
                lanes: lanes.clone(),
                placements: placements.clone(),
                process: u32::from_le_bytes(first_four(&settings.name_secret)),
                member: settings.member,
                consumer_disconnected_timeout_ms: settings.consumer_disconnected_timeout_ms,
                first_number: settings.first_number,
                strict_compat: settings.strict_compat,
                standing_delay_target: settings.standing_delay_target,
                late,
            },
            replies.clone(),
            notices.clone(),
            now,
        ));
        let has_given = |log: LogId| registry.has_given(QueueId(log.0));
        let unowned = Unowned::begin(&logs, &mut states, &reports, has_given, |references| shared.restore(references));
        if reports.iter().all(|report| report.damaged.is_empty()) {
            shared.restored(&found);
        }
        let report = whole_report(&logs, reports, &registry);
        let quota = Arc::new(Quota::new(settings.quota.clone(), &settings.node_name));
        let unauthenticated = Arc::new(Unauthenticated::new(settings.unauthenticated_bytes_max));
        let group_slots = counters.iter().map(|_| Arc::default()).collect();
        let next_id = AtomicU64::new(settings.member.id(1));
        // Bit 47 keeps them apart from the other ids, which are keys of a connection's links beside them.
        let next_consumer = AtomicU64::new(settings.member.id(1 << 47 | (settings.boot & 0x7fff) << 32 | 1));
        let channel_max = AtomicU16::new(settings.channel_max);
        let consumer_timeout_ms = AtomicU64::new(settings.consumer_timeout_ms);
        let spoken = protocols.spoken().count();
        let core_counters = |core| Arc::new(CoreCounters::new(core, spoken));
        let broker = Arc::new(Self {
            http_port: OnceLock::new(),
            settings,
            registry,
            streams,
            lanes,
            homes: Homes::default(),
            placements,
            addresses: AddressesElsewhere::default(),
            commit,
            logs,
            reads,
            deferred,
            wall,
            group_slots,
            authenticator,
            budget,
            shared,
            unowned,
            bodies,
            alarms: Alarms::default(),
            replies,
            queue_metrics,
            taps,
            quota,
            unauthenticated,
            unfinished_closed: AtomicU64::new(0),
            spreading: Spreading::default(),
            counters: counters.into_iter().map(core_counters).collect(),
            protocols,
            clients: Clients::default(),
            vhosts: Mutex::default(),
            next_id,
            next_consumer,
            in_maintenance: AtomicBool::new(false),
            names,
            notices,
            own_dropped: AtomicU64::new(0),
            redeclared: RedeclareLines::default(),
            channel_max,
            consumer_timeout_ms,
        });
        if report.damaged.is_empty() {
            broker.delete_lost_exchange_queues(now);
        }
        Ok((broker, report))
    }

    /// Deletes the queues of exchanges that weren't durable.
    fn delete_lost_exchange_queues(self: &Arc<Self>, now: Now) {
        let snapshot = self.registry.snapshot_full();
        for queue in snapshot.topology.lost_exchange_queues() {
            let command =
                DeleteQueue { vhost: queue.vhost.clone(), name: queue.name.clone(), connection: None, id: None };
            if let Err(refused) = self.bootstrap(vec![Command::DeleteQueue(command)], now) {
                tracing::error!(queue = %queue.name, reason = %refused, "the queue of a lost exchange can't be deleted");
            }
        }
    }

    /// The logs that no queue owns, and that are kept until they are deleted: see [`Broker::delete_unowned`].
    pub fn unowned(&self) -> Vec<UnownedLog> {
        self.unowned.list()
    }

    /// Deletes a log that no queue owns, with its messages. Returns whether there was one.
    pub fn delete_unowned(&self, log: u64) -> bool {
        let log = LogId(log);
        let is_there = self.unowned.remove(log);
        if is_there {
            self.commit.forget(log);
        }
        is_there
    }

    /// The time at which [`Broker::follow_clock`] is called next.
    pub fn next_look_at_clock(&self) -> Nanos {
        self.wall.next_turn()
    }

    /// Has wall time follow the system's clock, which `read` reads if it is time to. Returns a great difference that was taken. What is due
    /// by the new time is due at once, and nothing else: heartbeats and all other timeouts go by the monotonic clock.
    pub fn follow_clock(&self, now: Nanos, read: impl FnOnce() -> Reading) -> Option<WallStep> {
        let (was_set, step) = self.wall.turn(now, read);
        if was_set {
            self.deferred.wall_time_was_set();
        }
        step
    }

    /// Number of messages of the broker itself, such as traces, that were dropped.
    pub fn own_dropped(&self) -> u64 {
        self.own_dropped.load(Ordering::Relaxed)
    }

    /// Number of channels that a new connection may open; initially the setting of that name.
    pub fn channel_max(&self) -> u16 {
        self.channel_max.load(Ordering::Relaxed)
    }

    /// Changes that number until the node stops.
    pub fn set_channel_max(&self, channel_max: u16) {
        self.channel_max.store(channel_max, Ordering::Relaxed);
    }

    /// Milliseconds for which a consumer may leave a delivery unsettled, if neither it nor its queue says otherwise; initially the
    /// setting of that name.
    pub fn consumer_timeout_ms(&self) -> u64 {
        self.consumer_timeout_ms.load(Ordering::Relaxed)
    }

    /// Changes that time until the node stops.
    pub fn set_consumer_timeout_ms(&self, milliseconds: u64) {
        self.consumer_timeout_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// Executes commands of the node itself before it serves clients, such as the creation of the first user: no core answers then.
    ///
    /// # Errors
    /// [`Refused`] if the model refuses one; the commands before it stay in effect.
    pub fn bootstrap(self: &Arc<Self>, commands: Vec<Command>, now: Now) -> Result<(), Refused> {
        for command in commands {
            self.registry.change_now(ChangeRequest::new(Permit::system(), command), now.monotonic)?;
        }
        self.registry.publish_when_durable();
        self.streams.announce();
        Ok(())
    }

    /// Has the first core make a call once a condition has ended, however, although no connection waits for it: disk threads only pass
    /// on that it is.
    pub fn call_after(self: &Arc<Self>, wait: WaitFor, call: impl FnOnce(&Arc<Self>, Now) + Send + 'static) {
        // Not the broker itself: a call that is never made would keep it.
        let (broker, deferred) = (Arc::downgrade(self), self.deferred.clone());
        let call = Box::new(move |now| {
            if let Some(broker) = broker.upgrade() {
                call(&broker, now);
            }
        });
        self.streams.when_over(wait, Box::new(move |_| deferred.ask(None, call)));
    }

    /// Deletes a queue together with its link, its last consumer or its connection, if `condition` holds. The queue is gone
    /// once the ticket is durable that is the answer. It is deleted even if nobody waits for that any more.
    pub fn delete_queue(self: &Arc<Self>, queue: &Queue, condition: DeleteIf, now: Now) -> NowOrLater<Ticket> {
        self.registry.end_queue(queue, condition, now.monotonic).map(|ended| ended.ticket)
    }

    /// Deletes an auto-delete queue with its last consumer, unless it has a new one by then; `left` is the number of consumers
    /// that are left, `None` if none was removed. The answer is that of [`Broker::delete_queue`].
    pub fn delete_if_unused(
        self: &Arc<Self>,
        queue: &QueueRef,
        left: NowOrLater<Option<usize>>,
        now: Now,
    ) -> NowOrLater<Ticket> {
        match left {
            NowOrLater::Now(left) => self.delete_with_last(queue.info(), left, now),
            NowOrLater::Later(left) => {
                let (place, gone_at) = later();
                let (broker, info) = (Arc::downgrade(self), queue.info().clone());
                left.then(move |left| {
                    if let Some(broker) = broker.upgrade() {
                        let gone_at = broker.delete_with_last(&info, left, now);
                        gone_at.then(move |gone_at| place.answer(gone_at));
                    }
                });
                NowOrLater::Later(gone_at)
            }
        }
    }

    fn delete_with_last(self: &Arc<Self>, queue: &Queue, left: Option<usize>, now: Now) -> NowOrLater<Ticket> {
        if left != Some(0) || !queue.auto_delete {
            return NowOrLater::Now(Ticket::default());
        }
        let condition = DeleteIf { unused: true, ..DeleteIf::default() };
        self.delete_queue(queue, condition, now)
    }

    /// Deletes some exclusive queues of a connection that ends, with ids from `next` on, and advances `next`. They are gone
    /// once the ticket is durable that is the answer; `None` if there were none. Who gets the answer later is asked no more: all are
    /// deleted then.
    pub fn delete_exclusive_queues(
        self: &Arc<Self>,
        owner: ConnectionId,
        next: &mut QueueId,
        now: Now,
    ) -> Option<NowOrLater<Ticket>> {
        if *next == NO_MORE_QUEUES {
            return None;
        }
        match self.registry.end_exclusive_queues(owner, *next, EXCLUSIVE_QUEUES_PART, now.monotonic) {
            NowOrLater::Now(ended) => {
                *next = ended.next?;
                Some(NowOrLater::Now(ended.ticket))
            }
            ended @ NowOrLater::Later(_) => {
                *next = NO_MORE_QUEUES;
                let (place, all_ended) = later();
                self.end_rest(owner, ended, EndOfQueues::default(), place, now);
                Some(NowOrLater::Later(all_ended).map(|ended| ended.ticket))
            }
        }
    }

    /// Asks for the end of the next exclusive queues when the ones before have ended, and so on until none is left.
    fn end_rest(
        self: &Arc<Self>,
        owner: ConnectionId,
        ended: NowOrLater<EndOfQueues>,
        before: EndOfQueues,
        place: AnswerPlace<EndOfQueues>,
        now: Now,
    ) {
        let broker = Arc::downgrade(self);
        ended.then(move |ended| {
            let so_far = EndOfQueues { ticket: before.ticket.or_later(ended.ticket), next: None };
            let (Some(next), Some(broker)) = (ended.next, broker.upgrade()) else { return place.answer(so_far) };
            let more = broker.registry.end_exclusive_queues(owner, next, EXCLUSIVE_QUEUES_PART, now.monotonic);
            broker.end_rest(owner, more, so_far, place, now);
        });
    }

    /// An id that no connection has, of this process or of another node: see [`ConnectionId`].
    pub fn fresh_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// An id that no consumer has, of any process of any node: another node may find out later that this one was restarted.
    pub fn fresh_consumer_id(&self) -> ConsumerId {
        ConsumerId(self.next_consumer.fetch_add(1, Ordering::Relaxed))
    }

    /// The slot for a group of a core's connections that stays open over several turns.
    pub(crate) fn group_slot(&self, core: usize) -> &Arc<GroupSlot> {
        &self.group_slots[core % self.group_slots.len()]
    }

    /// The slot of the core that this thread is.
    pub fn own_group_slot(&self) -> &Arc<GroupSlot> {
        self.group_slot(remote::core())
    }

    /// Registers a connection that is reached by `outbox`, and returns the counters of its core.
    pub(crate) fn connected(&self, id: ConnectionId, outbox: Arc<Outbox>, core: usize) -> Arc<CoreCounters> {
        self.clients.insert(id, outbox);
        self.counters[core % self.counters.len()].clone()
    }

    /// Registers a socket on which a TLS handshake begins; `wake` is called when it has to be closed.
    pub fn handshake(&self, wake: Arc<dyn Wake>) -> Handshake {
        Handshake::new(self.unauthenticated.clone(), ConnectionId(self.fresh_id()), wake)
    }

    /// Logs in by an offered mechanism. The addresses are those of `peer`. In a cluster, an unknown user and a wrong password are looked at
    /// again once this node has caught up with the others, where they may have been changed.
    pub fn log_in(
        &self,
        peer: &Peer,
        mechanism: &str,
        response: Cow<'_, [u8]>,
        origin: LoginOrigin<'_>,
    ) -> NowOrLater<LoginOutcome> {
        match LoginAttempt::new(&self.settings, peer, mechanism, response, origin) {
            Ok(login) => self.check_login(login),
            Err(reason) => NowOrLater::Now(Err(reason)),
        }
    }

    /// The same without a connection: `response` is PLAIN's.
    pub fn log_in_with(&self, response: Vec<u8>, origin: LoginOrigin<'_>) -> NowOrLater<LoginOutcome> {
        self.check_login(LoginAttempt::plain(response, origin))
    }

    fn check_login(&self, login: LoginAttempt<'_>) -> NowOrLater<LoginOutcome> {
        let topology = self.registry.snapshot().topology.clone();
        if !self.registry.is_placed() {
            return login.check(&*self.authenticator, &topology);
        }
        let is_known = || login.claimed().is_some_and(|name| topology.user(name).is_some());
        // Before a backend elsewhere is asked, which may count what it refuses.
        if self.authenticator.has_users() && !is_known() {
            return self.log_in_once_caught_up(login);
        }
        match login.check(&*self.authenticator, &topology) {
            NowOrLater::Now(Err(_)) => self.log_in_once_caught_up(login),
            outcome => outcome,
        }
    }

    fn log_in_once_caught_up(&self, login: LoginAttempt<'_>) -> NowOrLater<LoginOutcome> {
        let check = login.later(self.authenticator.clone());
        let registry = Arc::downgrade(&self.registry);
        let (place, later) = later_login();
        self.registry.catch_up().then(move |_| {
            let Some(registry) = registry.upgrade() else { return };
            let topology = registry.snapshot().topology.clone();
            check(&topology).then(move |outcome| place.answer(outcome));
        });
        NowOrLater::Later(later)
    }

    /// Checks a message's user-id: it must name its publisher, unless that has the tag `impersonator`.
    ///
    /// # Errors
    /// The text, in RabbitMQ's words.
    pub fn check_user_id(&self, who: &Identity, claimed: &[u8]) -> Result<(), String> {
        if claimed == who.name().as_bytes() || who.has_tag(&self.registry.snapshot().topology, "impersonator") {
            return Ok(());
        }
        let (claimed, user) = (String::from_utf8_lossy(claimed), who.name());
        Err(format!("user_id property set to '{claimed}' but authenticated user was '{user}'"))
    }

    /// Removes a connection whose socket is closed.
    pub fn forget_connection(&self, id: ConnectionId) {
        self.clients.remove(id);
    }

    /// Checks whether one more connection may be opened. Every protocol calls this when a client opens its connection, which is
    /// counted already.
    ///
    /// # Errors
    /// `NotAllowed`, in RabbitMQ's words; AMQP 1.0 uses the condition `amqp:resource-limit-exceeded` for it.
    pub fn check_connection_limit(&self) -> Result<(), Refused> {
        match self.settings.max_connections {
            Some(limit) if self.connection_count() > limit => Err(Refused::new(
                RefusedKind::NotAllowed,
                format!("connection refused: node connection limit ({limit}) is reached; raise max_connections"),
            )),
            _ => Ok(()),
        }
    }

    /// Number of connections.
    pub fn connection_count(&self) -> usize {
        self.clients.count()
    }

    /// The current state of every connection.
    pub fn connection_statuses(&self) -> Vec<ConnectionStatus> {
        let blocked = self.alarms.publishing_blocked();
        self.clients.outboxes().iter().map(|outbox| ConnectionStatus::new(outbox.wait(), blocked)).collect()
    }

    /// Raises or clears the alarm of one source. Every connection is notified. Returns
    /// whether the source wasn't in this state before.
    pub fn set_alarm(&self, source: AlarmSource, raised: bool) -> bool {
        let has_changed = self.alarms.set(source, raised);
        if has_changed {
            events::alarm_changed(&self.notices, source, raised);
            // A connection that is accepted from here on sees the alarm itself. Some wait for one source only.
            self.tell_all(&Event::Alarm);
        }
        has_changed
    }

    /// Sets the alarms of other nodes that block publishers of this one. Every connection is notified of a change.
    pub fn set_alarms_elsewhere(&self, raised: impl Fn(AlarmSource) -> bool) {
        if self.alarms.set_elsewhere(raised) {
            self.tell_all(&Event::Alarm);
        }
    }

    /// Sends an event to every connection.
    fn tell_all(&self, event: &Event) {
        self.clients.outboxes().iter().for_each(|outbox| outbox.send(event.clone()));
    }

    /// Restarts a stream for its clients: those of the stream protocol lose their publishers and subscriptions, are told so, and look
    /// for its leader again. A stream with one member has nothing else to restart.
    pub fn restart_stream(&self, vhost: Arc<str>, stream: Arc<str>) {
        tracing::info!("stream '{stream}' in vhost '{vhost}' is restarted: its clients have to subscribe again");
        self.tell_all(&Event::StreamRestarted { vhost, stream });
    }

    /// Puts the node into maintenance: every open connection is closed and new ones are refused, except for AMQP 1.0 clients
    /// that maintain the node and set the property `ignore-maintenance` in their `open`.
    pub fn drain(&self) {
        self.in_maintenance.store(true, Ordering::SeqCst);
        // A connection that opens from here on sees it itself.
        self.tell_all(&Event::Maintenance);
    }

    /// Ends the maintenance: clients may connect again.
    pub fn revive(&self) {
        self.in_maintenance.store(false, Ordering::SeqCst);
    }

    /// Whether the node is in maintenance.
    pub fn is_in_maintenance(&self) -> bool {
        self.in_maintenance.load(Ordering::SeqCst)
    }

    /// Totals of everything counted so far.
    pub fn totals(&self) -> Totals {
        let cores = Totals::of(self.counters.iter().map(|counters| &*counters.core));
        self.protocols.spoken().fold(cores, |sum, spoken| sum.plus(&self.totals_of(spoken)))
    }

    /// Totals of the connections of each protocol so far.
    pub fn totals_by_protocol(&self) -> Vec<ProtocolTotals> {
        let of = |(spoken, protocol): (Spoken, &Arc<dyn Protocol>)| {
            let mut sizes = SizeTotals::default();
            self.counters.iter().for_each(|counters| sizes.add(&counters.by_protocol[spoken.at].sizes));
            ProtocolTotals { info: spoken.info, totals: self.totals_of(spoken), sizes, refused: protocol.refused() }
        };
        self.protocols.iter().map(of).collect()
    }

    fn totals_of(&self, spoken: Spoken) -> Totals {
        Totals::of(self.counters.iter().map(|counters| &*counters.by_protocol[spoken.at].counters))
    }

    /// Totals of the connections in a vhost so far.
    pub fn totals_in(&self, vhost: &str) -> Totals {
        self.vhosts.lock().get(vhost).map_or_else(Totals::default, |counters| counters.totals())
    }

    /// Counts events that belong to no connection.
    pub(crate) fn count(&self, spoken: Spoken, vhost: &Arc<str>, news: &Totals, sizes: &mut Sizes) {
        let of_protocol = &self.counters[0].by_protocol[spoken.at];
        of_protocol.counters.add(news);
        of_protocol.sizes.take(sizes);
        self.vhost_counters(vhost).add(news);
    }

    /// The shared counters of the connections in a vhost.
    pub fn vhost_counters(&self, vhost: &Arc<str>) -> Arc<Counters> {
        let mut vhosts = self.vhosts.lock();
        if !vhosts.contains_key(vhost) {
            // Otherwise counters of deleted vhosts would accumulate.
            let snapshot = self.registry.snapshot();
            vhosts.retain(|name, counters| snapshot.topology.vhost(name).is_some() || Arc::strong_count(counters) > 1);
        }
        vhosts.entry(vhost.clone()).or_default().clone()
    }

    /// Every open connection, in the order in which they came.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.clients.open()
    }

    /// The open connection of this name.
    pub fn client(&self, name: &str) -> Option<Arc<Client>> {
        self.clients.named(name)
    }

    /// Lists a connection from now on: it is open.
    pub fn opened(&self, client: Client) {
        self.clients.opened(client);
    }

    /// Asks a connection for its state. Returns false if the connection is gone.
    pub fn describe(&self, id: ConnectionId, inquiry: Inquiry) -> bool {
        self.clients.tell(id, Event::Describe(inquiry))
    }

    /// Asks a connection to close for this reason. Returns false if it is gone.
    pub fn close(&self, id: ConnectionId, reason: &str) -> bool {
        self.clients.tell(id, Event::Close(reason.into()))
    }

    /// Ends a connection as if its socket had broken: its client is told nothing. Returns false if the connection is gone.
    pub fn kill(&self, id: ConnectionId) -> bool {
        self.clients.kill(id)
    }

    /// Sets the wake-up for jobs of a lane of the node's own log.
    pub fn set_lane_wake(&self, lane: Lane, wake: Arc<dyn Wake>) {
        self.commit.set_wake(lane, wake);
    }

    /// Sets the wake-up for [`Broker::next_small_write`] of the node's own log, used instead of the commit lane's.
    pub fn set_small_write_wake(&self, wake: Arc<dyn Wake>) {
        self.commit.set_small_write_wake(wake);
    }

    /// Sets the wake-up for reads.
    pub fn set_read_wake(&self, wake: Arc<dyn Wake>) {
        self.bodies.set_read_wake(wake.clone());
        self.reads.set_wake(wake);
    }

    /// The logs of this disk, in the order of their ids.
    pub fn logs(&self) -> &[Arc<LocalStream>] {
        &self.logs
    }

    /// A log of this disk.
    ///
    /// # Panics
    /// If there is none with this id.
    pub fn log(&self, store: StoreId) -> &Arc<LocalStream> {
        &self.logs[usize::from(store.0)]
    }

    /// The next disk job of a lane of a log. Questions about live messages are answered here; the result is for the disk.
    ///
    /// # Errors
    /// [`StorageError`] when the node has to stop.
    pub fn next_job(&self, store: StoreId, lane: Lane, now: Now) -> Result<Next, StorageError> {
        let log = self.log(store);
        log.set_time(now.monotonic);
        loop {
            if log.is_broken() {
                return Err(StorageError::Panicked);
            }
            match log.next_job(lane, now.monotonic) {
                Next::Run(id, Job::Live { logs }) => {
                    let live = self.live_states(log, &logs)?;
                    self.complete(store, id, Ok(Done::Live(live)), now)?;
                }
                next => return Ok(next),
            }
        }
    }

    /// A disk job of a log is done.
    ///
    /// # Errors
    /// [`StorageError`] when the node has to stop: the exact text is for the operator.
    pub fn complete(
        &self,
        store: StoreId,
        id: JobId,
        result: Result<Done, DiskError>,
        now: Now,
    ) -> Result<(), StorageError> {
        let log = self.log(store);
        log.set_time(now.monotonic);
        if log.is_broken() {
            return Err(StorageError::Panicked);
        }
        for error in log.complete(id, result, now.monotonic)? {
            for queue in self.registry.staged_snapshot().queues.values() {
                if let Some(home) = queue.home().filter(|home| home.store().id() == store && home.reads_from(error.log))
                {
                    home.fail(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// A small amount that only has to be written to a log. A core writes it in less time than it takes to wake the commit lane
    /// and to be woken by it. If there is none, the commit lane has to be woken instead.
    pub fn next_small_write(&self, store: StoreId, now: Now) -> Option<(JobId, Job)> {
        let log = self.log(store);
        log.set_time(now.monotonic);
        log.next_small_write(now.monotonic)
    }

    /// The states of these logs, without those whose owner was deleted.
    ///
    /// # Errors
    /// An owner doesn't know its state. Leaving it out would delete its messages.
    fn live_states(&self, store: &LocalStream, logs: &[LogId]) -> Result<Vec<LiveState>, StorageError> {
        // The durable place of the log itself: sessions may not have been notified yet.
        let durable = Place::new(store.inspect(leveret_log::Log::durable));
        let staged = self.registry.staged_snapshot();
        // A queue whose deletion isn't durable still serves its consumers.
        let published = self.registry.snapshot_full();
        let is_local = store.store_id() == StoreId::FIRST;
        let state_of = |log: &LogId| {
            if *log == LogId::METADATA && is_local {
                let (state, place) = self.registry.model_snapshot();
                let position = place.number();
                return Ok(Some(LiveState { log: *log, next: 0, position, state, ..LiveState::default() }));
            }
            if *log == LogId::SHARED && is_local {
                return Ok(Some(self.shared.live_state()));
            }
            let leaving = self.placements.leaving(*log).filter(|_| is_local);
            if leaving.is_none()
                && is_local
                && let Some(state) = self.placements.replicas().live_state(*log, durable.number())
            {
                return Ok(Some(state));
            }
            let id = QueueId(log.0);
            let queue = staged.queues.get(&id).or_else(|| published.queues.get(&id));
            let home = queue.and_then(QueueRef::home).filter(|home| home.store().id() == store.store_id());
            match leaving.or_else(|| home.map(|home| home.clone())) {
                Some(home) => match home.live_state(durable) {
                    LiveAnswer::Live(state) => Ok(Some(state)),
                    LiveAnswer::Deleted => Ok(None),
                    LiveAnswer::Unknown => Err(StorageError::UnknownState { log: *log }),
                },
                None => Ok(self.unowned.live_state(*log)),
            }
        };
        logs.iter().filter_map(|log| state_of(log).transpose()).collect()
    }

    /// Opens the lane of a core to a member, whose calls `wake` is woken for. Consumers of replicated queues that the member leads are
    /// registered there.
    pub fn open_lane(&self, member: MemberNumber, core: usize, wake: Arc<dyn Wake>, now: Nanos) -> Arc<remote::Lane> {
        let lane = self.lanes.open(member, core, &self.streams, wake);
        self.placements.reached(member, core, now);
        lane
    }

    /// Sets the wake-up for writers of body files.
    pub fn set_body_wake(&self, wake: Arc<dyn Wake>) {
        self.bodies.set_wake(wake);
    }

    /// The next body file to write or remove on a disk thread.
    pub fn next_body_job(&self) -> Option<BodyJob> {
        self.bodies.next_job()
    }

    /// The next read to run on a disk thread.
    pub fn next_read(&self) -> Option<ReadJob> {
        self.reads.next(&self.bodies)
    }

    /// Asks every connection to close, with this reason.
    pub fn close_all(&self, reason: &str) {
        self.tell_all(&Event::Close(reason.into()));
    }

    /// A clean stop: records what was delivered and closes the log. The commit lane then drains.
    pub fn stop(&self, now: Now) {
        self.logs.iter().for_each(|log| log.set_time(now.monotonic));
        for queue in self.registry.staged_snapshot().queues.values() {
            // The replicas of a replicated queue take nothing any more.
            if let Some(home) = queue.home().filter(|_| queue.as_placed().is_none()) {
                home.record_delivered();
            }
        }
        self.logs.iter().for_each(|log| log.close());
        self.streams.announce();
    }
}

fn first_four(secret: &NameSecret) -> [u8; 4] {
    [secret[0], secret[1], secret[2], secret[3]]
}

/// Adds the streams of queues that answer in a later turn, one for each log.
fn join_late(streams: &Arc<Streams>, logs: &[Arc<LocalStream>]) -> Vec<Arc<LateStream>> {
    let late: Vec<_> = logs.iter().map(|log| Arc::new(LateStream::new(log.clone(), streams))).collect();
    late.iter().zip(logs).for_each(|(late, log)| streams.join(late.clone(), log.clone()));
    late
}

/// Fails the queues that damage hit. Returns the report of the first log, with the damage of all.
fn whole_report(logs: &[Arc<LocalStream>], mut reports: Vec<Report>, registry: &Registry) -> Report {
    for (log, report) in logs.iter().zip(&reports) {
        report.damaged.iter().for_each(|damage| stop_damaged(registry, log.store_id(), damage));
    }
    let others: Vec<_> = reports.split_off(1).into_iter().flat_map(|report| report.damaged).collect();
    let mut report = reports.remove(0);
    report.damaged.extend(others);
    report
}

/// Fails the queues that lost messages because their log was damaged.
fn stop_damaged(registry: &Registry, store: StoreId, damage: &Damage) {
    let reason = format!("{} bytes {:?}: {}", damage.file, damage.range, damage.reason);
    tracing::error!(reason, "data directory is damaged; the queues it hit are stopped");
    let all = registry.snapshot_full();
    let here = all.queues.values().filter_map(QueueRef::home);
    for queue in here.filter(|queue| queue.store().id() == store) {
        let hit = match &damage.logs {
            Hit::Logs(logs) => logs.iter().any(|log| queue.reads_from(*log)),
            Hit::Any => queue.info().is_logged(),
        };
        if hit {
            queue.fail(reason.clone());
        }
    }
}
