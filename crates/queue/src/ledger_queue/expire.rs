//! Messages and queues whose time is over.
//!
//! Times are wall times; the queue is told once what wall time its monotonic zero is, so that a jump of the system's
//! clock moves nothing. Messages leave when the home core comes to the queue ([`ClassicQueue::run_timers`]), and no
//! consumer is given one that is over. What a consumer has doesn't expire; it does when it comes back. Neither does a
//! message for which a consumer waited when it was published: only its way to the disk and to the consumer's turn keeps them
//! apart.

use leveret_message::{Batch, Reason};
use roaring::RoaringTreemap;

use crate::Nanos;
use crate::effects::{Effects, Run, Taken, push_run};
use crate::expiry::{Due, Expiry};
use crate::ledger::Outcome;
use crate::ledger_queue::{ClassicQueue, QueueState};
use crate::number_set::NumberSet;

const NANOS_PER_MS: u64 = 1_000_000;

/// What a queue needs to keep time.
#[derive(Debug, Default)]
pub(crate) struct Clockwork {
    /// Wall time of monotonic zero, in milliseconds since the Unix epoch.
    epoch_ms: u64,
    /// When messages expire; none while none does.
    pub expiry: Option<Box<Expiry>>,
    /// Somebody used the queue: what `x-expires` counts from.
    used: Nanos,
    /// The deadline that the owner of the timers knows; none when it knows of none.
    announced: Option<Nanos>,
    /// Messages that just came in and may stay for no time at all.
    momentary: Vec<(u64, u64)>,
    /// Ready messages with a time for which a consumer waited when they were published.
    awaited: NumberSet,
}

impl Clockwork {
    fn wall_ms(&self, now: Nanos) -> u64 {
        self.epoch_ms + now / NANOS_PER_MS
    }

    /// The first moment at which wall time is at least this.
    fn nanos(&self, wall_ms: u64) -> Nanos {
        wall_ms.saturating_sub(self.epoch_ms).saturating_mul(NANOS_PER_MS)
    }
}

/// When a message leaves a queue with this time to live: 0 is never.
fn deadline_ms(batch: &Batch, index: usize, ttl_ms: Option<u64>) -> u64 {
    let (received_ms, expiry_ms) = batch.times(index);
    match (expiry_ms, ttl_ms.map(|ttl| received_ms.saturating_add(ttl).max(1))) {
        (0, queue) => queue.unwrap_or(0),
        (own, queue) => queue.map_or(own, |queue| own.min(queue)),
    }
}

impl ClassicQueue {
    /// Tells the queue the wall time of monotonic zero, in milliseconds since the Unix epoch, and what was kept of
    /// its messages' times.
    pub fn start_clock(&mut self, epoch_ms: u64, mut expiry: Expiry, now: Nanos) {
        if self.options.message_ttl_ms.is_none() {
            expiry.forget_arrivals();
        }
        self.clockwork.epoch_ms = epoch_ms;
        self.clockwork.used = now;
        self.clockwork.expiry = (!expiry.is_empty()).then(|| Box::new(expiry));
    }

    /// When messages of it expire, for checkpoints: see [`Expiry::decode`].
    pub fn expiry_state(&self) -> Vec<u8> {
        let mut due = RoaringTreemap::new();
        for run in self.expired_dead() {
            // A checkpoint still counts them as alive.
            due.insert_range(run.first..=run.last);
        }
        match &self.clockwork.expiry {
            Some(expiry) => expiry.encode(&due),
            None => Expiry::default().encode(&due),
        }
    }

    /// Somebody used the queue, other than as a consumer.
    pub fn used(&mut self, now: Nanos) {
        self.clockwork.used = now;
    }

    /// The next deadline, if it is sooner than the one announced before.
    pub fn announce_deadline(&mut self) -> Option<Nanos> {
        if self.clockwork.expiry.is_none() && self.options.expires_ms.is_none() {
            return None;
        }
        let next = self.deadline()?;
        if self.clockwork.announced.is_some_and(|announced| announced <= next) {
            return None;
        }
        self.clockwork.announced = Some(next);
        Some(next)
    }

    fn deadline(&self) -> Option<Nanos> {
        if self.state != QueueState::Running {
            return None;
        }
        let clock = &self.clockwork;
        let message = clock.expiry.as_ref().and_then(|expiry| expiry.next_ms(self.options.message_ttl_ms));
        [message.map(|wall_ms| clock.nanos(wall_ms)), self.unused_at()].into_iter().flatten().min()
    }

    /// When the queue goes if nobody uses it until then.
    pub(crate) fn unused_at(&self) -> Option<Nanos> {
        let expires_ms = self.options.expires_ms.filter(|_| self.consumers.len() == 0)?;
        Some(self.clockwork.used.saturating_add(expires_ms.saturating_mul(NANOS_PER_MS)))
    }

    /// Notes the times of messages that become part of the queue.
    /// Consumers waited for the first `awaited` of them.
    pub(crate) fn note_times(&mut self, first: u64, batch: &Batch, index: u32, count: u32, awaited: u32) {
        let ttl_ms = self.options.message_ttl_ms;
        if ttl_ms.is_none() && !batch.any_expiry() {
            return;
        }
        let low = self.ledger.low();
        let clock = &mut self.clockwork;
        let expiry = clock.expiry.get_or_insert_default();
        for at in 0..count {
            let (number, index) = (first + u64::from(at), (index + at) as usize);
            let (received_ms, own_ms) = batch.times(index);
            let deadline = deadline_ms(batch, index, ttl_ms);
            if ttl_ms.is_some() {
                expiry.arrived(number, 1, received_ms, low);
            }
            if own_ms != 0 && own_ms == deadline {
                expiry.expires(number, own_ms, batch.body_length(index));
            }
            if deadline != 0 && at < awaited {
                clock.awaited.insert(number);
            } else if deadline != 0 && deadline <= received_ms.max(1) {
                match clock.momentary.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => clock.momentary.push((number, number)),
                }
            }
        }
        let (live, ledger) = (self.ledger.len(), &self.ledger);
        expiry.prune(live, low, |number| ledger.is_live(number));
    }

    /// Messages that may not wait leave.
    pub(crate) fn expire_momentary(&mut self, effects: &mut Effects) {
        if self.clockwork.momentary.is_empty() {
            return;
        }
        for (first, last) in std::mem::take(&mut self.clockwork.momentary) {
            self.expire_range(first, last, u64::MAX, effects);
        }
        self.finish_drains(effects);
    }

    /// When no consumer is left that could take a message, none is on its way any more: those leave whose time was over
    /// meanwhile.
    pub(crate) fn expire_unawaited(&mut self, effects: &mut Effects) {
        if self.clockwork.awaited.is_empty() || self.consumers.open_credit() > 0 {
            return;
        }
        for number in std::mem::take(&mut self.clockwork.awaited).iter() {
            let Some(expiry) = &mut self.clockwork.expiry else { return };
            if expiry.take_overdue(number) && self.is_ready(number) {
                self.expire(number, None, effects);
            }
        }
    }

    /// Does what is due, for at most `most` messages; what is left is announced again. True when nobody used the
    /// queue for the time of its `x-expires`: it is to be deleted.
    pub fn run_timers(&mut self, now: Nanos, most: u64, effects: &mut Effects) -> bool {
        self.clockwork.announced = None;
        if self.state != QueueState::Running {
            return false;
        }
        let now_ms = self.clockwork.wall_ms(now);
        let ttl_ms = self.options.message_ttl_ms;
        let mut left = most;
        while left > 0 {
            let Some(expiry) = &mut self.clockwork.expiry else { break };
            match expiry.pop_due(now_ms, ttl_ms) {
                None => break,
                Some(Due::One(number, bytes)) => {
                    self.time_is_over(number, Some(bytes), effects);
                    left -= 1;
                }
                Some(Due::Range(first, last)) => left -= self.expire_range(first, last, left, effects),
            }
        }
        if self.clockwork.expiry.as_ref().is_some_and(|expiry| expiry.is_empty()) {
            self.clockwork.expiry = None;
        }
        if left < most {
            if self.ready.messages == 0 {
                self.emptied = now;
            }
            self.schedule(effects);
        }
        self.unused_at().is_some_and(|at| at <= now)
    }

    /// The time of `first..=last` is over. At most `most` are looked at now, the rest is due again; returns how many.
    fn expire_range(&mut self, first: u64, last: u64, most: u64, effects: &mut Effects) -> u64 {
        let mut done = 0;
        let mut at = first;
        while let Some((from, to)) = self.ledger.live_run(at).filter(|run| run.0 <= last) {
            if done >= most {
                if let Some(expiry) = &mut self.clockwork.expiry {
                    expiry.push_back(from, last);
                }
                break;
            }
            let to = to.min(last).min(from + (most - done - 1).min(u64::from(u32::MAX)));
            let mut number = from;
            while number <= to {
                self.time_is_over(number, None, effects);
                number += 1;
            }
            done += to - from + 1;
            at = to + 1;
        }
        done
    }

    /// One message's time is over: it leaves if it is ready, and is marked if a consumer has it.
    fn time_is_over(&mut self, number: u64, bytes: Option<u32>, effects: &mut Effects) {
        if !self.ledger.is_live(number) {
            return;
        }
        if !self.is_ready(number) || self.clockwork.awaited.contains(number) {
            if let Some(expiry) = &mut self.clockwork.expiry {
                expiry.overdue(number);
            }
            return;
        }
        self.expire(number, bytes, effects);
    }

    /// A ready message leaves, since its time is over. What is on disk only isn't read for that: without its size the
    /// average of all counts.
    fn expire(&mut self, number: u64, bytes: Option<u32>, effects: &mut Effects) {
        let (bytes, durable) = match (self.held_bytes(number), bytes) {
            (Some((bytes, durable)), _) => (bytes, durable),
            (None, Some(bytes)) => (u64::from(bytes), true),
            (None, None) => (self.ready.bytes / self.ready.messages.max(1), true),
        };
        self.leave_ready_inside(number, bytes);
        let run = Run { first: number, last: number, bytes, durable };
        if self.has_dead_letters() {
            self.die(run, Reason::Expired, effects);
        } else {
            self.depart(number, number, bytes, Outcome::Expired);
            self.release(number, number);
            push_run(&mut effects.expired, run);
        }
        if self.ready.messages == 0 {
            self.contents.spilled_from = None;
        }
    }

    /// Lets go what is over at the head of the queue, as far as it is in memory: nobody is given it.
    pub(crate) fn expire_head(&mut self, now: Nanos, effects: &mut Effects) {
        if self.clockwork.expiry.is_none() {
            return;
        }
        let now_ms = self.clockwork.wall_ms(now);
        while let Some(number) = self.next_ready() {
            let Some((first, held)) = self.contents.find(number) else { return };
            let index = held.index as usize + (number - first) as usize;
            if !self.is_over(&held.batch, index, number, now_ms) {
                return;
            }
            self.expire(number, None, effects);
        }
    }

    /// How many of these messages are not over, from the first on.
    pub(crate) fn not_over(&self, taken: &Taken, now: Nanos) -> u32 {
        if self.clockwork.expiry.is_none() {
            return taken.count;
        }
        let now_ms = self.clockwork.wall_ms(now);
        let is_over =
            |at: u32| self.is_over(&taken.batch, (taken.index + at) as usize, taken.first + u64::from(at), now_ms);
        (0..taken.count).take_while(|at| !is_over(*at)).count() as u32
    }

    fn is_over(&self, batch: &Batch, index: usize, number: u64, now_ms: u64) -> bool {
        let deadline = deadline_ms(batch, index, self.options.message_ttl_ms);
        deadline != 0 && deadline <= now_ms && !self.clockwork.awaited.contains(number)
    }

    /// These aren't on their way to a consumer that waited for them.
    pub(crate) fn no_longer_awaited(&mut self, first: u64, last: u64) {
        if !self.clockwork.awaited.is_empty() {
            self.clockwork.awaited.remove_range(first, last);
        }
    }

    fn is_ready(&self, number: u64) -> bool {
        self.ledger.is_live(number) && (number >= self.cursor || self.returned.contains(number))
    }

    /// Of messages that came back, those leave whose time was over meanwhile.
    pub(crate) fn expire_returned(&mut self, run: &Run, effects: &mut Effects) {
        let Some(expiry) = &mut self.clockwork.expiry else { return };
        let overdue: Vec<u64> = (run.first..=run.last).filter(|number| expiry.take_overdue(*number)).collect();
        let average = u32::try_from(run.bytes / run.count()).unwrap_or(u32::MAX);
        for number in overdue {
            if self.returned.contains(number) {
                self.expire(number, Some(average), effects);
            }
        }
    }
}
