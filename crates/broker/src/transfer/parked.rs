//! Parked messages of a quorum queue.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_log::Wait;
use leveret_queue::{Candidates, QueueState};

use super::letters::Letters;
use super::{BLOCKED, STEP_MESSAGES_MAX, StoredRuns, TransferTarget};
use crate::asked::NowOrLater;
use crate::broker::Broker;
use crate::group::Group;
use crate::queue_handle::{LocalQueue, QueueRef};
use crate::ticket::Ticket;
use crate::time::Now;

/// A step of a move.
#[derive(Debug)]
pub struct MoveStep {
    /// The place that the messages are moved to.
    pub target: TransferTarget,
    /// Numbers of the messages to be moved.
    pub range: RangeInclusive<u64>,
    /// Messages that were read from the queue.
    pub read: StoredRuns,
}

/// The result of a step.
#[derive(Debug, Default)]
pub struct MovedStep {
    /// Number of messages that were moved.
    pub moved: u64,
    /// The end of the group; nothing if none was moved.
    pub ticket: Ticket,
    /// Number that the next step begins at; `None` if the queue is gone.
    pub next: Option<u64>,
    /// The message at which the move ended, and the reason why it couldn't be moved.
    pub stopped: Option<(u64, String)>,
}

impl Broker {
    /// Moves parked messages of `queue` out of those that were read. The answer is the default value if the queue is gone.
    pub fn move_parked(self: &Arc<Self>, queue: &QueueRef, step: MoveStep, now: Now) -> NowOrLater<MovedStep> {
        let broker = self.clone();
        let Some(home) = queue.home() else { return NowOrLater::Now(MovedStep::default()) };
        home.answer_late(move |queue| broker.move_parked_now(queue, &step, now))
    }

    fn move_parked_now(&self, queue: &LocalQueue, step: &MoveStep, now: Now) -> MovedStep {
        let from = *step.range.start();
        if self.alarms.publishing_blocked() {
            let stopped = Some((from, BLOCKED.to_owned()));
            return MovedStep { next: Some(from), stopped, ..MovedStep::default() };
        }
        let claimed =
            queue.claim_parked(&Candidates { read: &step.read, range: step.range.clone(), most: STEP_MESSAGES_MAX });
        // Messages that are claimed keep it from being converted.
        if claimed.is_empty()
            && let Some(successor) = queue.successor()
        {
            return self.move_parked_now(successor, step, now);
        }
        if claimed.is_empty() && queue.parked_ends(from..=from).is_some() && queue.state() == QueueState::Running {
            let stopped = Some((from, "it was not read from the message store".to_owned()));
            return MovedStep { next: Some(from), stopped, ..MovedStep::default() };
        }
        let mut letters = Letters::new(self, queue, &step.target, now);
        let stopped = letters.push_all(claimed.iter().map(|message| (&*message.batch, message.index)));
        let mut group = Group::new(queue.stream().id());
        let (moved, refused) = letters.offer(self, &mut group);
        let stopped = refused.map(|reason| (moved, reason)).or(stopped.map(|reason| (letters.pushed, reason)));
        let numbers: Vec<u64> = claimed[..moved].iter().map(|message| message.number).collect();
        queue.parked_moved(&mut group, &numbers);
        let ticket = group.close(Wait::Confirm);
        let number_of = |at: usize| claimed.get(at).map(|message| message.number);
        let end_of_read = step.read.last().map_or(from, |(first, batch)| first + batch.len() as u64);
        let is_whole = claimed.len() < STEP_MESSAGES_MAX && letters.pushed == claimed.len();
        let behind = match is_whole {
            true => Some(end_of_read),
            false => number_of(letters.pushed).or_else(|| claimed.last().map(|message| message.number + 1)),
        };
        let next = behind.map(|next| next.max(from));
        MovedStep {
            moved: moved as u64,
            ticket,
            next,
            stopped: stopped.and_then(|(at, reason)| Some((number_of(at)?, reason))),
        }
    }
}
