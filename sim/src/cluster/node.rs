//! A node of the simulated cluster: its disk, its entry log with two lanes, its replicas, and its end of the links.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use leveret_cluster::frames::{self, FrameWeight};
use leveret_cluster::runtime::{AsyncRuntime, Oneshot as _, OneshotSender as _};
use leveret_cluster::{Host, NodeLog, Placement, Settings};
use leveret_log::{Entry, EntryOptions, EntryRead, Lane, Next, PlacementId, recover_entries};

use super::channels::Oneshot;
use super::counter::Counter;
use super::executor::{self, LifeId, Sleep, below};
use super::judge;
use super::lanes::Lanes;
use super::runtime::SimRuntime;
use crate::disk::SimDisk;
use crate::net::LinkFaults;

/// A replica in the simulation.
pub(super) type SimReplica = Placement<SimRuntime, SimHost, Counter>;

/// Ids of replicas: this many times how often the replica gave up its id, plus the number of its node.
const GENERATION: u64 = 1000;

/// The node of a replica.
pub(super) fn node_of(replica: u64) -> u64 {
    replica % GENERATION
}

/// Longest time for which the link that states travel on is silent: then it is over, and with it what was asked on it. The links of
/// lighter frames are over sooner, and nobody waits for their answers that long.
const SILENCE: Duration = Duration::from_secs(20);

/// Interval at which counters are synced, as the store syncs what nobody waits for.
const LAZY: u64 = 50_000_000;

/// Everything that nodes share.
pub(super) struct Shared {
    pub nodes: RefCell<BTreeMap<u64, Rc<SimNode>>>,
    pub links: RefCell<LinkFaults>,
    pub options: EntryOptions,
    pub settings: Settings,
    /// Texts with which placements or logs stopped for no reason.
    pub stopped: RefCell<Vec<String>>,
    /// Texts with which those stopped whose disk failed.
    pub ended: RefCell<Vec<String>>,
    /// Number of changes of a placement's members that were begun.
    pub changes: RefCell<BTreeMap<PlacementId, u64>>,
    /// Answers are compared with the disk when they are given.
    pub checks_answers: Cell<bool>,
    /// Counters are synced after their entries were purged.
    pub purges_early: Cell<bool>,
    /// Acknowledges appends that nobody got: a quorum that is one too small.
    pub acknowledges_for: Cell<Option<u64>>,
    /// Number of frames with a whole state that were sent.
    pub states_sent: Cell<u64>,
    /// Nothing is purged.
    pub keeps_entries: Cell<bool>,
}

impl Shared {
    pub(super) fn new(options: EntryOptions) -> Shared {
        Shared {
            nodes: RefCell::default(),
            links: RefCell::default(),
            options,
            settings: Settings::default(),
            stopped: RefCell::default(),
            ended: RefCell::default(),
            changes: RefCell::default(),
            checks_answers: Cell::new(false),
            purges_early: Cell::new(false),
            acknowledges_for: Cell::new(None),
            states_sent: Cell::new(0),
            keeps_entries: Cell::new(false),
        }
    }

    /// The time that a frame takes from node to node; `None` if it is lost.
    pub(super) fn travel(&self, from: u64, to: u64) -> Option<u64> {
        self.links.borrow_mut().travel(from, to, executor::now(), &mut below)
    }
}

/// A node. It lives several lives.
pub(super) struct SimNode {
    pub id: u64,
    pub disk: RefCell<Rc<SimDisk>>,
    pub counters: RefCell<BTreeMap<PlacementId, Counter>>,
    pub life: Cell<LifeId>,
    pub log: RefCell<Option<NodeLog>>,
    pub replicas: RefCell<BTreeMap<PlacementId, SimReplica>>,
    /// Term and replica of the last vote that was granted to another node.
    pub answered: RefCell<BTreeMap<PlacementId, (u64, u64)>>,
    /// Number of acknowledgements in a term.
    acknowledged: RefCell<BTreeMap<(PlacementId, u64), u64>>,
    /// How often the replica of a placement gave up its id.
    pub generations: RefCell<BTreeMap<PlacementId, u64>>,
    /// Bits of its disk were changed, and it wasn't started since.
    pub is_hit: Cell<bool>,
    /// Bits of its disk were changed once: what replicas under an old id had in a file is damaged until it is used again.
    pub was_hit: Cell<bool>,
    /// Its disk fails, or did.
    pub is_excused: Cell<bool>,
    /// Reads of entries that aren't in memory fail.
    pub fails_reads: Cell<bool>,
    /// Nanoseconds that a sync takes.
    pub sync_time: Cell<u64>,
    /// Steps of the wall clock, in milliseconds.
    pub clock_step: Cell<i64>,
    lanes: Lanes,
}

/// A node as its placements see it.
#[derive(Clone)]
pub(super) struct SimHost {
    node: Weak<SimNode>,
    shared: Weak<Shared>,
}

impl SimNode {
    pub(super) fn new(id: u64) -> SimNode {
        SimNode {
            id,
            disk: RefCell::new(Rc::new(SimDisk::new())),
            counters: RefCell::default(),
            life: Cell::new(0),
            log: RefCell::default(),
            replicas: RefCell::default(),
            answered: RefCell::default(),
            acknowledged: RefCell::default(),
            generations: RefCell::default(),
            is_hit: Cell::new(false),
            was_hit: Cell::new(false),
            is_excused: Cell::new(false),
            fails_reads: Cell::new(false),
            sync_time: Cell::new(1_000_000),
            clock_step: Cell::new(0),
            lanes: Lanes::default(),
        }
    }

    /// Its entry log may have jobs.
    pub(super) fn wake_lanes(&self) {
        self.lanes.wake();
    }

    pub(super) fn is_alive(&self) -> bool {
        self.log.borrow().is_some()
    }

    /// The id of its replica of a placement.
    pub(super) fn replica_id(&self, placement: PlacementId) -> u64 {
        self.id + GENERATION * self.generations.borrow().get(&placement).copied().unwrap_or(0)
    }

    /// Its replica of a placement can't vouch for its log: it comes back empty, under a new id.
    fn give_up(&self, log: &NodeLog, placement: PlacementId) {
        log.with(|log| log.forget(placement, executor::now()));
        self.counters.borrow_mut().insert(placement, Counter::default());
        self.answered.borrow_mut().remove(&placement);
        *self.generations.borrow_mut().entry(placement).or_default() += 1;
    }

    /// Looks whether what an answer says would be there after a power cut now.
    ///
    /// # Errors
    /// It wouldn't.
    fn check_answer(
        &self,
        shared: &Shared,
        placement: PlacementId,
        request: &[u8],
        reply: &[u8],
    ) -> Result<(), String> {
        match answered(request, reply) {
            Some(Answered::Vote { term, replica }) => {
                self.answered.borrow_mut().insert(placement, (term, replica));
                judge::look_at(self, shared, placement).map(drop)
            }
            Some(Answered::Entry { term, index }) if self.is_looked_at(placement, term) => {
                let disk = judge::look_at(self, shared, placement)?;
                // Wrong bits in the last batch look like a write that the power cut ended: nothing behind it says that it was whole.
                match disk.keeps(index, term) || self.is_hit.get() {
                    true => Ok(()),
                    false => Err(format!(
                        "node {}, placement {placement}: it acknowledged entry {index} of term {term}, which isn't durable",
                        self.id
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether an acknowledgement in this term is checked: the first ones, when entries of other leaders are cut, and some later ones.
    fn is_looked_at(&self, placement: PlacementId, term: u64) -> bool {
        let mut acknowledged = self.acknowledged.borrow_mut();
        let count = acknowledged.entry((placement, term)).or_default();
        *count += 1;
        *count < 6 || below(100) == 0
    }

    /// Whether it reads this frame: no entries are taken while the entry log has no room.
    fn reads(&self, frame: &[u8]) -> bool {
        const APPEND: u8 = 1;
        let has_room = || self.log.borrow().as_ref().is_some_and(|log| log.with(|log| log.room()));
        frame[1] != APPEND || has_room()
    }

    /// Ends the life: tasks are dropped at once.
    pub(super) fn die(&self) {
        executor::kill(self.life.get());
        self.replicas.take();
        self.log.take();
    }
}

impl Shared {
    /// Notes a text with which something of a node stopped.
    fn note(&self, node: &SimNode, text: String) {
        let list = if node.is_excused.get() { &self.ended } else { &self.stopped };
        list.borrow_mut().push(format!("node {}{text}", node.id));
    }
}

/// Runs the jobs of a lane.
pub(super) async fn run_lane(node: Rc<SimNode>, shared: Rc<Shared>, log: NodeLog, lane: Lane) {
    let disk = node.disk.borrow().clone();
    loop {
        match log.with(|log| log.next_job(lane, executor::now())) {
            Next::Run(id, job) => {
                let is_sync = matches!(job, leveret_log::Job::Sync { .. });
                let takes = if is_sync { node.sync_time.get() } else { 50_000 };
                Sleep::after(takes / 2 + below(takes)).await;
                let done = job.run(&*disk);
                if let Err(error) = log.with(|log| log.complete(id, done, executor::now()).map(drop)) {
                    shared.note(&node, format!(": {error}"));
                    log.fail(&error.to_string());
                    // The process ends.
                    executor::spawn_in(0, async move { node.die() });
                    return;
                }
                log.report();
                node.lanes.wake();
            }
            Next::At(time) => node.lanes.changed(lane, Some(time)).await,
            Next::Idle => node.lanes.changed(lane, None).await,
        }
    }
}

/// Syncs counters now and then, and purges what all have.
async fn run_store(node: Rc<SimNode>, shared: Rc<Shared>) {
    loop {
        Sleep::after(LAZY / 2 + below(LAZY)).await;
        let replicas: Vec<(PlacementId, SimReplica)> =
            node.replicas.borrow().iter().map(|(id, replica)| (*id, replica.clone())).collect();
        for (placement, replica) in replicas {
            let Some(counter) = node.counters.borrow().get(&placement).cloned() else { continue };
            let next = match shared.purges_early.get() {
                true => counter.now.borrow().next(),
                false => counter.sync(),
            };
            if replica.applied_durably(next).is_ok() && !shared.keeps_entries.get() && below(4) == 0 {
                // Followers that lag get what others have instead.
                let _ = replica.purge(next.saturating_sub(below(40))).await;
            }
        }
    }
}

/// The promise of an answer.
enum Answered {
    /// It has voted for this replica in this term.
    Vote { term: u64, replica: u64 },
    /// It has this entry.
    Entry { term: u64, index: u64 },
}

/// The promise of an answer to a request, by the bytes of both.
fn answered(request: &[u8], reply: &[u8]) -> Option<Answered> {
    const APPEND: u8 = 1;
    const APPENDED: u8 = 1;
    const VOTE: u8 = 2;
    const VOTED: u8 = 5;
    const GRANTED_AT: usize = 4 + 17;
    let u32_at = |at: usize| Some(u32::from_le_bytes(request.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(request.get(at..at + 8)?.try_into().ok()?));
    if request[1] == VOTE && reply[1] == VOTED && reply[GRANTED_AT] == 1 {
        return Some(Answered::Vote { term: u64_at(8)?, replica: u64_at(16)? });
    }
    if request[1] != APPEND || reply[1] != APPENDED {
        return None;
    }
    // Behind placement and vote: the ids of the entry before and of the committed one, then the entries.
    let mut at = 8 + 17;
    for _ in 0..2 {
        at += if *request.get(at)? == 1 { 17 } else { 1 };
    }
    let count = u32_at(at)?;
    at += 4;
    for _ in 1..count {
        at += 4 + u32_at(at)? as usize;
    }
    (count > 0).then_some(())?;
    Some(Answered::Entry { term: u64_at(at + 4 + 16)?, index: u64_at(at + 4 + 8)? })
}

/// No answer comes: the asker's time runs out.
async fn let_time_run_out<T>(sender: T, within: Duration) {
    Sleep::after(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX)).await;
    drop(sender);
}

/// The text of an answer that refuses a frame because it breaks the protocol.
fn refusal(reply: &[u8]) -> Option<String> {
    const REFUSED: u8 = 8;
    let text = String::from_utf8_lossy(reply.get(8..)?).into_owned();
    (reply[1] == REFUSED && text.contains("refuses a frame")).then_some(text)
}

/// Begins a life of a node with these placements.
pub(super) fn start(shared: &Rc<Shared>, node: &Rc<SimNode>, life: LifeId, placements: &[PlacementId]) {
    node.life.set(life);
    let disk = node.disk.borrow().clone();
    let opened = recover_entries(&*disk, &shared.options, executor::now());
    let log = match opened {
        Ok((log, report)) => {
            let damaged = report.damaged.iter().filter(|_| !node.was_hit.get());
            damaged.for_each(|damage| shared.note(node, format!(": {damage}")));
            NodeLog::new(log)
        }
        Err(error) => {
            shared.note(node, format!(": {error}"));
            return;
        }
    };
    let is_damaged = |placement| log.with(|log| log.damage(placement).is_some());
    let lost: Vec<PlacementId> = placements.iter().copied().filter(|placement| is_damaged(*placement)).collect();
    lost.into_iter().for_each(|placement| node.give_up(&log, placement));
    if is_damaged(PlacementId::ANY) {
        log.with(|log| log.forget(PlacementId::ANY, executor::now()));
    }
    node.is_hit.set(false);
    node.is_excused.set(false);
    *node.log.borrow_mut() = Some(log.clone());
    node.lanes.wake();
    for lane in [Lane::Commit, Lane::Background] {
        executor::spawn_in(life, run_lane(node.clone(), shared.clone(), log.clone(), lane));
    }
    executor::spawn_in(life, run_store(node.clone(), shared.clone()));
    for placement in placements.iter().copied() {
        let counter = node.counters.borrow_mut().entry(placement).or_default().clone();
        // A start syncs what a kill left in memory of the system, as the store does it.
        counter.sync();
        let host = SimHost::new(node, shared);
        let (node, log, shared) = (node.clone(), log.clone(), shared.clone());
        executor::spawn_in(life, async move {
            let identity = (placement, node.replica_id(placement));
            match Placement::start(&shared.settings, identity, log, host, counter).await {
                Ok(replica) => {
                    node.replicas.borrow_mut().insert(placement, replica);
                }
                Err(error) => shared.note(&node, format!(": {error}")),
            }
        });
    }
}

impl SimHost {
    pub(super) fn new(node: &Rc<SimNode>, shared: &Rc<Shared>) -> SimHost {
        SimHost { node: Rc::downgrade(node), shared: Rc::downgrade(shared) }
    }
}

impl Host for SimHost {
    fn now(&self) -> u64 {
        executor::now()
    }

    fn wall_clock(&self) -> u64 {
        let step = self.node.upgrade().map_or(0, |node| node.clock_step.get());
        (1_700_000_000_000 + executor::now() / 1_000_000).saturating_add_signed(step)
    }

    fn appended(&self) {
        if let Some(node) = self.node.upgrade() {
            node.lanes.wake();
        }
    }

    async fn read(&self, reads: Vec<EntryRead>) -> Result<Vec<Entry>, String> {
        let node = self.node.upgrade().ok_or("the node is gone")?;
        let disk = node.disk.borrow().clone();
        Sleep::after(100_000 + below(400_000)).await;
        if node.fails_reads.get() {
            return Err(format!("{} entries could not be read: Input/output error", reads.len()));
        }
        drop(node);
        reads.iter().map(|read| read.run(&*disk).map_err(|error| error.to_string())).collect()
    }

    async fn call(&self, placement: PlacementId, target: u64, frame: Bytes, within: Duration) -> Result<Bytes, String> {
        let (node, shared) = self.node.upgrade().zip(self.shared.upgrade()).ok_or("the node is gone")?;
        let from = node.id;
        if shared.acknowledges_for.get() == Some(target) && frame[1] == 1 {
            // Version 1, appended.
            return Ok(Bytes::from_static(&[1, 1, 0, 0]));
        }
        let is_state = frames::weight_of(&frame) == FrameWeight::State;
        shared.states_sent.set(shared.states_sent.get() + u64::from(is_state));
        let within = within.min(SILENCE);
        let (sender, answer) = Oneshot::channel();
        let to = node_of(target);
        let way = shared.travel(from, to);
        if let Some(time) = way {
            executor::spawn_in(0, async move {
                Sleep::after(time).await;
                let Some(node) = shared.nodes.borrow().get(&to).cloned() else { return };
                let Some(replica) = node.replicas.borrow().get(&placement).cloned() else { return };
                if node.replica_id(placement) != target || !node.reads(&frame) {
                    return;
                }
                // The answer is made in the other node's life, and is gone with it.
                executor::spawn_in(node.life.get(), async move {
                    let Some(reply) = replica.answer(&frame).await else { return };
                    if shared.checks_answers.get()
                        && let Err(text) = node.check_answer(&shared, placement, &frame, &reply)
                    {
                        shared.stopped.borrow_mut().push(text);
                    }
                    if let Some(text) = refusal(&reply) {
                        shared.note(&node, format!(", asked by {from}: {text}"));
                    }
                    match shared.travel(to, from) {
                        Some(time) => {
                            Sleep::after(time).await;
                            // The asker may have given up.
                            let _ = sender.send(reply);
                        }
                        None => let_time_run_out(sender, within).await,
                    }
                });
            });
        } else {
            executor::spawn_in(executor::life(), let_time_run_out(sender, within));
        }
        match SimRuntime::timeout(within, answer).await {
            Ok(Ok(reply)) => Ok(reply),
            _ => Err(format!("node {target} doesn't answer")),
        }
    }

    fn stopped(&self, placement: PlacementId, text: &str) {
        let parts = self.node.upgrade().zip(self.shared.upgrade());
        if let Some((node, shared)) = parts {
            shared.note(&node, format!(", placement {placement}: {text}"));
        }
    }
}
