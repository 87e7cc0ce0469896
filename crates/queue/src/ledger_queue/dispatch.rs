//! Handing messages out: which ones are next, and what a consumer's turn takes.

use crate::Nanos;
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::effects::{Effects, Run, Taken, push_run};
use crate::ledger::Outcome;
use crate::ledger_queue::{ClassicQueue, TurnEnd};

/// See [`ClassicQueue::ready_run`].
pub(crate) enum ReadyRun {
    /// Messages and when they were submitted.
    Found(Taken, Nanos),
    /// The next one is on disk.
    NotLoaded(u64),
    /// Nothing is ready.
    None,
}

/// Shortens a run to about `bytes`, at least one message; returns its body bytes. One whose body is in a file is the last:
/// its delivery takes as long as the file is read.
pub(crate) fn clip(taken: &mut Taken, bytes: u64) -> u64 {
    let mut size = 0;
    for at in 0..taken.count {
        let index = (taken.index + at) as usize;
        size += u64::from(taken.batch.body_length(index));
        if size + 64 * u64::from(at + 1) >= bytes || taken.batch.is_in_file(index) {
            taken.count = at + 1;
            return size;
        }
    }
    size
}

impl ClassicQueue {
    /// The number that is delivered next.
    pub(crate) fn next_ready(&self) -> Option<u64> {
        if let Some(number) = self.returned.first() {
            return Some(number);
        }
        self.ledger.live_run(self.cursor).map(|(first, _)| first)
    }

    /// Moves numbers out of the ready ones; they are consecutive and all returned or all new.
    pub(crate) fn leave_ready(&mut self, first: u64, last: u64, bytes: u64) {
        self.no_longer_awaited(first, last);
        if first < self.cursor {
            for number in first..=last {
                self.returned.remove(number);
            }
        } else {
            self.cursor = last + 1;
        }
        self.ready.messages -= last - first + 1;
        self.ready.bytes = self.ready.bytes.saturating_sub(bytes);
    }

    /// Moves a number out of the ready ones that may stand behind others.
    pub(crate) fn leave_ready_inside(&mut self, number: u64, bytes: u64) {
        self.no_longer_awaited(number, number);
        self.returned.remove(number);
        self.ready.messages -= 1;
        self.ready.bytes = if self.ready.messages == 0 { 0 } else { self.ready.bytes.saturating_sub(bytes) };
    }

    /// The ready message that has `before` others before it.
    pub(crate) fn nth_ready(&self, before: u64) -> Option<u64> {
        match before.checked_sub(self.returned.len()) {
            None => self.returned.nth(before),
            Some(before) => self.ledger.nth_live(self.cursor, before),
        }
    }

    /// Body bytes of a message that is in memory, and whether it is durable.
    pub(crate) fn held_bytes(&self, number: u64) -> Option<(u64, bool)> {
        let (first, held) = self.contents.find(number)?;
        let index = u64::from(held.index) + number - first;
        Some((u64::from(held.batch.body_length(index as usize)), held.durable))
    }

    /// Body bytes of a message that is in memory.
    pub(crate) fn body_bytes(&self, number: u64) -> Option<u64> {
        self.held_bytes(number).map(|(bytes, _)| bytes)
    }

    /// Gives back memory after `first..=last` left the ready ones: durable entries without a ready
    /// message go (their bodies are on disk), volatile ones when they are settled.
    pub(crate) fn release(&mut self, first: u64, last: u64) {
        let mut at = first;
        while at <= last {
            let Some((start, held)) = self.contents.find(at) else { return };
            let end = held.end(start);
            let durable = held.durable;
            if durable {
                let is_next = |(first, _)| first < end;
                let ready = end > self.cursor && self.ledger.live_run(start.max(self.cursor)).is_some_and(is_next);
                if !ready && self.returned.next(start).is_none_or(|number| number >= end) {
                    self.contents.remove(start);
                }
            } else {
                let ledger = &self.ledger;
                self.contents.settled(at, last.min(end - 1), |number| ledger.is_live(number));
            }
            at = end;
        }
    }

    /// A run of ready messages that are in memory and lie together, at most `most` of them.
    pub(crate) fn ready_run(&self, most: u64) -> ReadyRun {
        let (number, last) = match self.returned.first() {
            Some(number) => (number, None),
            None => match self.ledger.live_run(self.cursor) {
                Some((first, last)) => (first, Some(last)),
                None => return ReadyRun::None,
            },
        };
        let Some((start, held)) = self.contents.find(number) else { return ReadyRun::NotLoaded(number) };
        let (count, redelivered, failures) = self.alike(number, last, most.min(held.end(start) - number));
        ReadyRun::Found(
            Taken {
                batch: held.batch.clone(),
                index: held.index + (number - start) as u32,
                count: count as u32,
                first: number,
                redelivered,
                failures,
                durable: held.durable,
            },
            held.submitted,
        )
    }

    /// How many ready messages from `number` on, at most `most`, are delivered with the same flag and count:
    /// these too. `last` ends the live run that a message stands in which was never handed out.
    pub(crate) fn alike(&self, number: u64, last: Option<u64>, most: u64) -> (u64, bool, u32) {
        if let Some(last) = last {
            let old = number < self.redelivered_below;
            let end = if old { self.redelivered_below } else { u64::MAX };
            return (most.min(last - number + 1).min(end - number), old, 0);
        }
        let failures = self.failures.of(number);
        let alike = |number| self.returned.contains(number) && self.failures.of(number) == failures;
        let mut count = 1;
        while count < most && alike(number + count) {
            count += 1;
        }
        (count, true, failures)
    }

    /// Hands messages to a scheduled consumer: at most `messages` and about `bytes`, and its fair share.
    pub fn take(
        &mut self,
        id: ConsumerId,
        messages: u32,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        let Some(consumer) = self.consumers.find(id) else { return TurnEnd::Done };
        if !consumer.scheduled {
            return TurnEnd::Done;
        }
        if consumer.browser.is_some() {
            return self.browse(id, messages, bytes, now, out, effects);
        }
        let automatic = consumer.options.automatic_ack;
        let at_first = consumer.promise.min(u64::from(messages)).min(u64::from(consumer.credit()));
        let mut left = at_first;
        let mut bytes_left = bytes;
        let mut blocked = false;
        while left > 0 && bytes_left > 0 {
            self.expire_head(now, effects);
            let (mut taken, submitted) = match self.ready_run(left) {
                ReadyRun::Found(taken, submitted) => (taken, submitted),
                ReadyRun::None => break,
                ReadyRun::NotLoaded(number) => {
                    self.request_read(number, effects);
                    self.disk_wait.get_or_insert(now);
                    blocked = true;
                    break;
                }
            };
            taken.count = self.not_over(&taken, now).max(1);
            let size = clip(&mut taken, bytes_left);
            left -= u64::from(taken.count);
            bytes_left =
                if taken.ends_in_file() { 0 } else { bytes_left.saturating_sub(size + 64 * u64::from(taken.count)) };
            let what = if automatic { Count::DeliverNoAck } else { Count::Deliver };
            self.count_out(&taken, what, now);
            self.hand_out(&taken, size, automatic, effects);
            let consumer = self.consumers.find(id).expect("found above");
            if !automatic {
                consumer.unacknowledged += taken.count;
            }
            consumer.handed(taken.count);
            consumer.record_latency(now.saturating_sub(submitted), u64::from(taken.count));
            out.push(taken);
        }
        if self.ready.messages == 0 {
            self.emptied = now;
        }
        self.read_ahead(effects);
        let more = self.ready.messages > 0 && !blocked;
        let stays = self.consumers.end_turn(id, at_first - left, self.ready.messages, more, now);
        if !stays || self.consumers.has_priorities() {
            self.schedule(effects);
        }
        if stays { TurnEnd::More } else { TurnEnd::Done }
    }

    /// Counts messages that are about to be handed out.
    pub(crate) fn count_out(&mut self, taken: &Taken, what: Count, now: Nanos) {
        let count = u64::from(taken.count);
        self.count(what, count, now);
        if taken.redelivered {
            self.count(Count::Redeliver, count, now);
        }
    }

    /// Bookkeeping of messages that leave the queue's ready ones for a consumer or a get.
    pub(crate) fn hand_out(&mut self, taken: &Taken, size: u64, automatic: bool, effects: &mut Effects) {
        let last = taken.first + u64::from(taken.count) - 1;
        self.leave_ready(taken.first, last, size);
        if automatic {
            self.depart(taken.first, last, size, Outcome::Settled);
            if taken.durable {
                push_run(&mut effects.settled, Run { first: taken.first, last, bytes: size, durable: true });
            }
            self.release(taken.first, last);
        } else {
            self.unacknowledged.messages += u64::from(taken.count);
            self.unacknowledged.bytes += size;
            if taken.durable {
                self.release(taken.first, last);
            }
        }
    }
}
