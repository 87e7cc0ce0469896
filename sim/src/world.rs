//! A broker on virtual cores, with clients, disk lanes and a clock. Each step is one choice of the seed: a turn of a
//! connection's task, some bytes from or to a client, a step of a disk lane, or an advance of the clock.
//!
//! A turn is atomic, and so is everything that a core does in one wake-up; the hand-off between cores is explored in
//! finer steps with `shuttle`.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use leveret_broker::asked::NowOrLater;
use leveret_broker::streams::StoreId;
use leveret_broker::streams::{Placing, Streams};
use leveret_broker::ticket::{StreamId, Ticket};
use leveret_broker::{Broker, Peer, Protocol, Settings, Setup};
use leveret_log::{Lane, Options, Report};
use leveret_metrics::Counters;
use leveret_model::{Command, MemberNumber, PutUser, SetPermissions};
use leveret_queue::QueueState;
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;
use leveret_session_stream::StreamProtocol;

use crate::backend::Backend;
use crate::clock::Clock;
use crate::cores::{Cores, TaskWake};
use crate::disk::{SimDisk, User};
use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::lanes::{BodyLane, DiskLane, ReadLane};
use crate::link::{End, Link};
use crate::random::Random;
use crate::tally::Tally;
use crate::task::Task;

/// Number of virtual cores.
const CORES: usize = 3;
/// Number of disk lanes of each log.
const LANES: usize = 3;
/// Index of the lane that stands for cores that do small writes themselves.
const SMALL_WRITES: usize = 2;

/// A log whose sizes are so small that a short trace reaches everything.
#[must_use]
pub fn small_log() -> Options {
    Options {
        file_bytes: 64 << 10,
        buffer_bytes: 48 << 10,
        reserve_bytes: 8 << 10,
        mixed_below: 8 << 10,
        unretired_max: 2,
        survey_interval: 50_000_000,
        node_id: 7,
        ..Options::default()
    }
}

/// The logs of a broker, each a commit stream.
#[derive(Clone)]
pub struct Logs {
    /// The options of each, in the order of their ids.
    pub options: Vec<Options>,
    /// Decides which log a queue belongs to.
    pub placing: Placing,
}

impl From<Options> for Logs {
    fn from(options: Options) -> Self {
        Self { options: vec![options], placing: Streams::by_home }
    }
}

/// A simulated broker and its surroundings.
pub struct World {
    /// The disk.
    pub disk: Arc<SimDisk>,
    /// The broker.
    pub broker: Arc<Broker>,
    /// The source of every choice.
    pub random: Random,
    /// The clock.
    pub clock: Clock,
    /// The hash of all events.
    pub hash: EventHash,
    /// The counters.
    pub tally: Tally,
    /// The backend of logins.
    pub backend: Arc<Backend>,
    /// Clients with their tasks.
    pub links: Vec<Link>,
    cores: Arc<Cores>,
    /// The possible next actions; kept to reuse its memory.
    actions: Vec<Action>,
    /// The lanes, [`LANES`] of each log.
    lanes: Vec<DiskLane>,
    /// A stalled commit stream: its disk lanes do nothing.
    pub still: Option<StoreId>,
    reads: ReadLane,
    bodies: BodyLane,
    /// Number of steps of disk lanes in a row that didn't change the disk.
    fruitless: u32,
    /// The reason why the node had to stop, after its disk refused an operation: nothing moves any more.
    pub stopped: Option<String>,
    /// Clients don't vanish, and remove nothing, in the middle of something: every count is known exactly.
    pub is_gentle: bool,
    /// Most publishes only have to be written: batch after batch waits for no sync.
    pub is_rarely_synced: bool,
    /// Sockets are good ones.
    is_quick: bool,
    /// Queues that stopped by themselves, since the disk didn't return their data.
    pub failed: BTreeSet<String>,
}

/// Number of idle checks after which a lane will never find work, if nothing else happens.
const FRUITLESS_MAX: u32 = 5_000;

#[derive(Clone, Copy)]
enum Action {
    Core(usize),
    Send(usize),
    Receive(usize),
    Lane(usize),
    Read,
    Body,
    Deferred(usize),
    Backend,
}

impl World {
    /// Starts a broker on the contents of the disk.
    ///
    /// # Errors
    /// It doesn't start, or reports damage although bytes were only changed by power cuts.
    pub fn start(disk: Arc<SimDisk>, log: impl Into<Logs>, seed: u64) -> Result<(Self, Report), Failure> {
        Self::start_at(Clock::default(), disk, log, seed)
    }

    /// Like [`World::start`], at another time.
    ///
    /// # Errors
    /// Like [`World::start`].
    pub fn start_at(
        clock: Clock,
        disk: Arc<SimDisk>,
        log: impl Into<Logs>,
        seed: u64,
    ) -> Result<(Self, Report), Failure> {
        let (world, report) = Self::start_damaged(clock, disk, log, seed)?;
        if report.damaged.is_empty() {
            return Ok((world, report));
        }
        Err(Failure::new(Check::Starts, format!("damage was reported: {:?}", report.damaged)))
    }

    /// Like [`World::start_at`], on a faulty disk.
    ///
    /// # Errors
    /// It doesn't start.
    pub fn start_damaged(
        clock: Clock,
        disk: Arc<SimDisk>,
        log: impl Into<Logs>,
        seed: u64,
    ) -> Result<(Self, Report), Failure> {
        let counters = (0..CORES).map(|_| Arc::new(Counters::default())).collect();
        let mut random = Random::new(seed);
        let settings = Settings {
            queue_memory_bytes: 64 << 10,
            name_secret: (u128::from(seed) << 64 | u128::from(seed)).to_le_bytes(),
            // With small frames, messages come in parts.
            frame_max: [8_192, 131_072][random.below(2) as usize],
            // Heartbeats are off, as a simulation with them would never come to rest.
            heartbeat_s: 0,
            // Most seeds share messages to two or more queues, some copy them.
            copied_to_queues_max: [1, 1, 8][random.below(3) as usize],
            // Every other seed splits much of its work into parts of a consumer or two.
            turn_work_max: [100, 25_000][(seed % 2) as usize],
            body_file_from: 4096,
            // Large bodies have several pieces.
            body_piece_bytes: 2048,
            // Sets of numbers use containers of 65,536, so some seeds begin near the end of one.
            // Simulated time may jump by hours, and its clients don't expect their messages to be taken back meanwhile.
            consumer_timeout_ms: u64::MAX,
            first_number: [0, 65_535 - random.below(150)][random.below(2) as usize],
            // A member of a cluster has greater ids.
            member: MemberNumber([0, 32_767][(seed / 4 % 2) as usize]),
            // Half of the seeds, whatever their turns.
            answers_late: seed / 2 % 2 == 1,
            ..Settings::default()
        };
        disk.act_as(User::Start);
        let protocols: Vec<Arc<dyn Protocol>> =
            vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol), Arc::new(StreamProtocol::default())];
        let Logs { options, placing } = log.into();
        let backend = Arc::<Backend>::default();
        let recovered = Broker::recover_streams(
            &*disk,
            (options, placing),
            Setup { settings, protocols, authenticator: backend.clone(), counters },
            clock.now(),
        );
        let (broker, report) = recovered.map_err(|error| Failure::new(Check::Starts, error.to_string()))?;
        let clock = clock.with_epoch(broker.wall.epoch());
        let slowness = [1, 1, 1, 40][random.below(4) as usize];
        let is_gentle = random.below(4) == 0;
        let is_rarely_synced = random.below(4) == 0;
        let mut lanes = Vec::new();
        for log in broker.logs() {
            let commit = DiskLane::new(log.store_id(), Lane::Commit, slowness);
            let small_writes = DiskLane::small_writes(&commit);
            let background = DiskLane::new(log.store_id(), Lane::Background, slowness);
            log.set_wake(Lane::Commit, commit.wake.clone());
            log.set_wake(Lane::Background, background.wake.clone());
            log.set_small_write_wake(small_writes.wake.clone());
            lanes.extend([commit, background, small_writes]);
        }
        let mut world = Self {
            disk,
            broker,
            backend,
            random,
            clock,
            hash: EventHash::default(),
            tally: Tally::default(),
            links: Vec::new(),
            cores: Cores::new(CORES),
            actions: Vec::new(),
            lanes,
            still: None,
            reads: ReadLane::default(),
            bodies: BodyLane::default(),
            fruitless: 0,
            stopped: None,
            is_gentle,
            is_rarely_synced,
            is_quick: false,
            failed: BTreeSet::new(),
        };
        world.note_failed();
        world.note_report(&report);
        world.broker.set_read_wake(world.reads.wake.clone());
        world.broker.set_body_wake(world.bodies.wake.clone());
        // Recovery may have found body files without references.
        world.bodies.wake.wake_again();
        // This is also needed if the power was cut between the record of that user and the one of its permissions.
        let topology = world.broker.registry.snapshot().topology.clone();
        if topology.users().next().is_none() || topology.permissions().next().is_none() {
            world.first_user()?;
        }
        Ok((world, report))
    }

    /// From now on sockets are good ones, and syncs take this time in nanoseconds: rates and delays mean something.
    pub fn quicken(&mut self, sync: u64) {
        self.is_quick = true;
        self.lanes.iter_mut().for_each(|lane| lane.quicken(sync));
    }

    fn note_report(&mut self, report: &Report) {
        let names = self.disk.names().into_iter().filter(|name| name.starts_with("body-"));
        let is_begun = |name: &String| self.disk.content(name).is_some_and(|bytes| !bytes.starts_with(b"LVRD"));
        let begun = names.filter(is_begun).count();
        self.tally.add("body files left unfinished", begun as u64);
        self.tally.add("batches torn by a power cut", report.cut.is_some().into());
        self.tally.add("checkpoints restored", (report.restored > 0).into());
        self.tally.add("records replayed", report.replayed);
        self.tally.add("messages of open groups withdrawn", report.withdrawn);
        let in_force = self.disk.names().into_iter().rfind(|name| name.starts_with("checkpoint-")).unwrap_or_default();
        for name in &report.removed {
            self.tally.hit(match name {
                name if name.starts_with("wal-") => "WAL files without need removed",
                name if name.starts_with("segment-") => "segments without a checkpoint removed",
                name if *name > in_force => "torn checkpoints passed over",
                _ => "old checkpoints removed",
            });
        }
    }

    /// Creates the first user before any client connects, as a node does.
    fn first_user(&mut self) -> Result<(), Failure> {
        // The shortest pattern that matches everything, and the fastest to compile.
        let all = || String::from("^");
        let commands = vec![
            Command::CreateVhost { name: "/".into() },
            Command::PutUser(PutUser {
                name: "guest".into(),
                password_hash: None,
                hashing_algorithm: "rabbit_password_hashing_sha256".into(),
                tags: Vec::new(),
            }),
            Command::SetPermissions(SetPermissions {
                user: "guest".into(),
                vhost: "/".into(),
                configure: all(),
                write: all(),
                read: all(),
            }),
        ];
        let wanted = self
            .broker
            .bootstrap(commands, self.clock.now())
            .map(|()| self.broker.streams.local().appended())
            .map_err(|error| Failure::new(Check::Runs, error.to_string()))?;
        while !self.broker.streams.is_durable(Ticket::new(StreamId::LOCAL, wanted)) {
            if !self.step()? {
                return Err(Failure::new(Check::Answered, "the first user never became durable"));
            }
        }
        self.broker.registry.publish();
        Ok(())
    }

    /// Connects a new client, over a socket whose size the seed chooses; returns its link's index.
    pub fn connect(&mut self, end: End) -> usize {
        let capacity = [300, 4_000, 70_000, 1 << 20][self.random.below(4) as usize];
        self.connect_over(end, if self.is_quick { 70_000 } else { capacity })
    }

    /// Connects a new client, over a socket with this capacity in bytes; returns its link's index.
    pub fn connect_over(&mut self, end: End, capacity: usize) -> usize {
        let task = self.links.len();
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let peer = Peer::new(address(10_000 + task as u16), address(5672));
        let wake = Arc::new(TaskWake { cores: self.cores.clone(), task });
        let connection =
            self.broker.accept(&self.broker.protocols, peer, wake, self.cores.home(task), self.clock.now());
        self.links.push(Link::new(end, Task::new(connection, capacity)));
        task
    }

    /// Breaks a client's socket.
    pub fn disconnect(&mut self, link: usize) {
        let now = self.clock.now();
        self.links[link].close(now);
        // The end of its resources may take several turns.
        self.cores.wake(link);
    }

    /// Makes one step. False if nothing can move, even later.
    ///
    /// # Errors
    /// A broken rule.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.step_before(u64::MAX)
    }

    /// The answer to a question, which may come in a later turn.
    ///
    /// # Errors
    /// A broken rule, or nothing can move while the answer isn't there.
    pub fn answer<T: Send + 'static>(&mut self, asked: NowOrLater<T>) -> Result<T, Failure> {
        let later = match asked {
            NowOrLater::Now(answer) => return Ok(answer),
            NowOrLater::Later(later) => later,
        };
        loop {
            if let Some(answer) = later.take() {
                return Ok(answer);
            }
            if !self.step()? {
                return Err(Failure::new(Check::Answered, "an answer that comes later never comes"));
            }
        }
    }

    /// Makes one step before `limit`, in nanoseconds of the clock. False if nothing can move until then; the clock is there
    /// afterwards.
    ///
    /// # Errors
    /// A broken rule.
    pub fn step_until(&mut self, limit: u64) -> Result<bool, Failure> {
        let has_moved = self.step_before(limit)?;
        if !has_moved {
            self.pass_time(limit);
        }
        Ok(has_moved)
    }

    fn step_before(&mut self, limit: u64) -> Result<bool, Failure> {
        if self.stopped.is_some() {
            return Ok(false);
        }
        self.clock.advance(self.random.below(4_000));
        if !self.can_act() {
            let Some(next) = self.next_time().filter(|at| *at < limit) else { return Ok(false) };
            self.pass_time(next);
            if !self.can_act() {
                return Ok(true);
            }
        }
        self.act_once()?;
        Ok(true)
    }

    /// Whether something can be done now.
    pub(crate) fn can_act(&mut self) -> bool {
        self.clock.follow(&self.broker);
        self.look_for_actions();
        self.stopped.is_none() && !self.actions.is_empty()
    }

    /// Does one of the things found by [`can_act`](Self::can_act), which the seed chooses.
    ///
    /// # Errors
    /// A broken rule.
    pub(crate) fn act_once(&mut self) -> Result<(), Failure> {
        let choice = self.random.below(self.actions.len() as u64) as usize;
        self.hash.note(choice as u64);
        self.act(self.actions[choice])
    }

    /// Advances the clock to a time, and wakes the tasks that waited for it.
    pub(crate) fn pass_time(&mut self, until: u64) {
        self.clock.advance_to(until);
        self.wake_expired();
    }

    fn look_for_actions(&mut self) {
        let actions = &mut self.actions;
        actions.clear();
        self.cores.for_each_busy(|core| actions.push(Action::Core(core)));
        for (at, link) in self.links.iter_mut().enumerate() {
            if link.can_send() {
                actions.push(Action::Send(at));
            }
            if link.can_receive() {
                actions.push(Action::Receive(at));
            }
        }
        let now = self.clock.nanos();
        let still = self.still.map(|log| usize::from(log.0));
        let due = |lane: &usize| still != Some(lane / LANES) && self.lanes[*lane].due().is_some_and(|at| at <= now);
        actions.extend((0..self.lanes.len()).filter(due).map(Action::Lane));
        if self.reads.is_due() {
            actions.push(Action::Read);
        }
        if self.bodies.is_due() {
            actions.push(Action::Body);
        }
        let now = self.clock.now();
        let has_work = |core: &usize| self.broker.has_deferred_work(*core, now);
        actions.extend((0..CORES).filter(has_work).map(Action::Deferred));
        if self.backend.waiting() > 0 {
            actions.push(Action::Backend);
        }
    }

    /// The time of the clock at which something is due; `None` if nothing is, without a client.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let still = self.still.map(|log| usize::from(log.0));
        let lanes = self.lanes.iter().enumerate().filter(|(lane, _)| still != Some(lane / LANES));
        let lanes = lanes.filter_map(|(_, lane)| lane.due());
        let queues = (0..CORES).filter_map(|core| self.broker.deferred.next_deadline(core));
        let others = queues.chain(self.clock.next_look(&self.broker));
        lanes.chain(self.links.iter().filter_map(|link| link.task.deadline())).chain(others).min()
    }

    fn wake_expired(&mut self) {
        let now = self.clock.nanos();
        for (task, link) in self.links.iter().enumerate() {
            if link.task.deadline().is_some_and(|at| at <= now) {
                self.cores.wake(task);
            }
        }
    }

    fn act(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Core(core) => {
                let Some(task) = self.cores.next(core) else { return Ok(()) };
                let now = self.clock.now();
                let link = &mut self.links[task];
                if link.task.turn(now, &mut self.random, &mut self.hash, &mut self.tally) {
                    self.cores.wake(task);
                }
            }
            Action::Send(link) => {
                self.links[link].send(&mut self.random);
                self.cores.wake(link);
            }
            Action::Receive(link) => {
                self.links[link].receive(&mut self.random, &mut self.hash)?;
                // There is room again.
                self.cores.wake(link);
            }
            Action::Deferred(core) => {
                self.broker.deferred_turn(core, self.clock.now());
            }
            Action::Lane(lane) => {
                let before = self.disk.count();
                self.disk.act_as([User::Commit, User::Background, User::Commit][lane % LANES]);
                self.tally.add("small writes", (lane % LANES == SMALL_WRITES && self.lanes[lane].has_job()).into());
                self.stopped = self.lanes[lane].step(&self.broker, &*self.disk, &self.clock, &mut self.random)?;
                let after = self.disk.count();
                self.hash.note(after as u64);
                if self.disk.fired() > 0 {
                    // A message that a retirement couldn't copy stops its queue.
                    self.note_failed();
                }
                if before == after {
                    self.fruitless += 1;
                    return self.still_hopeful();
                }
            }
            Action::Read => {
                self.disk.act_as(User::Reads);
                let fired = self.disk.fired();
                let read = self.reads.step(&self.broker, &*self.disk, &self.clock);
                self.tally.add("reads from disk", read.into());
                if self.disk.fired() > fired {
                    self.read_failed()?;
                }
            }
            Action::Backend => self.backend.answer(self.random.below(1 << 16) as usize),
            Action::Body => match self.bodies.step(&self.broker, &*self.disk) {
                Ok(written) => self.tally.add("body files written or removed", written.into()),
                Err(error) => self.stopped = Some(error.to_string()),
            },
        }
        self.fruitless = 0;
        Ok(())
    }

    /// Handles a failed read of a queue: that queue has to stop and report why, and no other one.
    fn read_failed(&mut self) -> Result<(), Failure> {
        let before = self.failed.len();
        let reasons = self.note_failed();
        if self.failed.len() > before + 1 || reasons.iter().any(|reason| !reason.contains("-0000-")) {
            return Err(Failure::new(Check::DiskErrors, format!("one read failed: {:?}, {reasons:?}", self.failed)));
        }
        self.tally.add("queues stopped by a read", (self.failed.len() - before) as u64);
        Ok(())
    }

    /// Ends the lack of space on the disk, and wakes everything that waits for it.
    pub fn space_again(&mut self) {
        self.disk.limit_space(None);
        self.fruitless = 0;
    }

    /// Updates the set of stopped queues; returns the reasons of all.
    pub fn note_failed(&mut self) -> Vec<String> {
        let snapshot = self.broker.registry.snapshot_full();
        let mut reasons = Vec::new();
        for queue in snapshot.queues.values() {
            if let QueueState::Failed(reason) = queue.look(leveret_broker::queue_handle::RunState) {
                self.failed.insert(queue.info().name.to_string());
                reasons.push(reason);
            }
        }
        reasons
    }

    fn still_hopeful(&self) -> Result<(), Failure> {
        if self.fruitless < FRUITLESS_MAX || self.disk.has_space_limit() {
            return Ok(());
        }
        let (appended, durable) = self.broker.commit.inspect(|log| (log.appended(), log.durable()));
        let detail = format!("only a disk lane still looks for work; durable up to {durable} of {appended} records");
        Err(Failure::new(Check::Answered, detail))
    }

    /// Adds the log's counters.
    pub fn count_log(&mut self) {
        for log in self.broker.logs() {
            let statistics = log.inspect(|log| log.statistics().clone());
            self.tally.add("retirements", statistics.retirements);
            self.tally.add("WAL files that became segments", statistics.files_kept);
            self.tally.add("segments rewritten", statistics.segments_rewritten);
        }
    }
}
