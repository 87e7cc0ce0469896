//! A *difference*: the state of a placement at another member, and the messages of it that this node lacks. A replica gets it that lacks
//! entries which the others don't have any more.
//!
//! A *state* is version 1 (1), length of the mark (4), the mark without copies, and for each queue its id (8), length (4) and whole state, see
//! [`Checkpoint::encode_whole`]. Live messages aren't in it: they are asked for queue by queue, since they never change and have the same
//! numbers everywhere. A *question* is version 1 (1), the index of the state (8), the queue (8), and the number from which on its live messages
//! are wanted (8). Its answer is version 1 (1), the number to ask for next or 2^64-1 (8), and for each message its number (8), length (4) and
//! bytes. All integers are little endian.
//!
//! Messages that come are appended to the log of a new *copy* of their queue. The copies count from one mark on, that of the whole state, so
//! that a crash before it leaves the replicas as they were; a start deletes what there is of the copies then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use leveret_log::{LiveState, Log, LogId, Payload, Position, ReadPlan, RoaringTreemap, StoredMessage, Wait};
use leveret_model::PlacementNumber;
use leveret_queue::{Checkpoint, QueueRecord, Replica};

use super::copies::{CopyNumber, copy_of, log_of_copy};
use super::mark::{AppliedMark, CONTROL_APPLIED, PlacedState, log_of};
use super::placed_replicas::{Applied, Inner, Kept, PlacedReplicas};
use crate::planted::{Bug, is_planted};
use crate::records::live_state_of;
use crate::streams::Store as _;
use crate::ticket::Ticket;

const VERSION: u8 = 1;
const END: u64 = u64::MAX;
/// Bytes of messages in an answer, apart from the first one.
const ANSWER_BYTES: usize = 1 << 20;
/// Most runs of live messages that are looked at for an answer.
const ANSWER_RUNS: usize = 4096;

/// A state that isn't complete here.
pub(super) struct Difference {
    /// Its mark.
    mark: AppliedMark,
    copy: CopyNumber,
    /// Queues whose state differs from the one here.
    queues: BTreeMap<LogId, Copied>,
    /// All queues of the state.
    all: BTreeSet<LogId>,
}

/// A queue of which a copy is made.
struct Copied {
    whole: Checkpoint,
    log: LogId,
    /// The messages that the store has for good.
    replica: Replica,
    position: Position,
    /// Messages that were appended since.
    pending: VecDeque<(Position, u64, Bytes)>,
}

/// A queue that lacks messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Lacking {
    /// The log of its id.
    pub queue: LogId,
    /// The numbers of the messages.
    pub numbers: RoaringTreemap,
}

/// A question for messages of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    index: u64,
    queue: LogId,
    from: u64,
}

impl Question {
    fn encode(self) -> Bytes {
        let mut to = vec![VERSION];
        [self.index, self.queue.0, self.from].into_iter().for_each(|number| to.put_u64_le(number));
        to.into()
    }

    fn decode(mut from: &[u8]) -> Option<Self> {
        if from.len() != 25 || from.get_u8() != VERSION {
            return None;
        }
        let [index, queue, number] = [(); 3].map(|()| from.get_u64_le());
        Some(Self { index, queue: LogId(queue), from: number })
    }
}

/// The plan of an answer.
pub(crate) struct AnswerPlan {
    /// Messages of one file.
    plan: Option<ReadPlan>,
    /// The last message that was looked at, if there is one: no read goes on behind it.
    end: Option<u64>,
}

impl AnswerPlan {
    /// Reads messages by `read`, and encodes the answer.
    ///
    /// # Errors
    /// They can't be read, in the reader's words.
    pub(crate) fn answer(
        self,
        read: impl Fn(&ReadPlan) -> Result<Vec<StoredMessage>, String>,
    ) -> Result<Bytes, String> {
        let messages = self.plan.as_ref().map(read).transpose()?.unwrap_or_default();
        encode_answer(&messages, self.end)
    }
}

fn encode_answer(messages: &[StoredMessage], end: Option<u64>) -> Result<Bytes, String> {
    let next = match (messages.last(), end) {
        (Some(last), Some(end)) if last.number < end => last.number + 1,
        (None, Some(end)) => return Err(format!("messages up to {end} can't be read at the moment")),
        _ => END,
    };
    let mut to = vec![VERSION];
    to.put_u64_le(next);
    for StoredMessage { number, payload, .. } in messages {
        to.put_u64_le(*number);
        to.put_u32_le(u32::try_from(payload.len()).map_err(|_| "a message has 4 GiB")?);
        to.put_slice(payload);
    }
    Ok(to.into())
}

/// The number to ask for next, and the messages in an answer; `None` if it isn't one of this version.
#[expect(clippy::type_complexity, reason = "two values of one answer")]
fn decode_answer(mut from: Bytes) -> Option<(Option<u64>, Vec<(u64, Bytes)>)> {
    if from.try_get_u8().ok()? != VERSION {
        return None;
    }
    let next = Some(from.try_get_u64_le().ok()?).filter(|next| *next != END);
    let mut messages = Vec::new();
    while from.has_remaining() {
        let (number, length) = (from.try_get_u64_le().ok()?, from.try_get_u32_le().ok()? as usize);
        if from.len() < length {
            return None;
        }
        messages.push((number, from.split_to(length)));
    }
    Some((next, messages))
}

fn decode_state(mut from: Bytes) -> Option<(AppliedMark, BTreeMap<LogId, Checkpoint>)> {
    let take = |from: &mut Bytes| {
        let length = from.try_get_u32_le().ok()? as usize;
        (length <= from.len()).then(|| from.split_to(length))
    };
    if from.try_get_u8().ok()? != VERSION {
        return None;
    }
    let mark = AppliedMark::decode(&take(&mut from)?)?;
    let mut queues = BTreeMap::new();
    while from.has_remaining() {
        let queue = LogId(from.try_get_u64_le().ok()?);
        let whole = Checkpoint::decode_whole(&take(&mut from)?).filter(|_| copy_of(queue).is_none())?;
        queues.insert(queue, whole);
    }
    Some((mark, queues))
}

impl Copied {
    fn new(whole: Checkpoint, log: LogId) -> Self {
        Self { whole, log, replica: Replica::default(), position: 0, pending: VecDeque::new() }
    }

    fn drain(&mut self, durable: Position) {
        while let Some((position, number, payload)) = self.pending.pop_front_if(|(position, ..)| *position <= durable) {
            self.position = position;
            // It can be read: it was checked before it was appended.
            let _ = self.replica.apply(QueueRecord::Message { number, payload: &payload });
        }
    }

    fn lacks(&self) -> RoaringTreemap {
        let mut lacking = &self.whole.live - &self.replica.ledger.live_set();
        self.pending.iter().for_each(|(_, number, _)| _ = lacking.remove(*number));
        if is_planted(Bug::ShortDifference) {
            self.whole.live.max().map(|last| lacking.remove(last));
        }
        lacking
    }

    /// Number behind the last message that was appended.
    fn end(&self) -> u64 {
        self.pending.back().map_or(self.replica.ledger.next(), |(_, number, _)| number + 1)
    }

    /// Whether it lacks messages before one that was appended. The member that sent an earlier state may have been ahead of the one that sends
    /// this one, so that they had left its queue. A log has its messages in order.
    fn is_out_of_order(&self) -> bool {
        self.lacks().min().is_some_and(|first| first < self.end())
    }
}

impl Difference {
    pub(super) fn drain(&mut self, durable: Position) {
        self.queues.values_mut().for_each(|copied| copied.drain(durable));
    }

    /// The state of a copy's log for a checkpoint, if it is one of these.
    pub(super) fn live_state(&mut self, log: LogId) -> Option<LiveState> {
        let (queue, _) = copy_of(log)?;
        let copied = self.queues.get_mut(&queue).filter(|copied| copied.log == log)?;
        Some(live_state_of(log, copied.position, copied.replica.checkpoint()))
    }
}

/// Whether two states of a placement are the same.
#[cfg(feature = "testing")]
#[must_use]
pub fn are_same(one: &Bytes, other: &Bytes) -> bool {
    let (Some((mark, queues)), Some((other_mark, other_queues))) =
        (decode_state(one.clone()), decode_state(other.clone()))
    else {
        return false;
    };
    let is_same =
        |(queue, whole): (&LogId, &Checkpoint)| other_queues.get(queue).is_some_and(|other| whole.is_same(other));
    mark == other_mark && queues.len() == other_queues.len() && queues.iter().all(is_same)
}

impl PlacedReplicas {
    /// Gives a copy a number, which is in the log before anything else of the copy.
    fn next_copy(&self, placement: PlacementNumber, inner: &mut Inner) -> CopyNumber {
        let used: BTreeSet<_> = inner.placements.values().flat_map(|applied| applied.latest.copies.clone()).collect();
        let mut next = inner.last_copy;
        loop {
            next = if next < CopyNumber::MAX { CopyNumber(next.0 + 1) } else { CopyNumber(1) };
            if !used.contains(&next) {
                break;
            }
        }
        inner.last_copy = next;
        let applied = inner.placements.entry(placement).or_default();
        let mark = AppliedMark { last_copy: next, ..AppliedMark::clone(&applied.latest) };
        self.append_mark(placement, mark, applied);
        next
    }

    /// The state of a placement as far as this node has it for good, for another member. `placement_of` says what the metadata knows of a queue.
    /// `None` while it isn't known of some queue, since the metadata lags behind, and from a start on until an entry was applied.
    pub fn save(
        &self,
        placement: PlacementNumber,
        placement_of: &dyn Fn(LogId) -> Option<PlacementNumber>,
    ) -> Option<(PlacedState, Bytes)> {
        let durable = self.store.inspect(Log::durable);
        let mut inner = self.inner.lock();
        inner.drain(durable);
        if inner.placements.get(&placement).is_some_and(|applied| applied.may_be_ahead) {
            return None;
        }
        let mut to = vec![VERSION];
        let mark = inner.placements.get(&placement).map(|applied| applied.kept.clone()).unwrap_or_default();
        let of_this_node = AppliedMark { copies: Vec::new(), last_copy: CopyNumber(0), ..AppliedMark::clone(&mark) };
        let encoded = of_this_node.encode();
        to.put_u32_le(encoded.len() as u32);
        to.put_slice(&encoded);
        let mut queues: Vec<_> = inner.queues.iter_mut().collect();
        // At one index all members make the same bytes.
        queues.sort_unstable_by_key(|(queue, _)| **queue);
        for (queue, kept) in queues {
            if kept.placement.is_none() {
                kept.placement = placement_of(*queue);
            }
            if kept.placement? == placement {
                let whole = kept.replica.checkpoint().encode_whole();
                to.put_u64_le(queue.0);
                to.put_u32_le(whole.len() as u32);
                to.put_slice(&whole);
            }
        }
        Some((mark.state.clone(), to.into()))
    }

    /// Takes a state of another member, and returns what is lacking. Messages that came for an earlier state are used. Everything that was
    /// applied here has to be durable.
    ///
    /// # Errors
    /// The bytes aren't a state. Nothing has changed.
    pub fn begin_difference(&self, placement: PlacementNumber, saved: &Bytes) -> Result<Vec<Lacking>, String> {
        let (mark, queues) = decode_state(saved.clone()).ok_or("it isn't a state of this version")?;
        let durable = self.store.inspect(Log::durable);
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.drain(durable);
        let all = queues.keys().copied().collect();
        let (mut copy, mut before) = match inner.differences.remove(&placement) {
            Some(Difference { copy, queues, .. }) => (copy, queues),
            None => (self.next_copy(placement, inner), BTreeMap::new()),
        };
        let mut copied = BTreeMap::new();
        for (queue, whole) in queues {
            let here = inner.queues.get_mut(&queue).map(|kept| kept.replica.checkpoint());
            if here.is_some_and(|here| here.is_same(&whole)) {
                continue;
            }
            let new = match before.remove(&queue) {
                Some(earlier) => Copied { whole, ..earlier },
                None => Copied::new(whole, log_of_copy(queue, copy)),
            };
            copied.insert(queue, new);
        }
        let mut left: Vec<LogId> = before.into_values().map(|copied| copied.log).collect();
        if copied.values().any(Copied::is_out_of_order) {
            copy = self.next_copy(placement, inner);
            let anew = |(queue, Copied { whole, log, .. }): (LogId, Copied)| {
                left.push(log);
                (queue, Copied::new(whole, log_of_copy(queue, copy)))
            };
            copied = copied.into_iter().map(anew).collect();
        }
        left.into_iter().for_each(|log| self.store.forget(log));
        let lacking = copied.iter().map(|(queue, copied)| Lacking { queue: *queue, numbers: copied.lacks() });
        let lacking = lacking.filter(|lacking| !lacking.numbers.is_empty()).collect();
        inner.differences.insert(placement, Difference { mark, copy, queues: copied, all });
        Ok(lacking)
    }

    /// The question for messages of a queue from a number on.
    pub fn question(&self, placement: PlacementNumber, queue: LogId, from: u64) -> Bytes {
        let inner = self.inner.lock();
        let index = inner.differences.get(&placement).and_then(|difference| difference.mark.state.applied);
        Question { index: index.map_or(0, |(_, index)| index), queue, from }.encode()
    }

    /// Plans the answer to a question for messages.
    ///
    /// # Errors
    /// It isn't one, or this node doesn't have the state that it is about.
    pub(crate) fn plan_answer(&self, placement: PlacementNumber, question: &Bytes) -> Result<AnswerPlan, String> {
        let Question { index, queue, from } =
            Question::decode(question).ok_or("it isn't a question of this version")?;
        let durable = self.store.inspect(Log::durable);
        let mut inner = self.inner.lock();
        inner.drain(durable);
        let applied = inner.placements.get(&placement).and_then(|applied| applied.kept.state.applied);
        if applied.is_none_or(|(_, applied)| applied < index) {
            return Err(format!("this member doesn't have entry {index} of placement {placement} for good yet"));
        }
        // A queue that was deleted meanwhile has none.
        let Some(kept) = inner.queues.get(&queue) else { return Ok(AnswerPlan { plan: None, end: None }) };
        let mut live = kept.replica.ledger.live_runs(from, END - 1);
        let runs: Vec<_> = live.by_ref().take(ANSWER_RUNS).collect();
        let end = live.next().or(runs.last().copied()).map(|(_, last)| last);
        let plans = self.store.plan_reads_of(kept.log, &runs, ANSWER_BYTES);
        Ok(AnswerPlan { plan: plans.into_iter().next(), end })
    }

    /// Takes an answer. Returns the number to ask for next, and the ticket after which its messages are durable.
    ///
    /// # Errors
    /// It isn't one.
    pub fn take_answer(
        &self,
        placement: PlacementNumber,
        queue: LogId,
        answer: Bytes,
    ) -> Result<(Option<u64>, Ticket), String> {
        let (next, messages) = decode_answer(answer).ok_or("the answer isn't one of this version")?;
        let mut inner = self.inner.lock();
        let copied = inner.differences.get_mut(&placement).and_then(|difference| difference.queues.get_mut(&queue));
        let copied = copied.ok_or("no state is being completed")?;
        // A log has its messages in order, each once.
        let mut end = copied.end();
        let is_wanted = |(number, payload): &(u64, Bytes)| {
            let is_next = *number >= end && copied.whole.live.contains(*number);
            let is_wanted = is_next && leveret_message::stored::lengths(payload).is_ok();
            if is_wanted {
                end = number + 1;
            }
            is_wanted
        };
        let wanted: Vec<_> = messages.into_iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            return Ok((next, Ticket::default()));
        }
        let bytes = wanted.iter().map(|(_, payload)| payload.len()).sum();
        let ticket = self.store.append_together(wanted.len(), bytes, |log, now| {
            let mut position = log.appended();
            for run in wanted.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
                let payloads = run.iter().map(|(_, payload)| Payload { head: &[], body: Some(payload) });
                position = log.append_messages(copied.log, run[0].0, payloads, Wait::Lazy, now);
            }
            position
        });
        let position = ticket.place().number();
        copied.pending.extend(wanted.into_iter().map(|(number, payload)| (position, number, payload)));
        Ok((next, ticket))
    }

    /// Drops a state that isn't complete, if there is one.
    pub fn drop_difference(&self, placement: PlacementNumber) {
        let dropped = self.inner.lock().differences.remove(&placement);
        let copied = dropped.map_or_else(BTreeMap::new, |difference| difference.queues);
        copied.into_values().for_each(|copied| self.store.forget(copied.log));
    }

    /// Whether the store takes further messages.
    pub fn has_room(&self) -> bool {
        crate::streams::CommitStream::has_room(&*self.store)
    }

    /// Appends that the state counts from now on, with this one of its placement. When the ticket is durable,
    /// [`finish_difference`](Self::finish_difference) has to be called before anything else is applied.
    ///
    /// # Errors
    /// There is no such state here, or it isn't complete.
    pub fn adopt_difference(&self, placement: PlacementNumber, state: PlacedState) -> Result<Ticket, String> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let difference = inner.differences.get_mut(&placement).ok_or("no state was completed")?;
        if difference.mark.state.applied != state.applied {
            return Err(format!(
                "the state of {:?} was completed, not {:?}",
                difference.mark.state.applied, state.applied
            ));
        }
        // Copies that have a queue still.
        let mut copies = inner.placements.get(&placement).map_or(Vec::new(), |applied| applied.latest.copies.clone());
        let in_use: BTreeSet<_> =
            inner.queues.values().filter_map(|kept| copy_of(kept.log)).map(|(_, copy)| copy).collect();
        copies.retain(|copy| in_use.contains(copy));
        if !difference.queues.is_empty() {
            copies.push(difference.copy);
        }
        let last_copy = inner.last_copy;
        difference.mark = AppliedMark { state, copies, last_copy, ..std::mem::take(&mut difference.mark) };
        let mark = difference.mark.encode();
        let wholes: Vec<_> =
            difference.queues.values().map(|copied| (copied.log, copied.whole.encode_whole())).collect();
        let bytes = wholes.iter().map(|(_, whole)| whole.len()).sum::<usize>() + mark.len();
        Ok(self.store.append_together(wholes.len() + 1, bytes, |log, now| {
            // The mark comes last: whatever of them a crash leaves, the copies count if it is there.
            for (of, whole) in &wholes {
                log.append_control(*of, Checkpoint::WHOLE, whole, Wait::Lazy, now);
            }
            log.append_control(log_of(placement), CONTROL_APPLIED, &mark, Wait::Lazy, now)
        }))
    }

    /// The state counts: see [`adopt_difference`](Self::adopt_difference), whose ticket is durable. `is_dropped` says whether a queue was deleted
    /// meanwhile.
    ///
    /// # Errors
    /// The state of a queue can't be read; the other ones count.
    pub fn finish_difference(
        &self,
        placement: PlacementNumber,
        ticket: Ticket,
        is_dropped: &dyn Fn(LogId) -> bool,
    ) -> Result<(), String> {
        let durable = self.store.inspect(Log::durable);
        let mut left = Vec::new();
        let mut error = Ok(());
        {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            inner.drain(durable);
            let Some(Difference { mark, queues, all, .. }) = inner.differences.remove(&placement) else {
                return Ok(());
            };
            let position = ticket.place().number();
            for (queue, copied) in queues {
                match Replica::restore(&copied.whole) {
                    _ if is_dropped(queue) => left.push(copied.log),
                    Ok(replica) => {
                        let kept = Kept { replica, log: copied.log, placement: Some(placement), position };
                        left.push(inner.queues.insert(queue, kept).map_or(queue, |older| older.log));
                    }
                    Err(unreadable) => error = Err(format!("the state of queue {}: {unreadable}", queue.0)),
                }
            }
            let is_gone = |queue: &LogId, kept: &mut Kept| kept.placement == Some(placement) && !all.contains(queue);
            left.extend(inner.queues.extract_if(|queue, kept| is_gone(queue, kept)).map(|(_, kept)| kept.log));
            let mark = Arc::new(mark);
            let held_below = inner.placements.get(&placement).map_or(0, |applied| applied.held_below);
            let applied =
                Applied { kept: mark.clone(), latest: mark, position, last: ticket, held_below, ..Applied::default() };
            inner.placements.insert(placement, applied);
        }
        left.into_iter().for_each(|log| self.store.forget(log));
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_found_again_cut_ones_refused() {
        let question = Question { index: 7, queue: LogId(3), from: 99 };
        let bytes = question.encode();
        assert_eq!(Question::decode(&bytes), Some(question));
        assert!((0..bytes.len()).all(|length| Question::decode(&bytes[..length]).is_none()));
        let message = |number| {
            let payload = Bytes::from(vec![number as u8; number as usize]);
            StoredMessage { number, messages: 1, payload, lent: None }
        };
        let sent = [3, 5].map(message);
        let answer = encode_answer(&sent, Some(8)).expect("it is short");
        let messages: Vec<_> = sent.iter().map(|message| (message.number, message.payload.clone())).collect();
        assert_eq!(decode_answer(answer.clone()), Some((Some(6), messages.clone())));
        let last = encode_answer(&sent, Some(5)).expect("it is short");
        assert_eq!(decode_answer(last), Some((None, messages)));
        assert_eq!(decode_answer(encode_answer(&[], None).expect("it is empty")), Some((None, Vec::new())));
        assert!(encode_answer(&[], Some(8)).is_err(), "they would be left out");
        let whole = (0..answer.len()).filter(|length| decode_answer(answer.slice(..*length)).is_some());
        assert_eq!(whole.count(), 2, "between two messages only");
    }
}
