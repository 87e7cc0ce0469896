//! A commit of a transaction, done in parts: see [`leveret_broker::turn_budget`].
//!
//! Its group in each commit stream stays open until the last part, so a commit never waits for the disk: confirms, and room in
//! the log, wait for the group. Until then its connection reads nothing and delivers nothing. A connection that ends finishes
//! its commit first.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::BatchPart;
use leveret_queue::{ConsumerId, Deliveries, Departure, Run};
use smallvec::SmallVec;

use crate::client_connection::ClientConnection;
use crate::transaction::{Publishing, SETTLED_RUN, Settling, Transaction};
use leveret_broker::group::{Group, TakenSlot};
use leveret_broker::queue_handle::{Acceptance, Published, QueueRef, RECORD_RUNS_MAX, Reason, RefusalReason};
use leveret_broker::settlement::Settlement;
use leveret_broker::streams::StreamRef;
use leveret_broker::ticket::StreamId;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::{ENQUEUE, QUEUE_LOOK, QUEUE_RUN, TurnBudget};
use leveret_broker::wait_for::{WaitEnd, WaitFor};

/// The result of a commit.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The position that the answer waits for.
    pub wait: WaitFor,
    /// The reason why a queue didn't get all of its messages, if that is known already: otherwise the wait ends with it. All else has
    /// taken effect.
    pub refused: Option<PartialReason>,
}

/// The reason why a queue refused messages of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialReason {
    /// It refused them: its length limit, or it stopped after the commit had begun.
    Refused(RefusalReason),
    /// Its log left before it had the messages for good.
    Gone,
}

impl PartialReason {
    /// The reason why a queue didn't get all of its messages, by the end of a commit's wait; `None` if all queues got them.
    pub fn of(end: &WaitEnd) -> Option<Self> {
        match end {
            // To a queue that is being deleted they came before the deletion.
            WaitEnd::Reached | WaitEnd::Unrouted => None,
            WaitEnd::Gone => Some(Self::Gone),
            WaitEnd::Refused(refusal) => Some(Self::Refused(refusal.reason)),
        }
    }
}

impl PartialReason {
    /// The reason as clients are told it.
    pub fn text(self) -> &'static str {
        match self {
            PartialReason::Refused(RefusalReason::Limit) => "a queue refused a message (x-overflow=reject-publish)",
            PartialReason::Refused(RefusalReason::Stopped) => "a queue stopped while its messages were published",
            PartialReason::Gone => WaitEnd::GONE_TEXT,
        }
    }
}

/// A commit that was begun.
pub struct Commit {
    /// Wall time of its begin, in milliseconds. The TTL counts from there: RabbitMQ's queues get the messages at this point, too.
    begun_ms: u64,
    /// Its publishes until all targets are checked, and its settlements until the first is carried out.
    transaction: Transaction,
    /// Number of publishes, and of queues of the next one, that were checked.
    checked: (usize, usize),
    /// The streams of the queues that were checked.
    streams: SmallVec<[StreamRef; 1]>,
    publishes: std::vec::IntoIter<Publishing>,
    /// Settlements that are part of the groups.
    settles: std::vec::IntoIter<Settling>,
    /// Requeues and rejections with dead letters, which follow when the groups are closed. The move of dead letters is a group of
    /// its own, which must not be written before.
    later: std::vec::IntoIter<Settling>,
    /// Index of the next queue of the first publish, or of the next run of the first settlement.
    next: usize,
    /// An estimate of its work, once it is complete.
    work: Option<u32>,
    state: State,
    groups: Groups,
    /// Taken while its groups stay open over several turns.
    slot: Option<TakenSlot>,
    /// The condition of its publishes: a message that isn't part of a group may be behind others in its queue.
    wait: WaitFor,
    /// The conditions of its groups and of moves of dead letters.
    waits: Vec<WaitFor>,
    refused: Option<PartialReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its queues don't know of it.
    Begun,
    /// Its groups are open.
    Open,
    /// Its groups are closed.
    Closed,
}

impl Commit {
    /// Begins to commit.
    pub fn new(transaction: Transaction, now: Now) -> Self {
        Self {
            begun_ms: now.wall_ms,
            transaction,
            checked: (0, 0),
            streams: SmallVec::new(),
            publishes: Vec::new().into_iter(),
            settles: Vec::new().into_iter(),
            later: Vec::new().into_iter(),
            next: 0,
            work: None,
            state: State::Begun,
            groups: Groups::default(),
            slot: None,
            wait: WaitFor::default(),
            waits: Vec::new(),
            refused: None,
        }
    }

    /// Adds to what it settles, before its first part.
    pub fn settle(&mut self, queue: &QueueRef, consumer: Option<ConsumerId>, runs: Vec<Run>, settlement: Settlement) {
        debug_assert_eq!(self.state, State::Begun);
        self.transaction.settle(queue, consumer, runs, settlement);
    }

    /// Looks for a stopped queue among its targets, which would refuse the publish; as far as the turn allows. `None` if some
    /// weren't checked.
    ///
    /// # Errors
    /// The stopped queue.
    pub fn check(&mut self, budget: &mut TurnBudget) -> Option<Result<(), QueueRef>> {
        let (publish, next) = &mut self.checked;
        while let Some(publishing) = self.transaction.publishing(*publish) {
            while let Some(queue) = publishing.queues.get(*next) {
                if budget.is_spent() {
                    return None;
                }
                if queue.has_failed() {
                    return Some(Err(queue.clone()));
                }
                if self.streams.iter().all(|stream| stream.id() != queue.stream().id()) {
                    self.streams.push(queue.stream().shared());
                }
                *next += 1;
                budget.spend(QUEUE_LOOK);
            }
            (*publish, *next) = (*publish + 1, 0);
        }
        Some(Ok(()))
    }

    /// Does as much as the turn allows: publishes first, then settlements. Notes the queues that have something on its way to the
    /// disk. The caller has checked the targets, and that the log has room when the commit began; its outbox is notified when
    /// moves of dead letters are durable. `None` if something is left.
    pub fn part(&mut self, client: &mut ClientConnection, now: Now) -> Option<Committed> {
        if self.state == State::Begun {
            let work = *self.work.get_or_insert_with(|| self.transaction.work());
            let is_short = work <= client.budget.share();
            // The log had room when the client requested the commit. Others may have used it while this one was in line.
            client.wait_for_room(if is_short || client.is_gone() { None } else { self.full_stream() });
            if client.waits_for_room() {
                return None;
            }
            if !is_short {
                self.slot = client.take_group_slot();
            }
            // While another commit has the slot, this one waits. If its connection has ended, it is done at once: nothing may
            // have to wait then.
            if !is_short && self.slot.is_none() && !client.is_gone() {
                return None;
            }
            let (publishes, settles) = self.transaction.take_steps();
            (self.publishes, self.settles) = (publishes.into_iter(), settles.into_iter());
            self.state = State::Open;
        }
        if self.state == State::Open {
            if !(self.publish(client, now) && self.settle_in_groups(client, now)) {
                return None;
            }
            self.close();
        }
        self.settle_later(client, now).then(|| {
            let waits = std::mem::take(&mut self.waits);
            let wait = WaitFor::all(waits.into_iter().chain([std::mem::take(&mut self.wait)]));
            Committed { wait, refused: self.refused }
        })
    }

    /// A stream without room among those that it publishes to.
    fn full_stream(&self) -> Option<StreamId> {
        self.streams.iter().find(|stream| !stream.has_room()).map(|stream| stream.id())
    }

    /// Whether the turn is over for a commit whose groups are open: one without the slot has to close them in this turn.
    fn pauses(&self, client: &ClientConnection) -> bool {
        self.slot.is_some() && client.budget.is_spent()
    }

    /// Publishes to the next queues. True if none is left.
    fn publish(&mut self, client: &mut ClientConnection, now: Now) -> bool {
        while !self.publishes.as_slice().is_empty() {
            if self.pauses(client) {
                return false;
            }
            let Some(Publishing { queues, batch, persistent }) = self.publishes.as_mut_slice().first_mut() else {
                break;
            };
            if self.next == 0 {
                Arc::make_mut(batch).receive_at(self.begun_ms);
            }
            if let Some(queue) = queues.get(self.next) {
                let count = batch.len() as u32;
                let group = self.groups.of(queue);
                let Published { acceptance, awaited, .. } =
                    queue.publish_in(group, BatchPart::of(batch, 0, count), *persistent, now.monotonic);
                if matches!(acceptance, Acceptance::Known(accepted) if accepted < count) {
                    self.refused = Some(PartialReason::Refused(queue.refusal_reason()));
                }
                self.wait.and_publish(awaited, &acceptance);
                if !awaited.is_nothing() {
                    // The memory of a batch is counted once, spread over its queues.
                    client.undurable.note(awaited, queue, batch.memory() as u64 / queues.len() as u64);
                }
                self.next += 1;
                client.budget.spend(QUEUE_RUN + count * ENQUEUE);
            }
            if self.next >= queues.len() {
                self.publishes.next();
                self.next = 0;
            }
        }
        true
    }

    /// Carries out the next settlements that are part of the groups. True if none is left.
    fn settle_in_groups(&mut self, client: &mut ClientConnection, now: Now) -> bool {
        let mut later = Vec::from_iter(std::mem::take(&mut self.later));
        let mut is_done = true;
        while let Some(settling) = self.settles.as_slice().first() {
            if self.pauses(client) {
                is_done = false;
                break;
            }
            let Settling { queue, consumer, runs, settlement } = settling;
            let departure = match settlement {
                Settlement::Acknowledge => Departure::Settled,
                Settlement::Reject { .. } if queue.effective().options(queue.info()).dead_letter.is_none() => {
                    Departure::Dropped
                }
                Settlement::Reject { .. } | Settlement::Requeue { .. } => {
                    later.extend(self.settles.next());
                    continue;
                }
            };
            let part = next_runs(runs, self.next, client);
            queue.settle_in(self.groups.of(queue), Deliveries::of(*consumer, part), departure, now.monotonic);
            self.next += part.len();
            if self.next >= runs.len() {
                self.settles.next();
                self.next = 0;
            }
        }
        self.later = later.into_iter();
        is_done
    }

    fn close(&mut self) {
        let groups = std::mem::take(&mut self.groups);
        self.waits.extend(groups.0.into_iter().map(|group| group.commit(Wait::Confirm)));
        self.slot = None;
        self.state = State::Closed;
    }

    /// Carries out the next settlements that follow the groups. True if none is left.
    fn settle_later(&mut self, client: &mut ClientConnection, now: Now) -> bool {
        while let Some(Settling { queue, consumer, runs, settlement }) = self.later.as_slice().first() {
            if client.budget.is_spent() {
                return false;
            }
            let part = next_runs(runs, self.next, client);
            match settlement {
                Settlement::Requeue { .. } => {
                    queue.settle(Deliveries::of(*consumer, part), *settlement, Wait::Lazy, now.monotonic);
                }
                Settlement::Reject { failed } => {
                    let (outbox, reason) = (&client.outbox, Reason::Transaction);
                    self.waits.push(queue.reject(
                        Deliveries::of(*consumer, part),
                        *failed,
                        outbox,
                        reason,
                        now.monotonic,
                    ));
                }
                Settlement::Acknowledge => unreachable!("an acknowledgement is part of the groups"),
            }
            self.next += part.len();
            if self.next >= runs.len() {
                self.later.next();
                self.next = 0;
            }
        }
        true
    }
}

/// The next runs that one call settles: as many as a record may hold, and a turn settle.
fn next_runs<'a>(runs: &'a [Run], next: usize, client: &mut ClientConnection) -> &'a [Run] {
    let most = RECORD_RUNS_MAX.min((client.budget.share() / SETTLED_RUN).max(1) as usize);
    let part = &runs[next..runs.len().min(next + most)];
    client.budget.spend(QUEUE_RUN + part.len() as u32 * SETTLED_RUN);
    part
}

/// The groups of a commit, one for each stream.
#[derive(Default)]
struct Groups(SmallVec<[Group; 1]>);

impl Groups {
    fn of(&mut self, queue: &QueueRef) -> &mut Group {
        let at = match self.0.iter().position(|group| group.stream() == queue.stream().id()) {
            Some(at) => at,
            None => {
                self.0.push(Group::new(queue.stream().id()));
                self.0.len() - 1
            }
        };
        &mut self.0[at]
    }
}
