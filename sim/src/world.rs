//! A broker on virtual cores, with clients, disk lanes and time. Each step is one choice of the seed: a turn of a
//! connection's task, some bytes from or to a client, a step of a disk lane, or time that passes.
//!
//! A turn is atomic, so everything that a core does under one wake-up is; the hand-off between cores is explored
//! finer with `shuttle`.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use leveret_broker::streams::{Placing, Streams};
use leveret_broker::ticket::StreamId;
use leveret_broker::{Authenticate, Broker, Peer, Protocol, Settings};
use leveret_log::{Lane, Options, Report};
use leveret_metrics::Counters;
use leveret_model::{Command, PutUser, SetPermissions, Topology};
use leveret_queue::QueueState;
use leveret_session_amqp10::Amqp10Protocol;
use leveret_session_amqp091::Amqp091Protocol;

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

/// Virtual cores.
const CORES: usize = 3;
/// Disk lanes of each log.
const LANES: usize = 3;
/// Which of them stands for the cores that write what is little themselves.
const SMALL_WRITES: usize = 2;

/// Lets everybody in under the name they give.
struct Anybody;

impl Authenticate for Anybody {
    fn authenticate(&self, _: &Topology, _: &str, response: &[u8], _: bool) -> Result<String, String> {
        let name = response.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        String::from_utf8(name.to_vec()).map_err(|error| error.to_string())
    }

    fn recognise(&self, _: &Topology, name: &str, _: bool) -> Result<String, String> {
        Ok(name.to_owned())
    }
}

/// A log with everything so small that a short trace comes everywhere.
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
    /// Of each, in the order of their ids.
    pub options: Vec<Options>,
    /// Decides which one a queue belongs to.
    pub placing: Placing,
}

impl From<Options> for Logs {
    fn from(options: Options) -> Self {
        Self { options: vec![options], placing: Streams::by_home }
    }
}

/// See the module.
pub struct World {
    /// The disk.
    pub disk: Arc<SimDisk>,
    /// The broker.
    pub broker: Arc<Broker>,
    /// Every choice comes from here.
    pub random: Random,
    /// Time.
    pub clock: Clock,
    /// All that happened.
    pub hash: EventHash,
    /// What was counted.
    pub tally: Tally,
    /// Clients with their tasks.
    pub links: Vec<Link>,
    cores: Arc<Cores>,
    /// What may be next; kept for its memory.
    actions: Vec<Action>,
    /// [`LANES`] of each log.
    lanes: Vec<DiskLane>,
    /// A commit stream that stands still: its disk lanes do nothing.
    pub still: Option<StreamId>,
    reads: ReadLane,
    bodies: BodyLane,
    /// Steps of disk lanes in a row that did nothing to the disk.
    fruitless: u32,
    /// Why the node had to stop, since its disk refused something: nothing moves any more.
    pub stopped: Option<String>,
    /// Clients don't go away, and take nothing away, in the middle of something: every count is known exactly.
    pub is_gentle: bool,
    /// Most of what is published only has to be written: batch after batch waits for no sync.
    pub is_rarely_synced: bool,
    /// Queues that stopped alone, since the disk didn't give back what it had taken for them.
    pub failed: BTreeSet<String>,
}

/// A lane that looks this often and finds nothing, while nothing else happens, will never find anything.
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
}

impl World {
    /// Starts a broker on what is on the disk.
    ///
    /// # Errors
    /// It doesn't start, or reports damage although no byte was changed but by a power cut.
    pub fn start(disk: Arc<SimDisk>, log: impl Into<Logs>, seed: u64) -> Result<(Self, Report), Failure> {
        Self::start_at(Clock::default(), disk, log, seed)
    }

    /// As [`World::start`], at another time.
    ///
    /// # Errors
    /// As there.
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

    /// As [`World::start_at`] on a disk that doesn't work.
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
            // Small ones have messages come in parts.
            frame_max: [8_192, 131_072][random.below(2) as usize],
            // Nothing happens by itself, or a simulation would never come to rest.
            heartbeat_s: 0,
            // Most seeds share what goes to two queues already, some copy it.
            copied_to_queues_max: [1, 1, 8][random.below(3) as usize],
            // Every other seed does much in parts of a consumer or two.
            turn_work_max: [100, 25_000][(seed % 2) as usize],
            body_file_from: 4096,
            // Large bodies have several pieces.
            body_piece_bytes: 2048,
            // Sets of numbers are containers of 65,536.
            first_number: [0, 65_535 - random.below(150)][random.below(2) as usize],
            ..Settings::default()
        };
        disk.act_as(User::Start);
        let protocols: Vec<Arc<dyn Protocol>> = vec![Arc::new(Amqp091Protocol), Arc::new(Amqp10Protocol)];
        let Logs { options, placing } = log.into();
        let recovered = Broker::recover_streams(
            &*disk,
            (options, placing),
            settings,
            protocols,
            Arc::new(Anybody),
            counters,
            clock.now(),
        );
        let (broker, report) = recovered.map_err(|error| Failure::new(Check::Starts, error.to_string()))?;
        let slowness = [1, 1, 1, 40][random.below(4) as usize];
        let is_gentle = random.below(4) == 0;
        let is_rarely_synced = random.below(4) == 0;
        let mut lanes = Vec::new();
        for stream in broker.streams.all().iter().map(|stream| stream.id()) {
            let commit = DiskLane::new(stream, Lane::Commit, slowness);
            let small_writes = DiskLane::small_writes(&commit);
            let background = DiskLane::new(stream, Lane::Background, slowness);
            let log = broker.log(stream);
            log.set_wake(Lane::Commit, commit.wake.clone());
            log.set_wake(Lane::Background, background.wake.clone());
            log.set_small_write_wake(small_writes.wake.clone());
            lanes.extend([commit, background, small_writes]);
        }
        let mut world = Self {
            disk,
            broker,
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
            failed: BTreeSet::new(),
        };
        world.note_failed();
        world.note_report(&report);
        world.broker.set_read_wake(world.reads.wake.clone());
        world.broker.set_body_wake(world.bodies.wake.clone());
        // What recovery found that nothing refers to.
        world.bodies.wake.wake_again();
        // Also when the power went between that user's record and the one of its permissions.
        let topology = world.broker.registry.staged_topology();
        if topology.users().next().is_none() || topology.permissions().next().is_none() {
            world.first_user()?;
        }
        Ok((world, report))
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

    /// Carried out before any client comes, as a node does.
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
        while !self.broker.streams.reached(StreamId::LOCAL).have(wanted, false) {
            if !self.step()? {
                return Err(Failure::new(Check::Answered, "the first user never became durable"));
            }
        }
        self.broker.registry.publish();
        Ok(())
    }

    /// A new client, over a socket that holds as much as the seed says; returns its link's index.
    pub fn connect(&mut self, end: End) -> usize {
        let capacity = [300, 4_000, 70_000, 1 << 20][self.random.below(4) as usize];
        self.connect_over(end, capacity)
    }

    /// A new client, over a socket that holds this many bytes; returns its link's index.
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

    /// A client's socket breaks.
    pub fn disconnect(&mut self, link: usize) {
        let now = self.clock.now();
        self.links[link].close(now);
        // What it leaves may end in parts.
        self.cores.wake(link);
    }

    /// One step. False when nothing can move and no time will change that.
    ///
    /// # Errors
    /// A rule was found broken.
    pub fn step(&mut self) -> Result<bool, Failure> {
        if self.stopped.is_some() {
            return Ok(false);
        }
        self.clock.advance(self.random.below(4_000));
        self.look_for_actions();
        if self.actions.is_empty() {
            let Some(next) = self.next_time() else { return Ok(false) };
            self.clock.advance_to(next);
            self.wake_expired();
            self.look_for_actions();
            if self.actions.is_empty() {
                return Ok(true);
            }
        }
        let choice = self.random.below(self.actions.len() as u64) as usize;
        self.hash.note(choice as u64);
        self.act(self.actions[choice])?;
        Ok(true)
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
        let still = self.still.map(|stream| usize::from(stream.0));
        let due = |lane: &usize| still != Some(lane / LANES) && self.lanes[*lane].due().is_some_and(|at| at <= now);
        actions.extend((0..self.lanes.len()).filter(due).map(Action::Lane));
        if self.reads.is_due() {
            actions.push(Action::Read);
        }
        if self.bodies.is_due() {
            actions.push(Action::Body);
        }
        actions.extend((0..CORES).filter(|core| self.broker.deferred.has_work(*core, now)).map(Action::Deferred));
    }

    fn next_time(&self) -> Option<u64> {
        let still = self.still.map(|stream| usize::from(stream.0));
        let lanes = self.lanes.iter().enumerate().filter(|(lane, _)| still != Some(lane / LANES));
        let lanes = lanes.filter_map(|(_, lane)| lane.due());
        let queues = (0..CORES).filter_map(|core| self.broker.deferred.next_deadline(core));
        lanes.chain(self.links.iter().filter_map(|link| link.task.deadline())).chain(queues).min()
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
                    // What a retirement couldn't copy stops its queue.
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
            Action::Body => match self.bodies.step(&self.broker, &*self.disk) {
                Ok(written) => self.tally.add("body files written or removed", written.into()),
                Err(error) => self.stopped = Some(error.to_string()),
            },
        }
        self.fruitless = 0;
        Ok(())
    }

    /// A queue's read went wrong: that queue stops and says why, and no other one.
    fn read_failed(&mut self) -> Result<(), Failure> {
        let before = self.failed.len();
        let reasons = self.note_failed();
        if self.failed.len() > before + 1 || reasons.iter().any(|reason| !reason.contains("-0000-")) {
            return Err(Failure::new(Check::DiskErrors, format!("one read failed: {:?}, {reasons:?}", self.failed)));
        }
        self.tally.add("queues stopped by a read", (self.failed.len() - before) as u64);
        Ok(())
    }

    /// There is space on the disk: whoever looked for it in vain begins anew.
    pub fn space_again(&mut self) {
        self.disk.limit_space(None);
        self.fruitless = 0;
    }

    /// Looks which queues have stopped; returns the reasons of all.
    pub fn note_failed(&mut self) -> Vec<String> {
        let snapshot = self.broker.registry.snapshot_full();
        let mut reasons = Vec::new();
        for queue in snapshot.queues.values() {
            if let QueueState::Failed(reason) = queue.state() {
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

    /// Adds what the log counted.
    pub fn count_log(&mut self) {
        for stream in self.broker.streams.all() {
            let statistics = self.broker.log(stream.id()).inspect(|log| log.statistics().clone());
            self.tally.add("retirements", statistics.retirements);
            self.tally.add("segments rewritten", statistics.segments_rewritten);
        }
    }
}
