//! Messages beyond a length limit: refused when they are offered, or dropped from the head.

use leveret_message::{BatchPart, Reason};

use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::limits::{self, Excess, Length};
use crate::records::{Run, push_run};

/// While at most this many messages are ready, consumers with credit keep up: new messages count as on their way to them.
const KEEPS_UP_BELOW: u64 = 1024;
/// Maximum number of messages that are dropped under one lock: a limit that was lowered may leave millions.
const DROPPED_MAX: u32 = 16_384;
/// Maximum number of ready messages that count as on their way to consumers for `basic.get` and purges. In RabbitMQ, 200
/// messages for each consumer are on their way.
const ON_THEIR_WAY_MAX: u64 = 256;

impl LedgerQueue {
    /// Number of ready messages, from the head on, that consumers have credit and room for.
    pub(super) fn awaited(&self) -> u64 {
        self.ready.messages().min(self.consumers.open_credit())
    }

    /// Number of ready messages, from the head on, that are reserved for consumers.
    pub(super) fn on_their_way(&self) -> u64 {
        self.awaited().min(ON_THEIR_WAY_MAX)
    }

    /// Number of newly offered messages that consumers would take before all others.
    fn open_places(&self) -> u64 {
        self.consumers.open_credit().saturating_sub(self.ready.messages() + self.pending.undelayed().messages)
    }

    /// Number of newly submitted messages, out of `count` that won't be delayed, that a consumer waits for: only their way to the
    /// disk keeps them from it.
    pub(super) fn awaited_on_disk(&self, count: u32) -> u32 {
        match self.ready.messages() < KEEPS_UP_BELOW {
            true => u32::try_from(self.open_places()).unwrap_or(u32::MAX).min(count),
            false => 0,
        }
    }

    /// Number of these messages, the first ones, that the limits allow.
    pub fn has_room_for(&self, part: BatchPart<'_>) -> u32 {
        let kept = self.kept_dead_letters();
        if !limits::refuses(&self.options) {
            if kept.messages == 0 {
                return part.count;
            }
            // Dropping the head doesn't shorten a queue that keeps its dead letters.
            let length = kept + self.ready.length() + self.pending.length() + self.delayed.length();
            return limits::acceptable_twice(&self.options, length, part);
        }
        let awaited = self.awaited();
        let mut length = Length {
            messages: self.ready.messages() - awaited,
            bytes: self.ready.length().bytes - self.ready_bytes_of_first(awaited),
        };
        // Messages on their way to disk that will be delayed count already, and no consumer takes them from there.
        let set_aside = kept + self.delayed.length() + self.pending.delayed();
        length = length + self.pending.undelayed() + set_aside;
        // Consumers with credit for more than the ready messages take messages that are on their way to disk.
        let open = self.consumers.open_credit() - awaited;
        let places = open.saturating_sub(self.pending.undelayed().messages);
        if places > 0 {
            length = set_aside;
        } else if open > 0 {
            length.messages -= open;
            length.bytes -= self.pending.bytes_of_first(open);
        }
        // No consumer takes a message that will be delayed.
        let delays = self.rules.delays;
        let is_delayed = |at: usize| delays && part.batch.delivery_ms(at).is_some();
        let strict = self.strict_compat;
        limits::acceptable(&self.options, length, part, places, is_delayed, strict)
    }

    /// The first messages reserved for consumers, as far as their sizes are known.
    pub(super) fn on_their_way_in_memory(&self) -> Length {
        let (mut length, mut next) = (Length::default(), self.ready_numbers().first());
        let most = self.on_their_way();
        while length.messages < most
            && let Some(number) = next
            && let Some(bytes) = self.body_bytes(number)
        {
            length.messages += 1;
            length.bytes += bytes;
            next = self.ready_numbers().behind(number);
        }
        length
    }

    /// Body bytes of the first `count` ready messages, if a limit needs them. Messages that aren't in memory count with the
    /// average size of all.
    fn ready_bytes_of_first(&self, count: u64) -> u64 {
        if self.options.max_length_bytes.is_none() || count == 0 {
            return 0;
        }
        if count >= self.ready.messages() {
            return self.ready.length().bytes;
        }
        let average = self.ready.average_bytes();
        let (mut left, mut bytes, mut next) = (count, 0, self.ready_numbers().first());
        while left > 0
            && let Some(number) = next
        {
            bytes += self.body_bytes(number).unwrap_or(average);
            left -= 1;
            next = self.ready_numbers().behind(number);
        }
        bytes.min(self.ready.length().bytes)
    }

    /// Drops the oldest messages that no consumer has credit for while they exceed the limits, unless the queue refuses messages:
    /// all that it accepted stay, also if more come back to it than its limit. Messages that aren't in memory are read first,
    /// because their sizes aren't known. Beyond [`DROPPED_MAX`], the rest is left to the timers.
    pub(super) fn drop_excess(&mut self, effects: &mut Effects) {
        self.excess = Excess::None;
        if limits::refuses(&self.options)
            || !limits::is_over(&self.options, self.ready.length() + self.delayed.length())
        {
            return;
        }
        let awaited = self.awaited();
        let awaited_bytes = self.ready_bytes_of_first(awaited);
        let mut next = match awaited {
            0 => self.ready_numbers().first(),
            _ => self.ready_numbers().nth(awaited),
        };
        for dropped in 0.. {
            let length = Length {
                messages: self.ready.messages() - awaited,
                bytes: self.ready.length().bytes.saturating_sub(awaited_bytes),
            };
            let length = length + self.delayed.length();
            let Some(number) = next.filter(|_| limits::is_over(&self.options, length)) else { return };
            let Some((bytes, durable)) = self.held_bytes(number) else {
                self.read_ready(number, effects);
                return;
            };
            if dropped == DROPPED_MAX {
                self.excess = Excess::Left;
                return;
            }
            let run = Run { first: number, last: number, bytes, durable };
            next = self.ready_numbers().behind(number);
            match awaited {
                0 => self.leave_ready(number, number, bytes),
                _ => self.leave_ready_inside(number, bytes),
            }
            if self.has_dead_letters() {
                self.die(run, Reason::MaxLen, effects);
            } else {
                self.depart(number, number, bytes, Departure::Dropped);
                self.release(number, number);
                push_run(&mut effects.rare_mut().drops, run);
            }
        }
    }
}
