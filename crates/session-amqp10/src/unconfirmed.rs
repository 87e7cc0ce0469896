//! Messages of a sending client that wait for their outcome.

use std::sync::Arc;

use leveret_amqp10::Serial;

use super::credit_loop::Confirmed;
use super::error::Failure;
use leveret_broker::queue_handle::{RefusalReason, RefusedPublish};
use leveret_broker::streams::waits::InOrder;
use leveret_broker::time::Nanos;
use leveret_broker::wait_for::{Reached, WaitEnd, WaitFor};

/// The outcome of a published message (3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// Every queue that it was routed to has it.
    Accepted,
    /// No queue matched.
    Released,
    /// A queue refused it.
    Rejected {
        /// The queue's name.
        queue: Arc<str>,
        /// RabbitMQ's word for the reason.
        reason: &'static str,
    },
    /// Its `to` names no destination (anonymous terminus).
    Unroutable(Arc<Failure>),
    /// The log of one of its queues left before it was durable there.
    Lost,
}

impl PublishOutcome {
    /// The outcome of messages that this queue refused.
    pub(crate) fn refused(refusal: &RefusedPublish) -> Self {
        let reason = match refusal.reason {
            RefusalReason::Limit => "maxlen",
            RefusalReason::Stopped => "unavailable",
        };
        Self::Rejected { queue: refusal.queue.clone(), reason }
    }
}

/// Consecutive delivery-ids with the same outcome.
#[derive(Debug, Clone)]
struct OutcomeRun {
    first: Serial,
    count: u32,
    /// Index of the first one among the messages that were published together.
    index: u32,
    /// The client settled them itself: no disposition is sent, but they count until they are stored.
    settled: bool,
    outcome: PublishOutcome,
    since: Nanos,
}

/// An answer that is due, for delivery-ids `first..=last`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub first: Serial,
    pub last: Serial,
    pub outcome: PublishOutcome,
}

/// Messages with delivery-ids that follow each other and the same settlement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alike {
    pub first: Serial,
    pub count: u32,
    /// Index of the first one among the messages that were published together.
    pub index: u32,
    pub settled: bool,
}

impl Alike {
    /// One message.
    pub(crate) fn one(id: Serial, settled: bool) -> Self {
        Self { first: id, count: 1, index: 0, settled }
    }
}

impl OutcomeRun {
    /// Adds the answers of its messages, now that its wait has ended: messages that were refused, or may be lost, aren't accepted.
    fn end(self, end: &WaitEnd, out: &mut Vec<Due>) {
        let Self { first, count, index, outcome, .. } = self;
        let (accepted, other) = match end {
            _ if outcome != PublishOutcome::Accepted => (count, None),
            WaitEnd::Reached => (count, None),
            WaitEnd::Unrouted => (0, Some(PublishOutcome::Released)),
            WaitEnd::Gone => (0, Some(PublishOutcome::Lost)),
            WaitEnd::Refused(refusal) => {
                let accepted = refusal.accepted.saturating_sub(index).min(count);
                (accepted, Some(PublishOutcome::refused(refusal)))
            }
        };
        if accepted > 0 {
            out.push(Due { first, last: first.add(accepted - 1), outcome });
        }
        if let Some(outcome) = other.filter(|_| accepted < count) {
            out.push(Due { first: first.add(accepted), last: first.add(count - 1), outcome });
        }
    }
}

/// The messages of one link that wait.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    runs: InOrder<OutcomeRun>,
    count: u32,
}

impl Unconfirmed {
    /// Number of messages that wait.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The time at which the oldest of them came.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.runs.firsts().map(|run| run.since).min()
    }

    /// Notes messages that came together.
    pub(crate) fn add(
        &mut self,
        Alike { first, count, index, settled }: Alike,
        wait: WaitFor,
        outcome: &PublishOutcome,
        now: Nanos,
    ) {
        self.count += count;
        match self.runs.last(&wait) {
            Some((other, run))
                if run.first.add(run.count) == first
                    && run.settled == settled
                    && other.is_same(&wait)
                    && run.outcome == *outcome =>
            {
                run.count += count;
            }
            _ => {
                self.runs.push(wait, OutcomeRun { first, count, index, settled, outcome: outcome.clone(), since: now })
            }
        }
    }

    /// Takes the answers that are due out into `out`.
    pub(crate) fn take_due(&mut self, reached: &impl Reached, now: Nanos, out: &mut Vec<Due>) -> Option<Confirmed> {
        let mut confirmed: Option<Confirmed> = None;
        while let Some((run, end)) = self.runs.pop(reached) {
            self.count -= run.count;
            let took = now.saturating_sub(run.since);
            let all = confirmed.get_or_insert(Confirmed { count: 0, took, newest: run.since });
            (all.count, all.newest) = (all.count + run.count, all.newest.max(run.since));
            if !run.settled {
                run.end(&end, out);
            }
        }
        confirmed
    }
}

/// Merges adjacent answers, even of different links: a disposition belongs to the session.
pub(crate) fn merge(due: &mut Vec<Due>) {
    // All ids of a session that can be due together lie within half of the number space. If a client breaks that, it
    // gets its answers in some order. Distances from one common id are ordered for any ids; distances between pairs of
    // ids wouldn't be.
    let Some(base) = due.first().map(|due| due.first) else { return };
    due.sort_by_key(|due| due.first.distance_from(base));
    due.dedup_by(|next, last| {
        let joins = last.last.next() == next.first && last.outcome == next.outcome;
        if joins {
            last.last = next.last;
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use leveret_queue::{Place, Watermarks};

    use super::*;
    use leveret_broker::ticket::{StreamId, Ticket};

    fn durable(number: u64) -> WaitFor {
        Ticket::new(StreamId::LOCAL, Place::new(number)).into()
    }

    fn at(number: u64) -> impl Reached {
        move |_| Some(Watermarks::synced(Place::new(number)))
    }

    #[test]
    fn nothing_is_due_before_it_is_durable() {
        let mut link = Unconfirmed::default();
        let mut due = Vec::new();
        for at in 0..10 {
            link.add(
                Alike::one(Serial(u32::MAX - 4).add(at), false),
                durable(5 + u64::from(at / 5)),
                &PublishOutcome::Accepted,
                100,
            );
        }
        assert_eq!(link.take_due(&at(4), 200, &mut due), None);
        let confirmed = Confirmed { count: 5, took: 100, newest: 100 };
        assert_eq!(link.take_due(&at(5), 200, &mut due), Some(confirmed));
        assert_eq!((due.len(), link.count()), (1, 5));
        assert_eq!((due[0].first, due[0].last), (Serial(u32::MAX - 4), Serial(u32::MAX)));
        link.take_due(&at(6), 200, &mut due);
        merge(&mut due);
        assert_eq!(due, [Due { first: Serial(u32::MAX - 4), last: Serial(4), outcome: PublishOutcome::Accepted }]);
    }

    #[test]
    fn messages_are_noted_together_as_one_by_one() {
        let (mut together, mut single) = (Unconfirmed::default(), Unconfirmed::default());
        for (first, count, place) in [(u32::MAX - 1, 3, 1), (1, 2, 1), (3, 4, 2), (10, 2, 2)] {
            together.add(
                Alike { first: Serial(first), count, index: 0, settled: false },
                durable(place),
                &PublishOutcome::Accepted,
                0,
            );
            for at in 0..count {
                let id = Serial(first).add(at);
                single.add(Alike::one(id, false), durable(place), &PublishOutcome::Accepted, 0);
            }
        }
        assert_eq!((together.count(), together.runs.len()), (single.count(), single.runs.len()));
        let (mut due, mut expected) = (Vec::new(), Vec::new());
        together.take_due(&at(2), 0, &mut due);
        single.take_due(&at(2), 0, &mut expected);
        assert_eq!(due, expected);
        assert_eq!((due.len(), together.count()), (3, 0));
    }

    #[test]
    fn interleaved_links_and_settled_messages_get_one_answer_each() {
        let (mut a, mut b) = (Unconfirmed::default(), Unconfirmed::default());
        for at in 0..10 {
            let link = if at % 2 == 0 { &mut a } else { &mut b };
            link.add(Alike::one(Serial(at), at == 4), durable(1), &PublishOutcome::Accepted, 0);
        }
        b.add(Alike::one(Serial(10), false), WaitFor::default(), &PublishOutcome::Released, 0);
        let mut due = Vec::new();
        a.take_due(&at(1), 0, &mut due);
        b.take_due(&at(1), 0, &mut due);
        merge(&mut due);
        let ranges: Vec<_> = due.iter().map(|due| (due.first.0, due.last.0)).collect();
        assert_eq!(ranges, [(0, 3), (5, 9), (10, 10)]);
    }

    #[test]
    fn ids_without_an_order_are_still_answered() {
        let mut due = Vec::new();
        let mut link = Unconfirmed::default();
        for at in 0..1000u32 {
            link.add(Alike::one(Serial(at.wrapping_mul(0x5555_5555)), false), durable(1), &PublishOutcome::Accepted, 0);
        }
        link.take_due(&at(1), 0, &mut due);
        merge(&mut due);
        assert_eq!(due.iter().map(|due| due.last.since(due.first) + 1).sum::<u32>(), 1000);
    }
}
