//! The side of a data link that has the queues: it carries out the calls of another node's clients as a client's own session would.

mod committing;
mod consumers;
mod consuming;
mod rejecting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leveret_broker::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::broker::Broker;
use leveret_broker::group::Group;
use leveret_broker::outbox::{Event, Outbox};
use leveret_broker::output::Output;
use leveret_broker::queue_handle::{
    Acceptance, Audience, KeptOffsetOf, LedgerQueueRef, Numbered, Published, QueueRef, Reason, RefusedPublish, Removed,
    RunState, Search, Size, StreamEnds, WriterSequence,
};
use leveret_broker::registry::{ChangeRequest, Changed};
use leveret_broker::remote::{
    CallKind, Deletion, EarlierHomes, HomeAnswer, HomeQuestion, HomeSeat, LaneCall, NotTaken, RemoteSignal,
};
use leveret_broker::replicas::HeldOfMember;
use leveret_broker::settlement::Settlement;
use leveret_broker::streams::Waiter;
use leveret_broker::streams::waits::{InOrder, Registered, RunsByStream};
use leveret_broker::ticket::{StreamId, Ticket};
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::{APPLY, CONSUMER, TurnBudget};
use leveret_broker::wait_for::{WaitEnd, WaitFor};
use leveret_log::Wait;
use leveret_message::BatchPart;
use leveret_model::{CommandOutcome, MemberNumber, PlacementNumber, QueueId};
use leveret_queue::{
    Deliveries, Departure, Flow, GetOutcome, Link, NoConsumer, QueueState, Run, Scan, Signal, Watermarks,
};
use parking_lot::Mutex;
use tracing::warn;

use self::committing::Committing;
use self::consumers::{Consumers, Reading, TakenBuffers};
use self::consuming::give_back;
use self::rejecting::Rejections;
use crate::calls::{begin, decode_call, held_question, queue_of};
use crate::frame::{DataFrameError, decode};
use crate::replies::{encode_answer, encode_done, encode_signal};

/// Bytes of output above which consumers wait.
const OUTPUT_BYTES: usize = 256 << 10;

/// Bytes behind a call that waits at which no more are read.
const KEPT_BYTES: usize = 1 << 20;

/// The id of no queue, in calls that concern several.
const NO_QUEUE: QueueId = QueueId(0);
/// Longest time for which a call waits until this node's metadata knows its queue; then the queue counts as deleted.
const BEHIND_NS: Nanos = 10_000_000_000;
/// Longest time for which a call waits until this node leads its queue; then it is lost.
const LEAD_NS: Nanos = 1_000_000_000;
/// Interval at which it is looked for.
const LOOK_NS: Nanos = 5_000_000;

/// The answers that came since the last turn.
type Answers = Arc<Mutex<Vec<(u64, HomeAnswer)>>>;

/// A call has to wait until this node's metadata knows its queue.
struct Behind;

/// The reason why calls wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WaitedFor {
    /// The metadata of this node doesn't know the queue.
    Queue(QueueId),
    /// This node may lead the placement in a moment.
    Leader(PlacementNumber),
}

/// A call with a number, whose end is waited for.
type NumberedCall = (u64, Option<NotTaken>);

/// The session of a data link on the side of the queues.
pub struct HomeSession {
    broker: Arc<Broker>,
    /// The other node.
    member: MemberNumber,
    /// Its name.
    node: Arc<str>,
    outbox: Arc<Outbox>,
    output: Output,
    events: Vec<Event>,
    consumers: Consumers,
    taken: TakenBuffers,
    /// Gets that wait for a message to be read from the disk, by key.
    gets: BTreeMap<u64, WaitingGet>,
    /// Gets whose message's body is being read.
    reading_gets: Vec<(u64, u64, Reading)>,
    answers: Answers,
    /// Calls of groups that aren't committed.
    groups: BTreeMap<u64, Vec<LaneCall>>,
    /// The group that is being carried out.
    committing: Option<Committing>,
    /// Publishes that aren't durable.
    runs: RunsByStream<QueueRef>,
    waits: InOrder<NumberedCall>,
    rejections: Rejections,
    registered: Registered,
    /// All calls with numbers up to here have ended, and some beyond.
    through: u64,
    beyond: BTreeSet<u64>,
    not_taken: Vec<NumberedCall>,
    told_through: u64,
    /// A queue that this node's metadata doesn't know yet, and since when a call on it waits.
    behind: Option<(QueueId, Nanos)>,
    /// Since when calls have waited, until what they wait for is here, or known to be elsewhere.
    waiting: BTreeMap<WaitedFor, Nanos>,
    /// The time at which it is looked for again.
    next_look: Option<Nanos>,
    /// The input behind that call.
    kept: Vec<u8>,
    /// Questions for what clients hold that were answered before their turn.
    reported: BTreeSet<u64>,
    /// Queues of which consumers, or what they hold, couldn't be taken over: what was decided since isn't carried out.
    refused: BTreeSet<QueueId>,
    budget: TurnBudget,
    /// The session's place as that of the core which has dialled, and those that had it before and haven't left.
    seat: Option<HomeSeat>,
    earlier: Option<EarlierHomes>,
    is_finished: bool,
    has_left: bool,
}

struct WaitingGet {
    number: u64,
    queue: LedgerQueueRef,
    automatic_ack: bool,
}

impl HomeSession {
    /// The session of a link that another node dialled; `outbox` wakes its task.
    pub fn new(broker: &Arc<Broker>, (member, node): (MemberNumber, Arc<str>), outbox: Arc<Outbox>) -> Self {
        Self {
            broker: broker.clone(),
            member,
            node,
            outbox,
            output: Output::default(),
            events: Vec::new(),
            consumers: Consumers::default(),
            taken: TakenBuffers::default(),
            gets: BTreeMap::new(),
            reading_gets: Vec::new(),
            answers: Answers::default(),
            groups: BTreeMap::new(),
            committing: None,
            runs: RunsByStream::default(),
            waits: InOrder::default(),
            rejections: Rejections::default(),
            registered: Registered::default(),
            through: 0,
            beyond: BTreeSet::new(),
            not_taken: Vec::new(),
            told_through: 0,
            behind: None,
            waiting: BTreeMap::new(),
            next_look: None,
            kept: Vec::new(),
            reported: BTreeSet::new(),
            refused: BTreeSet::new(),
            budget: TurnBudget::new(broker.settings.turn_work_max),
            seat: None,
            earlier: None,
            is_finished: false,
            has_left: false,
        }
    }

    /// The link was dialled by this core. An earlier session of it ends first.
    fn begin(&mut self, core: u16) {
        let (seat, earlier) = self.broker.homes.seat((self.member, core), &self.outbox);
        (self.seat, self.earlier) = (Some(seat), Some(earlier));
    }

    /// Whether an earlier session of the same core hasn't left.
    fn is_early(&mut self, now: Nanos) -> bool {
        self.earlier.take_if(|earlier| earlier.have_left());
        if self.earlier.is_some() {
            self.next_look = Some(now + LOOK_NS);
        }
        self.earlier.is_some()
    }

    fn queue(&self, id: QueueId) -> Option<QueueRef> {
        let snapshot = self.broker.registry.snapshot();
        snapshot.queues.get(&id)?.at_home()
    }

    fn link(&self) -> Arc<dyn Link> {
        self.outbox.clone()
    }

    /// The queue of a call, if it is here. `Err` if the call has to wait, since the other node knows more of the metadata.
    fn queue_of_call(&mut self, id: QueueId, now: Nanos) -> Result<Option<QueueRef>, Behind> {
        let (queue, waited_for) = (self.queue(id), self.waited_for(id));
        let patience = if queue.is_none() { self.patience_for(id) } else { None };
        self.behind = None;
        let Some(patience) = patience else {
            self.waiting.remove(&waited_for);
            return Ok(queue);
        };
        // All calls on queues of one placement wait together, and those that come later wait for the rest of the time.
        let since = *self.waiting.entry(waited_for).or_insert(now);
        if now < since + patience {
            self.behind = Some((id, since));
            self.next_look = Some(now + LOOK_NS);
            return Err(Behind);
        }
        Ok(None)
    }

    fn waited_for(&self, id: QueueId) -> WaitedFor {
        let snapshot = self.broker.registry.snapshot();
        let placement = snapshot.queues.get(&id).and_then(|queue| queue.info().home.placement());
        placement.map_or(WaitedFor::Queue(id), WaitedFor::Leader)
    }

    /// How long a call waits for a queue that isn't here; `None` if it isn't expected.
    fn patience_for(&self, id: QueueId) -> Option<Nanos> {
        let registry = &self.broker.registry;
        match registry.snapshot().queues.get(&id) {
            Some(queue) => queue.may_be_led_here().then_some(LEAD_NS),
            None => (id != NO_QUEUE && registry.is_coming(id)).then_some(BEHIND_NS),
        }
    }

    fn take_call(
        &mut self,
        (kind, fields): (u8, &[u8]),
        queue: Option<QueueRef>,
        now: Nanos,
    ) -> Result<(), DataFrameError> {
        let (outbox, consumers) = (&self.outbox, &mut self.consumers);
        let consumer = || (outbox.clone(), consumers.next_key());
        let name = || queue.as_ref().map_or_else(|| "".into(), |queue| queue.info().name.clone());
        let call = decode_call(kind, fields, consumer, name)?;
        match &call.what {
            CallKind::Publish { group: Some(group), .. } | CallKind::Settle { group: Some(group), .. } => {
                self.groups.entry(*group).or_default().push(call);
            }
            CallKind::Commit(group) => self.commit(*group, call.number, now),
            _ => self.carry_out(call, queue, now),
        }
        Ok(())
    }

    /// A call with a number ends with this condition.
    fn number(&mut self, number: Option<u64>, wait: WaitFor, not_taken: Option<NotTaken>) {
        if let Some(number) = number {
            self.waits.push(wait, (number, not_taken));
        }
    }

    fn carry_out(&mut self, call: LaneCall, queue: Option<QueueRef>, now: Nanos) {
        let LaneCall { number, what, queue: id } = call;
        if let CallKind::Ask(number, HomeQuestion::Held(placement, term)) = what {
            return self.report_held(number, (placement, term), now);
        }
        if let CallKind::Ask(number, HomeQuestion::HasConsumer(of, id)) = what {
            let has = HomeAnswer::Carried(self.broker.has_consumer(of, id));
            return encode_answer(self.output.buffer(), number, &has, None);
        }
        let Some(queue) = queue else { return self.refuse(number, id, what) };
        match what {
            CallKind::Publish { batch, index, count, persistent, origin, .. } => {
                let part = BatchPart::of(&batch, index, count);
                let published = match origin {
                    None => Some(queue.publish(part, persistent, Audience::Unpaced(None), now)),
                    Some(origin) => queue.publish_of(origin, part, persistent, now),
                };
                let Some(published) = published else {
                    return self.number(number, WaitFor::default(), Some(NotTaken::Lost));
                };
                self.published(number, &queue, published, count, batch.memory() as u64);
            }
            CallKind::PublishChunk { chunk, numbered } => {
                let Some(stream) = queue.as_stream() else {
                    return self.refuse(number, id, CallKind::PublishChunk { chunk, numbered });
                };
                let numbered = numbered.as_ref().map(|(name, numbers)| Numbered { name, numbers });
                let published = stream.publish_chunk(&chunk, numbered, now);
                self.published(number, &queue, published, chunk.len() as u32, chunk.held_bytes());
            }
            CallKind::Activity { id, active, start } => {
                if let Some(stream) = queue.as_stream() {
                    stream.activity_answered(id, active, start, now);
                }
            }
            CallKind::Settle { consumer, runs, how, .. } => {
                let runs = self.consumers.settled(&queue, consumer, &runs);
                let wait = if number.is_some() { Wait::Confirm } else { Wait::Lazy };
                let ticket = queue.settle(Deliveries::of(consumer, &runs), how, wait, now);
                self.number(number, ticket.map_or_else(WaitFor::default, WaitFor::from), None);
            }
            CallKind::Acknowledge(held) => {
                queue.acknowledge(&self.consumers.all_settled(&queue, held), now);
            }
            CallKind::Modify { consumer, runs, failed, added } => {
                let runs = self.consumers.settled(&queue, consumer, &runs);
                let wait = if number.is_some() { Wait::Confirm } else { Wait::Lazy };
                let ticket = queue.modify(Deliveries::of(consumer, &runs), failed, &added, wait, now);
                self.number(number, ticket.map_or_else(WaitFor::default, WaitFor::from), None);
            }
            CallKind::TakeBack { id, runs, unsent } => {
                let runs = self.consumers.settled(&queue, Some(id), &runs);
                queue.take_back(id, &runs, unsent, now);
            }
            CallKind::Overdue { id, overdue } => queue.flow(id, Flow::Overdue(overdue), now),
            CallKind::Claim { id, tokens } => {
                if let Some(queue) = queue.as_ledger() {
                    queue.claim(id, &tokens);
                }
            }
            CallKind::Annotate { runs, added } => {
                if let Some(queue) = queue.as_ledger() {
                    queue.annotate(&runs, &added);
                }
            }
            CallKind::Window { id, messages, bytes } => self.consumers.give_room(id, messages, bytes, now),
            CallKind::Ask(asked, question) => self.ask(asked, &queue, question, now),
            CallKind::Commit(_) => {}
        }
    }

    fn published(&mut self, number: Option<u64>, queue: &QueueRef, published: Published, count: u32, bytes: u64) {
        let refused = |accepted| {
            let refused = RefusedPublish { accepted, queue: queue.info().name.clone(), reason: queue.refusal_reason() };
            NotTaken::Refused(refused.into())
        };
        let not_taken = match published.acceptance {
            _ if published.is_gone => Some(NotTaken::Gone),
            Acceptance::Known(accepted) if accepted < count => Some(refused(accepted)),
            Acceptance::Known(_) | Acceptance::Later(_) => None,
        };
        if !published.awaited.is_nothing() {
            self.runs.note(published.awaited, queue, bytes);
        }
        let mut wait = WaitFor::default();
        wait.and_publish(published.awaited, &published.acceptance);
        self.number(number, wait, not_taken);
    }

    /// The queue isn't here, or not any more. A replicated one may be led by another node: nothing of it is carried out here.
    fn refuse(&mut self, number: Option<u64>, id: QueueId, what: CallKind) {
        let elsewhere = self.broker.registry.snapshot().queues.get(&id).cloned();
        let is_elsewhere = elsewhere.is_some();
        let lost = if is_elsewhere { NotTaken::Lost } else { NotTaken::Gone };
        self.number(number, WaitFor::default(), Some(lost));
        if let (CallKind::Publish { origin: Some(origin), .. }, Some(queue)) = (&what, elsewhere) {
            queue.missed(*origin);
        }
        if let CallKind::Ask(number, question) = what {
            match &question {
                HomeQuestion::Consume { .. } | HomeQuestion::Hold { .. } if is_elsewhere => _ = self.refused.insert(id),
                // Of an earlier leadership.
                HomeQuestion::Cancel(consumer, _) => self.consumers.forget(id, *consumer),
                HomeQuestion::Leave { consumers, .. } => {
                    consumers.iter().for_each(|consumer| self.consumers.forget(id, *consumer));
                }
                _ => {}
            }
            let answer = match question {
                HomeQuestion::Consume { .. } => HomeAnswer::Consumed(Err(NoConsumer::Gone)),
                HomeQuestion::Cancel(..) | HomeQuestion::Leave { .. } => HomeAnswer::Left(None),
                HomeQuestion::Grant { .. } => HomeAnswer::Granted(None),
                _ if is_elsewhere => HomeAnswer::Moved,
                HomeQuestion::Get { .. } => HomeAnswer::Got(GetOutcome::Empty),
                HomeQuestion::Purge | HomeQuestion::DropSetAside { .. } => HomeAnswer::Removed(0),
                HomeQuestion::Size(_) => HomeAnswer::Size(0, 0),
                HomeQuestion::RunState => HomeAnswer::RunState(QueueState::Deleted),
                HomeQuestion::KeepOffset(_)
                | HomeQuestion::ActivateGroup(_)
                | HomeQuestion::Hold { .. }
                | HomeQuestion::Reject { .. }
                | HomeQuestion::Committed(_)
                | HomeQuestion::HasConsumer(..) => HomeAnswer::Carried(false),
                HomeQuestion::Held(..) => HomeAnswer::Held(HeldOfMember::new()),
                HomeQuestion::KeptOffset(_) | HomeQuestion::Sequence(_) | HomeQuestion::Search { .. } => {
                    HomeAnswer::Found(None)
                }
                HomeQuestion::StreamEnds => HomeAnswer::StreamEnds(None),
                HomeQuestion::Delete(_) => HomeAnswer::Deleted(Ok(None)),
            };
            encode_answer(self.output.buffer(), number, &answer, None);
        }
    }

    /// Carries out a group, whose calls have all come: in this turn, or if there are many, in several.
    fn commit(&mut self, group: u64, number: Option<u64>, now: Nanos) {
        let calls = self.groups.remove(&group).unwrap_or_default();
        // There is no way back behind the first step.
        let snapshot = self.broker.registry.snapshot();
        let is_led_elsewhere =
            |call: &LaneCall| snapshot.queues.get(&call.queue).is_some_and(|queue| queue.at_home().is_none());
        let is_lost = calls.iter().any(is_led_elsewhere);
        self.committing = Some(Committing { is_lost, ..Committing::new(number, calls, self.budget.share()) });
        self.go_on_committing(now);
    }

    /// Goes on with the group that is being carried out, as far as the turn allows. Nothing is read until it is done.
    fn go_on_committing(&mut self, now: Nanos) {
        let Some(mut committing) = self.committing.take() else { return };
        if !committing.is_short && committing.slot.is_none() && !self.has_left {
            let mut queues = committing.calls.as_slice().iter().filter_map(|call| self.queue(call.queue));
            let has_room = queues.all(|queue| queue.stream().has_room());
            committing.slot = if has_room { self.broker.own_group_slot().take() } else { None };
            if committing.slot.is_none() {
                self.next_look = Some(now + LOOK_NS);
                self.committing = Some(committing);
                return;
            }
        }
        while let Some(call) = committing.next(&mut self.budget) {
            // Another member may lead a queue of it, and may have done so before the group was begun here.
            if committing.is_lost || !self.carry_out_in(&mut committing.groups, &call, now) {
                committing.is_lost = true;
                self.refuse(call.number, call.queue, call.what);
            }
        }
        if committing.calls.as_slice().is_empty() {
            let wait = WaitFor::all(committing.groups.into_iter().map(|group| group.commit(Wait::Confirm)));
            self.number(committing.number, wait, committing.is_lost.then_some(NotTaken::Lost));
        } else {
            self.committing = Some(committing);
        }
    }

    /// Carries out a call as part of the group of its queue's stream. False if it can't be: the queue is led elsewhere, or the other node doesn't
    /// hold all of the messages any more. What concerns a deleted queue is over.
    fn carry_out_in(&mut self, groups: &mut Vec<Group>, call: &LaneCall, now: Nanos) -> bool {
        let LaneCall { queue: id, number, what } = call;
        let Some(queue) = self.queue(*id) else {
            let is_deleted = !self.broker.registry.snapshot().queues.contains_key(id);
            if is_deleted {
                self.number(*number, WaitFor::default(), Some(NotTaken::Gone));
            }
            return is_deleted;
        };
        let stream = queue.stream().id();
        let at = groups.iter().position(|group| group.stream() == stream).unwrap_or_else(|| {
            groups.push(Group::new(stream));
            groups.len() - 1
        });
        match what {
            CallKind::Publish { batch, index, count, persistent, .. } => {
                let part = BatchPart::of(batch, *index, *count);
                let published = queue.publish_in(&mut groups[at], part, *persistent, now);
                self.published(*number, &queue, published, *count, batch.memory() as u64);
                true
            }
            CallKind::Settle { consumer, runs: said, how, .. } => {
                let runs = self.consumers.settled(&queue, *consumer, said);
                let departure = match how {
                    Settlement::Acknowledge => Departure::Settled,
                    Settlement::Reject { .. } | Settlement::Requeue { .. } => Departure::Dropped,
                };
                queue.settle_in(&mut groups[at], Deliveries::of(*consumer, &runs), departure, now);
                let count = |runs: &[Run]| runs.iter().map(|run| run.last - run.first + 1).sum::<u64>();
                count(&runs) == count(said)
            }
            _ => true,
        }
    }
}

/// Questions.
impl HomeSession {
    fn ask(&mut self, number: u64, queue: &QueueRef, question: HomeQuestion, now: Nanos) {
        match question {
            HomeQuestion::Consume { term: Some(term), .. } | HomeQuestion::Hold { term, .. }
                if queue.led_in() != Some(term) =>
            {
                self.refuse(None, queue.info().id, CallKind::Ask(number, question));
            }
            HomeQuestion::Consume { id, options, held, registered, .. } => {
                self.consume(number, queue, (id, *options), (&held, registered), now);
            }
            HomeQuestion::Cancel(id, unsent) => {
                self.requeue(Some(id), queue, &unsent, now);
                self.consumers.remove(id);
                self.answer(number, queue.cancel(id, now), HomeAnswer::Left);
            }
            HomeQuestion::Leave { consumers, held, failed } => {
                let held = self.consumers.all_settled(queue, held);
                for id in &consumers {
                    // The rest was never sent to the client.
                    let unsent = self.consumers.all_of(queue, Some(*id));
                    give_back(Some(*id), queue, &unsent, now);
                    self.consumers.remove(*id);
                }
                self.answer(number, queue.leave(&consumers, &held, failed, now), HomeAnswer::Left);
            }
            HomeQuestion::Grant { id, delivery_count, link_credit, drain } => {
                self.answer(number, queue.grant(id, delivery_count, link_credit, drain, now), HomeAnswer::Granted);
            }
            HomeQuestion::Get { automatic_ack } => match queue.as_ledger() {
                Some(queue) => self.get(WaitingGet { number, queue, automatic_ack }, now),
                None => self.answer(number, NowOrLater::Now(GetOutcome::Empty), HomeAnswer::Got),
            },
            HomeQuestion::Purge => match queue.as_ledger() {
                Some(ledger) => self.answer_removed(number, queue, ledger.purge(now)),
                None => self.answer(number, NowOrLater::Now(0), HomeAnswer::Removed),
            },
            HomeQuestion::DropSetAside { which, first, last } => match queue.as_ledger() {
                Some(ledger) => self.answer_removed(number, queue, ledger.drop_set_aside(which, first, last, now)),
                None => self.answer(number, NowOrLater::Now(0), HomeAnswer::Removed),
            },
            HomeQuestion::Size(used) => {
                let size = queue.ask(Size { used: used.then_some(now) });
                self.answer(number, size, |(ready, consumers)| HomeAnswer::Size(ready, consumers));
            }
            HomeQuestion::RunState => self.answer(number, queue.ask(RunState), HomeAnswer::RunState),
            HomeQuestion::KeepOffset(kept) => match queue.as_stream() {
                Some(stream) => self.answer(number, stream.keep_offset(kept, now), HomeAnswer::Carried),
                None => self.answer(number, NowOrLater::Now(false), HomeAnswer::Carried),
            },
            HomeQuestion::ActivateGroup(name) => match queue.as_stream() {
                Some(stream) => self.answer(number, stream.activate_group(&name, now), HomeAnswer::Carried),
                None => self.answer(number, NowOrLater::Now(false), HomeAnswer::Carried),
            },
            HomeQuestion::KeptOffset(name) => {
                self.answer(number, queue.ask(KeptOffsetOf(name)), HomeAnswer::Found);
            }
            HomeQuestion::Sequence(name) => {
                let found = queue.ask(WriterSequence(name));
                self.answer_durable(number, found, HomeAnswer::Found);
            }
            HomeQuestion::Search { start, filter } => {
                let offset = |(offset, scan): (u64, Box<Scan>)| scan.end.map_or(offset, |end| offset.min(end));
                let found = queue.ask(Search { start, filter });
                self.answer(number, found, move |found| HomeAnswer::Found(found.map(offset)));
            }
            HomeQuestion::StreamEnds => self.answer(number, queue.ask(StreamEnds), HomeAnswer::StreamEnds),
            HomeQuestion::Hold { consumer, runs, .. } => self.take_over(number, queue, consumer, &runs),
            HomeQuestion::Reject { consumer, runs, failed } => {
                let runs = self.consumers.settled(queue, consumer, &runs);
                let deliveries = Deliveries::of(consumer, &runs);
                let wait = queue.reject(deliveries, failed, &self.outbox, Reason::Settlement, now);
                self.rejections.push(queue, number, wait);
            }
            HomeQuestion::Committed(term) => {
                // Calls to another leadership, or of consumers that aren't known here, weren't carried out. They come again.
                match queue.led_in() == Some(term) && !self.refused.remove(&queue.info().id) {
                    true => self.answer_committed(number, queue),
                    false => self.answer(number, NowOrLater::Now(false), HomeAnswer::Carried),
                }
            }
            // They are no questions of queues that are here.
            HomeQuestion::Held(..) | HomeQuestion::HasConsumer(..) => {}
            HomeQuestion::Delete(deletion) => {
                let Deletion { permit, command, condition } = *deletion;
                let request = ChangeRequest::delete_queue(permit, command, condition);
                let count = |changed: Changed| {
                    let is_deleted = changed.outcome == CommandOutcome::Deleted;
                    is_deleted.then(|| changed.deleted.iter().map(QueueRef::deleted_messages).sum())
                };
                let asked = self.broker.registry.change(request, now);
                self.answer(number, asked, move |outcome| HomeAnswer::Deleted(outcome.map(count)));
            }
        }
    }

    /// Sends an answer: at once, or when it is there.
    fn answer<T: Send + 'static>(
        &self,
        number: u64,
        answer: NowOrLater<T>,
        of: impl FnOnce(T) -> HomeAnswer + Send + 'static,
    ) {
        let (answers, outbox) = (self.answers.clone(), self.outbox.clone());
        answer.then(move |answer| {
            answers.lock().push((number, of(answer)));
            outbox.send(Event::Queue(Signal::Answered(0)));
        });
    }

    /// Sends an answer once it is durable.
    fn answer_durable<T: Send + 'static>(
        &self,
        number: u64,
        answer: NowOrLater<(T, impl Into<WaitFor> + Send + 'static)>,
        of: impl FnOnce(T) -> HomeAnswer + Send + 'static,
    ) {
        let (answers, outbox, streams) = (self.answers.clone(), self.outbox.clone(), self.broker.streams.clone());
        answer.then(move |(answer, wait)| {
            let tell = move |_: WaitEnd| {
                answers.lock().push((number, of(answer)));
                outbox.send(Event::Queue(Signal::Answered(0)));
            };
            streams.when_over(wait, Box::new(tell));
        });
    }

    /// Says how many messages were removed, once they are for good. If another member leads before, nobody knows.
    fn answer_removed(&self, number: u64, queue: &QueueRef, removed: NowOrLater<Removed>) {
        let (answers, outbox, streams) = (self.answers.clone(), self.outbox.clone(), self.broker.streams.clone());
        let is_replicated = queue.info().home.placement().is_some();
        removed.then(move |removed| {
            let (count, ticket) = removed.unwrap_or_default();
            let tell = move |end: WaitEnd| {
                let is_lost = is_replicated && (removed.is_none() || !end.is_reached());
                let answer = if is_lost { HomeAnswer::Moved } else { HomeAnswer::Removed(count) };
                answers.lock().push((number, answer));
                outbox.send(Event::Queue(Signal::Answered(0)));
            };
            streams.when_over(ticket, Box::new(tell));
        });
    }

    /// Answers once everything that was said of the queue so far is committed, without hurry.
    fn answer_committed(&self, number: u64, queue: &QueueRef) {
        let (answers, outbox, streams) = (self.answers.clone(), self.outbox.clone(), self.broker.streams.clone());
        let stream = queue.stream();
        let all = Ticket::new(stream.id(), stream.appended());
        let tell = move |end: WaitEnd| {
            answers.lock().push((number, HomeAnswer::Carried(end.is_reached())));
            outbox.send(Event::Queue(Signal::Answered(0)));
        };
        streams.when_over(all, Box::new(tell));
    }

    fn report_held(&mut self, number: u64, leadership: (PlacementNumber, u64), now: Nanos) {
        if !self.reported.remove(&number) {
            let held = self.broker.report_held(leadership, now);
            encode_answer(self.output.buffer(), number, &HomeAnswer::Held(held), None);
        }
    }

    /// Answers what can't wait behind calls that wait for a leader: two nodes may wait for each other's answers before they lead.
    fn report_ahead(&mut self, now: Nanos) {
        let (mut at, mut asked) = (0, Vec::new());
        while let Ok(Some((kind, fields, length))) = decode(&self.kept[at..]) {
            asked.extend(held_question(kind, fields).filter(|(number, _)| !self.reported.contains(number)));
            at += length;
        }
        for (number, leadership) in asked {
            self.report_held(number, leadership, now);
            self.reported.insert(number);
        }
    }

    fn get(&mut self, get: WaitingGet, now: Nanos) {
        let key = self.consumers.next_key();
        match get.queue.get(get.automatic_ack, &self.link(), key, now) {
            NowOrLater::Now(GetOutcome::Wait) => {
                self.gets.insert(key, get);
            }
            NowOrLater::Now(outcome) => self.got(get, outcome),
            later @ NowOrLater::Later(_) => self.answer(get.number, later, HomeAnswer::Got),
        }
    }

    /// The message may be there, or the queue be led by another node.
    fn get_again(&mut self, get: WaitingGet, now: Nanos) {
        let id = get.queue.info().id;
        match self.queue(id).as_ref().and_then(QueueRef::as_ledger) {
            Some(queue) => self.get(WaitingGet { queue, ..get }, now),
            None => {
                let question = HomeQuestion::Get { automatic_ack: get.automatic_ack };
                self.refuse(None, id, CallKind::Ask(get.number, question));
            }
        }
    }

    fn got(&mut self, get: WaitingGet, outcome: GetOutcome) {
        if let GetOutcome::Message(taken, left) = &outcome {
            if !get.automatic_ack {
                self.consumers.hold(&get.queue, None, taken.runs());
            }
            if taken.ends_in_file() {
                let reading = Reading::new(taken.clone(), &get.queue, &self.broker, &self.outbox);
                self.reading_gets.push((get.number, *left, reading));
                return;
            }
        }
        encode_answer(self.output.buffer(), get.number, &HomeAnswer::Got(outcome), None);
    }
}

/// Turns.
impl HomeSession {
    fn handle_events(&mut self, now: Nanos) {
        let mut events = std::mem::take(&mut self.events);
        self.outbox.drain(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Queue(signal) => self.signalled(signal, now),
                Event::Durable(stream) => self.registered.notified(stream, false),
                Event::Written(stream) => self.registered.notified(stream, true),
                Event::Body => self.look_at_reads(now),
                Event::Close(_) | Event::Shed(_) => self.is_finished = true,
                _ => {}
            }
        }
        self.events = events;
        for (number, answer) in std::mem::take(&mut *self.answers.lock()) {
            encode_answer(self.output.buffer(), number, &answer, None);
        }
    }

    fn signalled(&mut self, signal: Signal, now: Nanos) {
        let (key, signal) = match signal {
            Signal::Scheduled(key) => return self.consumers.scheduled(key),
            Signal::Loaded(key) => {
                if let Some(get) = self.gets.remove(&key) {
                    self.get_again(get, now);
                }
                return;
            }
            Signal::Answered(_) => return,
            Signal::Cancelled(key) => (key, RemoteSignal::Cancelled),
            Signal::Activity { key, active, change, available } => {
                (key, RemoteSignal::Activity { active, change, available })
            }
            Signal::Drained { key, delivery_count, available } => {
                (key, RemoteSignal::Drained { delivery_count, available })
            }
        };
        let Some(id) = self.consumers.id_of(key) else { return };
        if signal == RemoteSignal::Cancelled
            && let Some(consumer) = self.consumers.remove(id)
        {
            // They are gone with the queue, or are in its log until a restart.
            self.consumers.all_of(&consumer.queue, Some(id));
        }
        encode_signal(self.output.buffer(), id, signal);
    }

    fn look_at_reads(&mut self, now: Nanos) {
        self.consumers.look_at_reads(&mut self.output, now);
        let output = &mut self.output;
        self.reading_gets.retain_mut(|(number, left, reading)| {
            let (body, outcome) = match reading.whole.look() {
                None => return true,
                Some(Ok(body)) => (Some(body), GetOutcome::Message(reading.taken.clone(), *left)),
                Some(Err(failure)) => (None, GetOutcome::Failed(failure.to_owned())),
            };
            encode_answer(output.buffer(), *number, &HomeAnswer::Got(outcome), body);
            false
        });
    }

    /// Answers rejections whose messages have been dead-lettered.
    fn tell_rejected(&mut self) {
        let streams = &self.broker.streams;
        for (number, is_done) in self.rejections.take_over(&|stream| streams.reached(stream)) {
            encode_answer(self.output.buffer(), number, &HomeAnswer::Carried(is_done), None);
        }
    }

    /// Applies publishes that became durable, and says which calls have ended.
    fn tell_done(&mut self) {
        if self.runs.is_empty() && self.waits.is_empty() {
            return;
        }
        let streams = &self.broker.streams;
        let used: Vec<(StreamId, Watermarks)> = {
            let ids = self.runs.streams().chain([StreamId::LOCAL]);
            ids.filter_map(|id| Some((id, streams.reached(id)?))).collect()
        };
        let known = |stream| used.iter().find(|(id, _)| *id == stream).map(|(_, reached)| *reached);
        let (_, is_all) = self.runs.apply(&known, &mut self.budget);
        if !is_all {
            return;
        }
        // A stream may have got further meanwhile: its messages aren't in their queues.
        let reached = |stream| known(stream).or_else(|| streams.reached(stream));
        while let Some(((number, not_taken), end)) = self.waits.pop(&reached) {
            let not_taken = not_taken.or(match end {
                WaitEnd::Reached => None,
                WaitEnd::Refused(refused) => Some(NotTaken::Refused(refused)),
                WaitEnd::Unrouted => Some(NotTaken::Gone),
                WaitEnd::Gone => Some(NotTaken::Lost),
            });
            if not_taken.is_some() {
                self.not_taken.push((number, not_taken));
            }
            self.beyond.insert(number);
        }
        while self.beyond.remove(&(self.through + 1)) {
            self.through += 1;
        }
        if self.through > self.told_through {
            self.told_through = self.through;
            let through = self.through;
            let told = self.not_taken.extract_if(.., |(number, _)| *number <= through);
            let told: Vec<_> = told.filter_map(|(number, what)| Some((number, what?))).collect();
            encode_done(self.output.buffer(), through, &told);
        }
    }

    fn serve(&mut self, now: Nanos) {
        let mut taken = std::mem::take(&mut self.taken);
        while self.output.len() < OUTPUT_BYTES
            && !self.budget.is_spent()
            && let Some(key) = self.consumers.next_scheduled()
        {
            self.budget.spend(CONSUMER);
            let with = (&*self.broker, &self.outbox);
            if self.consumers.serve(key, with, &mut self.output, &mut taken, now) {
                self.consumers.scheduled(key);
            }
        }
        self.taken = taken;
    }

    fn register(&mut self) {
        let Self { runs, waits, rejections, registered, .. } = self;
        runs.awaited().chain(waits.awaited()).chain(rejections.awaited()).for_each(|awaited| registered.want(awaited));
        let (streams, outbox) = (&self.broker.streams, &self.outbox);
        self.registered.register(|awaited| streams.notify(awaited, Waiter::Connection(outbox.clone())));
    }

    /// The link is gone: what its consumers hold returns to its queues.
    fn leave(&mut self, now: Now) {
        // All of it has come.
        self.budget = TurnBudget::unlimited();
        self.go_on_committing(now.monotonic);
        let (consumers, held) = self.consumers.take_all();
        // Before anything of theirs is ready for others.
        consumers.iter().for_each(|consumer| consumer.queue.lose(&[consumer.id], now.monotonic));
        for (queue, held) in held {
            let _ = queue.leave(&[], &held, false, now.monotonic);
        }
        for consumer in consumers {
            let left = consumer.queue.leave(&[consumer.id], &[], false, now.monotonic);
            // The node that would ask for it is gone.
            let _ = self.broker.delete_if_unused(&consumer.queue, left, now);
        }
        for (ticket, queue) in self.runs.drain() {
            self.broker.streams.notify(ticket.into(), queue.waiter());
        }
        self.broker.streams.announce();
    }
}

impl HomeSession {
    /// Carries out calls, up to one that has to wait. Returns the bytes of those before it.
    fn carry_out_all(&mut self, input: &[u8], now: Now) -> usize {
        let mut used = 0;
        while !self.is_finished && self.committing.is_none() && !self.is_early(now.monotonic) {
            let taken = match decode(&input[used..]) {
                Ok(None) => break,
                Ok(Some((kind, fields, length))) if begin(kind, fields).is_some() && self.seat.is_none() => {
                    used += length;
                    begin(kind, fields).into_iter().for_each(|core| self.begin(core));
                    Ok(())
                }
                Ok(Some((kind, fields, length))) => {
                    let id = queue_of(fields).unwrap_or(NO_QUEUE);
                    let Ok(queue) = self.queue_of_call(id, now.monotonic) else { break };
                    used += length;
                    self.take_call((kind, fields), queue, now.monotonic)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                warn!("the data link of node {} ends: {error}", self.node);
                self.is_finished = true;
                used = input.len();
            }
        }
        self.broker.streams.announce();
        used
    }

    /// Goes on with the input that is kept since a call had to wait.
    fn go_on(&mut self, now: Now) {
        let mut kept = std::mem::take(&mut self.kept);
        let used = self.carry_out_all(&kept, now);
        kept.drain(..used);
        self.kept = kept;
        self.report_ahead(now.monotonic);
    }
}

impl Session for HomeSession {
    fn receive(&mut self, input: &[u8], now: Now) -> usize {
        if self.kept.is_empty() {
            let used = self.carry_out_all(input, now);
            if self.behind.is_none() && self.earlier.is_none() {
                return used;
            }
            self.kept.extend_from_slice(&input[used..]);
            self.report_ahead(now.monotonic);
        } else {
            self.kept.extend_from_slice(input);
            self.go_on(now);
        }
        input.len()
    }

    fn turn(&mut self, now: Now) {
        self.budget.renew();
        let waits = |(id, since): (QueueId, Nanos)| {
            self.queue(id).is_none() && self.patience_for(id).is_some_and(|patience| now.monotonic < since + patience)
        };
        self.next_look = self.behind.filter(|behind| waits(*behind)).map(|_| now.monotonic + LOOK_NS);
        self.go_on_committing(now.monotonic);
        if !self.kept.is_empty() && self.committing.is_none() && !self.is_finished {
            self.go_on(now);
        }
        self.budget.spend(APPLY);
        self.handle_events(now.monotonic);
        self.tell_done();
        self.tell_rejected();
        self.serve(now.monotonic);
        self.broker.streams.announce();
        self.register();
    }

    fn wants_turn(&self) -> bool {
        self.output.len() < OUTPUT_BYTES && self.consumers.has_scheduled()
            || self.budget.is_spent()
            || self.committing.is_some() && self.next_look.is_none()
    }

    fn wants_read(&self) -> bool {
        self.committing.is_none() && (self.kept.is_empty() || self.kept.len() < KEPT_BYTES)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.next_look
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn is_ending(&self) -> bool {
        false
    }

    fn is_logged_in(&self) -> bool {
        true
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn transferred(&mut self, _: u64, _: u64, _: Now) {}

    fn disconnected(&mut self, now: Now) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.leave(now);
            self.seat = None;
        }
    }
}
