//! Ready messages of a queue, and messages of a stream.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::Batch;
use leveret_queue::{Candidates, QueueState, Run, Taken, push_sized};

use super::letters::Letters;
use super::{BLOCKED, STEP_MESSAGES_MAX, StoredRuns, TransferTarget};
use crate::asked::NowOrLater;
use crate::broker::Broker;
use crate::group::Group;
use crate::queue_handle::{LocalQueue, QueueRef};
use crate::ticket::Ticket;
use crate::time::Now;
use crate::wait_for::{WaitEnd, WaitFor};

/// A step of a move or a copy.
#[derive(Debug)]
pub struct TransferStep {
    /// The place that the messages are moved or copied to.
    pub target: TransferTarget,
    /// Whether they also stay. Messages of a stream always do.
    pub copies: bool,
    /// Their numbers.
    pub range: RangeInclusive<u64>,
    /// Most messages, up to [`STEP_MESSAGES_MAX`].
    pub most: usize,
    /// Messages that were read from the queue's log; those that it has in memory aren't needed. For a stream all are.
    pub read: StoredRuns,
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct TransferredStep {
    /// Whether the queue is there.
    pub found: bool,
    /// Number of messages that were moved or copied.
    pub done: u64,
    /// The end of the group; nothing if there was nothing to log.
    pub ticket: Ticket,
    /// Number that the next step begins at; `None` at the end of the range.
    pub next: Option<u64>,
    /// The message there has to be read from disk first.
    pub unread: bool,
    /// The reason why the message there couldn't be moved.
    pub stopped: Option<String>,
    /// Messages on their way to queues of other logs. [`Broker::transfer_arrived`] ends the step once those have answered.
    pub leaving: Option<Box<Leaving>>,
}

/// Messages on their way to queues of other logs.
#[derive(Debug)]
pub struct Leaving {
    /// The condition under which their targets have answered.
    pub wait: WaitFor,
    copies: bool,
    messages: Vec<Taken>,
    /// Number of these that were published.
    count: usize,
    is_one_run: bool,
    next: Option<u64>,
    unread: bool,
    stopped: Option<String>,
}

impl Broker {
    /// Moves or copies ready messages of `queue`.
    pub fn transfer(self: &Arc<Self>, queue: &QueueRef, step: TransferStep, now: Now) -> NowOrLater<TransferredStep> {
        let broker = self.clone();
        let Some(home) = queue.home() else { return NowOrLater::Now(TransferredStep::default()) };
        home.answer_late(move |queue| broker.transfer_now(queue, &step, now))
    }

    fn transfer_now(&self, queue: &LocalQueue, step: &TransferStep, now: Now) -> TransferredStep {
        let from = *step.range.start();
        let stay = |reason: String| TransferredStep {
            found: true,
            next: Some(from),
            stopped: Some(reason),
            ..TransferredStep::default()
        };
        match queue.state() {
            QueueState::Running => {}
            QueueState::Failed(reason) => return stay(format!("the queue has stopped: {reason}")),
            QueueState::Deleted => return TransferredStep::default(),
        }
        if self.alarms.publishing_blocked() {
            return stay(BLOCKED.to_owned());
        }
        let most = step.most.min(STEP_MESSAGES_MAX);
        // A message without a place to go to isn't claimed: it stays as it is.
        let among = |most| Candidates { read: &step.read, range: step.range.clone(), most };
        let found = queue.find_ready(false, &among(most), now.monotonic);
        if found.messages.is_empty()
            && let Some(successor) = queue.successor()
        {
            return self.transfer_now(successor, step, now);
        }
        let mut letters = Letters::new(self, queue, &step.target, now).leaving();
        let mut stopped = letters.push_all(parts(&found.messages));
        if let Some(reason) = letters.full_elsewhere() {
            return stay(reason);
        }
        let (mut messages, mut next) = (found.messages, found.next);
        if !step.copies {
            let claimed = queue.find_ready(true, &among(letters.pushed), now.monotonic);
            // Messages that are claimed keep it from being converted.
            if claimed.messages.is_empty()
                && let Some(successor) = queue.successor()
            {
                return self.transfer_now(successor, step, now);
            }
            let are_those = claimed.messages.len() == letters.pushed
                && claimed.messages.iter().zip(&messages).all(|(one, other)| one.first == other.first);
            if !are_those {
                // Consumers, or time, took some of them meanwhile.
                letters = Letters::new(self, queue, &step.target, now).leaving();
                stopped = letters.push_all(parts(&claimed.messages));
            }
            (messages, next) = (claimed.messages, claimed.next);
        }
        if letters.leaves {
            let sent = letters.send(self);
            let next = messages.get(sent.count).map(|one| one.first).or(next);
            let leaving = Leaving {
                wait: sent.wait,
                copies: step.copies,
                messages,
                count: sent.count,
                is_one_run: sent.is_one_run,
                next,
                unread: next.is_some() && next == found.unread,
                stopped: sent.refused.or(stopped),
            };
            return TransferredStep { found: true, leaving: Some(Box::new(leaving)), ..TransferredStep::default() };
        }
        let mut group = Group::new(queue.stream().id());
        let (done, refused) = letters.offer(self, &mut group);
        let next = messages.get(done).map(|one| one.first).or(next);
        if !step.copies {
            let (moved, stay) = messages.split_at(done);
            queue.ready_moved(&mut group, &runs(moved), &runs(stay));
        }
        TransferredStep {
            found: true,
            done: done as u64,
            ticket: group.close(Wait::Confirm),
            next,
            unread: next.is_some() && next == found.unread,
            stopped: refused.or(stopped),
            leaving: None,
        }
    }

    /// Ends a step whose messages went to queues of other logs, which have answered so.
    pub fn transfer_arrived(
        self: &Arc<Self>,
        queue: &QueueRef,
        leaving: Leaving,
        end: &WaitEnd,
    ) -> NowOrLater<TransferredStep> {
        let (arrived, refused) = match end {
            WaitEnd::Reached => (leaving.count, None),
            WaitEnd::Refused(refused) => {
                // Of several runs it isn't known which one was refused.
                let arrived = if leaving.is_one_run { leaving.count.min(refused.accepted as usize) } else { 0 };
                (arrived, Some(format!("queue '{}' refuses it, because of its length limit", refused.queue)))
            }
            WaitEnd::Unrouted => (0, Some("its queue was deleted".to_owned())),
            WaitEnd::Gone => (0, Some(WaitEnd::GONE_TEXT.to_owned())),
        };
        let Some(home) = queue.home() else { return NowOrLater::Now(TransferredStep::default()) };
        home.answer_late(move |queue| {
            let (moved, stay) = leaving.messages.split_at(arrived);
            let mut group = Group::new(queue.stream().id());
            if !leaving.copies {
                queue.ready_moved(&mut group, &runs(moved), &runs(stay));
            }
            let is_whole = arrived == leaving.count;
            let next = if is_whole { leaving.next } else { stay.first().map(|one| one.first) };
            TransferredStep {
                found: true,
                done: arrived as u64,
                ticket: group.close(Wait::Confirm),
                next,
                unread: is_whole && leaving.unread,
                stopped: refused.or(leaving.stopped),
                leaving: None,
            }
        })
    }
}

fn parts(messages: &[Taken]) -> impl Iterator<Item = (&Batch, u32)> {
    messages.iter().map(|one| (&*one.batch, one.index))
}

fn runs(messages: &[Taken]) -> Vec<Run> {
    let mut runs = Vec::new();
    for one in messages {
        let bytes = u64::from(one.batch.body_length(one.index as usize));
        let run = Run { first: one.first, last: one.first, bytes, durable: one.durable };
        push_sized(&mut runs, run);
    }
    runs
}
