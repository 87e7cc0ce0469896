//! Publisher confirms: each publish of a channel is answered once, when the position it waits for has been reached.
//! Confirms are in order within a commit stream and independent of other streams.

use std::collections::{BTreeMap, VecDeque};

use leveret_broker::streams::waits::InOrder;
use leveret_broker::time::Nanos;
use leveret_broker::wait_for::{Reached, WaitEnd, WaitFor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConfirmRun {
    first: u64,
    last: u64,
    accepted: bool,
}

impl ConfirmRun {
    /// The run when its wait has ended, and the rest that is answered differently: what may be lost, or was refused, isn't
    /// confirmed.
    fn ended(self, end: &WaitEnd) -> (Self, Option<Self>) {
        let accepted = match end {
            // A message that is routed nowhere is confirmed.
            WaitEnd::Reached | WaitEnd::Unrouted => return (self, None),
            WaitEnd::Refused(refusal) if self.accepted => u64::from(refusal.accepted).min(self.last + 1 - self.first),
            WaitEnd::Refused(_) | WaitEnd::Gone => 0,
        };
        let others = Self { first: self.first + accepted, accepted: false, ..self };
        match accepted {
            0 => (others, None),
            _ => (Self { last: others.first - 1, ..self }, (others.first <= self.last).then_some(others)),
        }
    }
}

/// One confirm: `basic.ack` or `basic.nack` (specification of the confirm extension).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// Sequence number of the publish, counted from 1 after `confirm.select`.
    pub sequence: u64,
    /// Answers all unanswered publishes before it, too.
    pub multiple: bool,
    /// Ack or nack.
    pub accepted: bool,
}

/// Number of paced publishes that are looked at for one that is durable: they are in order by time, and nearly by place.
const DUE_LOOKED_AT: usize = 64;

/// The unanswered publishes of one channel.
#[derive(Debug, Default)]
pub struct Confirms {
    published: u64,
    /// All publishes up to this sequence number are answered.
    answered: u64,
    /// Answered publishes beyond `answered`, by the first of each range.
    ahead: BTreeMap<u64, u64>,
    count_ahead: u64,
    /// Runs that are answered next: the rest of one that is answered one by one, since some publishes before it are unanswered, and of
    /// one that wasn't accepted as a whole.
    left: VecDeque<ConfirmRun>,
    waits: InOrder<ConfirmRun>,
    /// Publishes to a queue whose publishers are paced, by the time from which they may be answered.
    paced: BTreeMap<(Nanos, u64), (WaitFor, ConfirmRun)>,
}

impl Confirms {
    /// Adds `count` publishes that are accepted or refused together.
    pub fn publish(&mut self, count: u64, wait: WaitFor, accepted: bool) {
        if count == 0 {
            return;
        }
        let first = self.published + 1;
        self.published += count;
        match self.waits.last(&wait) {
            Some((other, run)) if run.last + 1 == first && run.accepted == accepted && other.is_same(&wait) => {
                run.last = self.published;
            }
            _ => self.waits.push(wait, ConfirmRun { first, last: self.published, accepted }),
        }
    }

    /// Like [`publish`](Self::publish) of accepted messages that are answered no earlier than at this time. Publishes to
    /// other queues don't wait for them.
    pub fn publish_paced(&mut self, count: u64, wait: WaitFor, at: Nanos) {
        if count > 0 {
            let first = self.published + 1;
            self.published += count;
            self.paced.insert((at, first), (wait, ConfirmRun { first, last: self.published, accepted: true }));
        }
    }

    /// The next time at which a paced publish may be answered. Those that are due already wait for the disk.
    pub fn next_paced(&self, now: Nanos) -> Option<Nanos> {
        self.paced.range((now + 1, 0)..).next().map(|((at, _), _)| *at)
    }

    /// A paced publish whose time has come.
    fn pop_paced(&mut self, reached: &impl Reached, now: Nanos) -> Option<(ConfirmRun, WaitEnd)> {
        let mut due = self.paced.iter().take_while(|((at, _), _)| *at <= now).take(DUE_LOOKED_AT);
        let (key, end) = due.find_map(|(key, (wait, _))| Some((*key, wait.end(reached)?)))?;
        self.paced.remove(&key).map(|(_, run)| (run, end))
    }

    /// The part of a run that is answered first; the other one follows it.
    fn begin(&mut self, run: ConfirmRun, end: &WaitEnd) -> ConfirmRun {
        let (run, rest) = run.ended(end);
        self.left.extend(rest);
        run
    }

    /// The number of unanswered publishes.
    pub fn unanswered(&self) -> u64 {
        self.published - self.answered - self.count_ahead
    }

    /// The next answer that is due.
    pub fn next(&mut self, reached: &impl Reached, now: Nanos) -> Option<Confirm> {
        let mut run = match self.left.pop_front() {
            Some(run) => run,
            None => match self.pop_paced(reached, now) {
                Some((run, end)) => self.begin(run, &end),
                None => {
                    let (run, end) = self.waits.pop(reached)?;
                    let mut run = self.begin(run, &end);
                    while self.left.is_empty()
                        && let Some((next, end)) = self.waits.pop_if(reached, |next, _| next.first == run.last + 1)
                    {
                        let next = self.begin(next, &end);
                        if next.accepted != run.accepted {
                            self.left.push_front(next);
                            break;
                        }
                        run.last = next.last;
                    }
                    run
                }
            },
        };
        let accepted = run.accepted;
        if run.first == self.answered + 1 {
            self.answered = run.last;
            while let Some(next) = self.ahead.first_entry().filter(|next| *next.key() == self.answered + 1) {
                let (first, last) = next.remove_entry();
                self.answered = last;
                self.count_ahead -= last - first + 1;
            }
            return Some(Confirm { sequence: run.last, multiple: run.last > run.first, accepted });
        }
        // An earlier publish, of another stream, still waits: `multiple` would answer that one, too.
        let sequence = run.first;
        match self.ahead.range_mut(..sequence).next_back() {
            Some((_, last)) if *last + 1 == sequence => *last = sequence,
            _ => {
                self.ahead.insert(sequence, sequence);
            }
        }
        self.count_ahead += 1;
        run.first += 1;
        if run.first <= run.last {
            self.left.push_front(run);
        }
        Some(Confirm { sequence, multiple: false, accepted })
    }
}

#[cfg(test)]
mod tests {
    use leveret_queue::{Place, Watermarks};

    use super::*;
    use leveret_broker::ticket::{Awaited, StreamId, Ticket};

    fn ticket(number: u64) -> Ticket {
        Ticket::new(StreamId::LOCAL, Place::new(number))
    }

    fn durable(number: u64) -> WaitFor {
        ticket(number).into()
    }

    fn os(number: u64) -> WaitFor {
        Awaited::written(ticket(number)).into()
    }

    fn reached(written: u64, durable: u64) -> impl Reached {
        move |_| Some(Watermarks { written: Place::new(written), durable: Place::new(durable) })
    }

    fn at(number: u64) -> impl Reached {
        reached(number, number)
    }

    #[test]
    fn a_confirm_that_needs_a_write_waits_for_earlier_ones() {
        let mut confirms = Confirms::default();
        confirms.publish(1, os(3), true);
        confirms.publish(1, WaitFor::default(), true);
        confirms.publish(1, durable(4), true);
        confirms.publish(1, os(5), true);
        let ack = |sequence, multiple| Some(Confirm { sequence, multiple, accepted: true });
        assert_eq!(confirms.next(&reached(5, 2), 0), ack(2, true));
        assert_eq!(confirms.next(&reached(5, 3), 0), None, "one before it has to be durable");
        assert_eq!(confirms.next(&reached(5, 4), 0), ack(4, true));
    }

    #[test]
    fn nothing_is_confirmed_before_it_is_durable() {
        let mut confirms = Confirms::default();
        confirms.publish(3, durable(10), true);
        confirms.publish(1, durable(0), true);
        assert_eq!(confirms.next(&at(9), 0), None, "one without a position stands behind its predecessors");
        assert_eq!(confirms.next(&at(10), 0), Some(Confirm { sequence: 4, multiple: true, accepted: true }));
        assert_eq!(confirms.next(&at(10), 0), None);
        assert_eq!(confirms.unanswered(), 0);
    }

    #[test]
    fn a_confirm_waits_for_its_own_and_all_earlier_positions() {
        let mut confirms = Confirms::default();
        confirms.publish(1, os(243), true);
        // A volatile message behind one that isn't durable yet.
        confirms.publish(1, durable(232), true);
        assert_eq!(confirms.next(&reached(240, 234), 0), None);
        let both = Confirm { sequence: 2, multiple: true, accepted: true };
        assert_eq!(confirms.next(&reached(243, 234), 0), Some(both), "243 needn't be durable");
    }

    #[test]
    fn refused_publishes_are_answered_separately() {
        let mut confirms = Confirms::default();
        confirms.publish(2, durable(5), true);
        confirms.publish(1, durable(5), false);
        confirms.publish(1, durable(6), true);
        assert_eq!(confirms.next(&at(6), 0), Some(Confirm { sequence: 2, multiple: true, accepted: true }));
        assert_eq!(confirms.next(&at(6), 0), Some(Confirm { sequence: 3, multiple: false, accepted: false }));
        assert_eq!(confirms.next(&at(6), 0), Some(Confirm { sequence: 4, multiple: false, accepted: true }));
        assert_eq!(confirms.next(&at(6), 0), None);
    }

    #[test]
    fn publishes_durable_together_are_answered_together() {
        let mut confirms = Confirms::default();
        for position in 1..=100 {
            confirms.publish(1, durable(position), true);
        }
        assert_eq!(confirms.next(&at(40), 0), Some(Confirm { sequence: 40, multiple: true, accepted: true }));
        assert_eq!(confirms.unanswered(), 60);
    }

    #[test]
    fn a_stalled_stream_delays_no_confirm_of_another_stream() {
        let other = |number| WaitFor::from(Ticket::new(StreamId(1), Place::new(number)));
        let both = |first, second| {
            move |stream| Some(Watermarks::synced(Place::new(if stream == StreamId::LOCAL { first } else { second })))
        };
        let mut confirms = Confirms::default();
        confirms.publish(2, durable(5), true);
        confirms.publish(2, other(3), true);
        confirms.publish(1, durable(6), true);
        confirms.publish(1, other(4), false);
        let single = |sequence, accepted| Some(Confirm { sequence, multiple: false, accepted });
        assert_eq!(confirms.next(&both(4, 4), 0), single(3, true), "`multiple` would confirm the first two");
        assert_eq!(confirms.next(&both(4, 4), 0), single(4, true));
        assert_eq!(confirms.next(&both(4, 4), 0), single(6, false));
        assert_eq!((confirms.next(&both(4, 4), 0), confirms.unanswered()), (None, 3));
        assert_eq!(confirms.next(&both(5, 4), 0), Some(Confirm { sequence: 2, multiple: true, accepted: true }));
        assert_eq!((confirms.next(&both(5, 4), 0), confirms.unanswered()), (None, 1));
        assert_eq!(confirms.next(&both(6, 4), 0), single(5, true));
        assert_eq!((confirms.next(&both(6, 4), 0), confirms.unanswered()), (None, 0));
        assert!(confirms.ahead.is_empty());
        confirms.publish(2, durable(7), true);
        assert_eq!(confirms.next(&both(7, 4), 0), Some(Confirm { sequence: 8, multiple: true, accepted: true }));
    }

    #[test]
    fn paced_publishes_delay_no_others_and_wait_for_disk_and_slot() {
        let mut confirms = Confirms::default();
        confirms.publish_paced(2, durable(1), 100);
        confirms.publish(1, durable(2), true);
        confirms.publish_paced(1, durable(3), 200);
        confirms.publish(2, durable(4), true);
        assert_eq!((confirms.unanswered(), confirms.next_paced(0)), (6, Some(100)));
        let one = |sequence, multiple| Some(Confirm { sequence, multiple, accepted: true });
        let is_durable = at(4);
        assert_eq!(confirms.next(&is_durable, 50), one(3, false));
        assert_eq!(confirms.next(&is_durable, 50), one(5, false));
        assert_eq!(confirms.next(&is_durable, 50), one(6, false));
        assert_eq!(confirms.next(&is_durable, 50), None);
        assert_eq!(confirms.next(&at(0), 150), None, "it isn't durable");
        assert_eq!(confirms.next(&is_durable, 150), one(2, true));
        assert_eq!((confirms.unanswered(), confirms.next_paced(150)), (1, Some(200)));
        assert_eq!(confirms.next(&is_durable, 200), one(4, false));
        assert_eq!((confirms.unanswered(), confirms.next_paced(200)), (0, None));
        confirms.publish(1, durable(4), true);
        assert_eq!(confirms.next(&is_durable, 200), one(7, false));
    }
}
