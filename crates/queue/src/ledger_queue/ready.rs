//! The live messages that are ready, and those that consumers have.
//!
//! Numbers from the cursor on were never handed out and are ready if they are live. Below the cursor, only messages that came
//! back are ready.

use crate::attempts::{AttemptCounts, Attempts};
use crate::effects::Run;
use crate::ledger::Ledger;
use crate::limits::Length;
use crate::number_set::NumberSet;

/// The ready messages of a queue.
#[derive(Debug)]
pub(crate) struct ReadyMessages {
    /// Numbers from here on were never handed out.
    cursor: u64,
    /// Numbers that were handed out and came back; all below the cursor.
    returned: NumberSet,
    /// Lower numbers may have been delivered before a restart.
    redelivered_below: u64,
    length: Length,
    unacknowledged: Length,
}

/// The numbers that are ready.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    ledger: &'a Ledger,
    returned: &'a NumberSet,
    cursor: u64,
}

impl Numbers<'_> {
    /// The number that is delivered next.
    pub(crate) fn first(self) -> Option<u64> {
        if let Some(number) = self.returned.first() {
            return Some(number);
        }
        self.ledger.live_run(self.cursor).map(|(first, _)| first)
    }

    /// The number that is delivered next, and the end of its run of messages that were never handed out; `None` if it came
    /// back.
    pub(crate) fn first_run(self) -> Option<(u64, Option<u64>)> {
        match self.returned.first() {
            Some(number) => Some((number, None)),
            None => self.ledger.live_run(self.cursor).map(|(first, last)| (first, Some(last))),
        }
    }

    /// The first one at or after `from`.
    pub(crate) fn next(self, from: u64) -> Option<u64> {
        if from < self.cursor
            && let Some(number) = self.returned.next(from)
        {
            return Some(number);
        }
        self.ledger.live_run(from.max(self.cursor)).map(|(first, _)| first)
    }

    /// The number that has `before` others before it.
    pub(crate) fn nth(self, before: u64) -> Option<u64> {
        match before.checked_sub(self.returned.len()) {
            None => self.returned.nth(before),
            Some(before) => self.ledger.nth_live(self.cursor, before),
        }
    }

    /// Number of ready messages from `number` on.
    pub(crate) fn count(self, from: u64) -> u64 {
        self.returned.count_from(from) + self.ledger.live_count(from.max(self.cursor))
    }

    /// Whether a live number is ready.
    pub(crate) fn has(self, number: u64) -> bool {
        number >= self.cursor || self.returned.contains(number)
    }

    /// Whether any of `first..=last` is ready.
    pub(crate) fn any_of(self, first: u64, last: u64) -> bool {
        let is_new = |(number, _)| number <= last;
        last >= self.cursor && self.ledger.live_run(first.max(self.cursor)).is_some_and(is_new)
            || self.returned.next(first).is_some_and(|number| number <= last)
    }
}

impl ReadyMessages {
    /// All live messages are ready; those below `redelivered_below` may have been delivered before.
    pub(crate) fn new(ledger: &Ledger, redelivered_below: u64) -> Self {
        Self {
            cursor: 0,
            returned: NumberSet::default(),
            redelivered_below,
            length: Length { messages: ledger.len(), bytes: ledger.bytes() },
            unacknowledged: Length::default(),
        }
    }

    pub(crate) fn numbers<'a>(&'a self, ledger: &'a Ledger) -> Numbers<'a> {
        Numbers { ledger, returned: &self.returned, cursor: self.cursor }
    }

    /// Messages and body bytes that are ready.
    pub(crate) fn length(&self) -> Length {
        self.length
    }

    /// Number of ready messages.
    pub(crate) fn messages(&self) -> u64 {
        self.length.messages
    }

    /// Messages and body bytes that consumers have.
    pub(crate) fn unacknowledged(&self) -> Length {
        self.unacknowledged
    }

    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The numbers that came back, the lowest first.
    pub(crate) fn returned(&self) -> &NumberSet {
        &self.returned
    }

    /// Whether a message that was never handed out by this process may have been delivered by an earlier one.
    pub(crate) fn is_redelivered(&self, number: u64) -> bool {
        number < self.redelivered_below
    }

    /// The average body, in bytes.
    pub(crate) fn average_bytes(&self) -> u64 {
        self.length.bytes / self.length.messages.max(1)
    }

    /// Number of ready messages from `number` on, at most `most`, that are delivered with the same flag and counts;
    /// returned with these. `last` ends the live run of a message that was never handed out.
    pub(crate) fn alike(
        &self,
        number: u64,
        last: Option<u64>,
        most: u64,
        attempts: &Attempts,
    ) -> (u64, bool, AttemptCounts) {
        let (most, redelivered) = match last {
            None => (most, true),
            Some(last) => {
                let old = number < self.redelivered_below;
                let end = if old { self.redelivered_below } else { u64::MAX };
                (most.min(last - number + 1).min(end - number), old)
            }
        };
        if last.is_some() && (!redelivered || attempts.is_empty()) {
            return (most, redelivered, AttemptCounts::default());
        }
        let counts = attempts.of(number);
        let alike = |number| (last.is_some() || self.returned.contains(number)) && attempts.of(number) == counts;
        let mut count = 1;
        while count < most && alike(number + count) {
            count += 1;
        }
        (count, redelivered, counts)
    }

    /// Adds new messages behind all others.
    pub(crate) fn grow(&mut self, messages: u64, bytes: u64) {
        self.length.messages += messages;
        self.length.bytes += bytes;
    }

    /// Removes `first..=last` at the head; they are consecutive and either all returned or all new.
    pub(crate) fn leave(&mut self, first: u64, last: u64, bytes: u64) {
        if first < self.cursor {
            for number in first..=last {
                self.returned.remove(number);
            }
        } else {
            self.cursor = last + 1;
        }
        self.length.messages -= last - first + 1;
        self.length.bytes = self.length.bytes.saturating_sub(bytes);
    }

    /// Removes a number that may be behind others. The caller has to remove it from the ledger, too.
    pub(crate) fn leave_inside(&mut self, number: u64, bytes: u64) {
        self.returned.remove(number);
        self.length.messages -= 1;
        self.length.bytes = if self.length.messages == 0 { 0 } else { self.length.bytes.saturating_sub(bytes) };
    }

    /// Removes a volatile message that is lost, ready or not. The caller has to remove it from the ledger, too.
    pub(crate) fn lose(&mut self, number: u64, bytes: u64) {
        if number >= self.cursor || self.returned.remove(number) {
            self.length.messages -= 1;
            self.length.bytes -= bytes;
        }
    }

    /// Purges: removes all but the first `staying.messages`, with their bytes, and calls `gone` for each run.
    pub(crate) fn purge(&mut self, staying: Length, ledger: &Ledger, mut gone: impl FnMut(u64, u64)) {
        let stay = staying.messages;
        let returned: Vec<u64> = self.returned.iter().skip(stay as usize).collect();
        for number in returned {
            gone(number, number);
            self.returned.remove(number);
        }
        let mut next = self.numbers(ledger).nth(stay.max(self.returned.len()));
        while let Some((first, last)) = next.and_then(|from| ledger.live_run(from)) {
            gone(first, last);
            next = Some(last + 1);
        }
        if stay == 0
            && let Some(end) = next
        {
            self.cursor = end;
        }
        self.length = staying;
    }

    /// Counts messages that consumers have from now on.
    pub(crate) fn hand_out(&mut self, messages: u64, bytes: u64) {
        self.unacknowledged.messages += messages;
        self.unacknowledged.bytes += bytes;
    }

    /// Counts messages that consumers don't have any more.
    pub(crate) fn hand_back(&mut self, messages: u64, bytes: u64) {
        self.unacknowledged.messages = self.unacknowledged.messages.saturating_sub(messages);
        self.unacknowledged.bytes = self.unacknowledged.bytes.saturating_sub(bytes);
    }

    /// Puts back the live ones of these messages, each into its place; calls `back` for each.
    pub(crate) fn put_back(&mut self, run: &Run, ledger: &Ledger, mut back: impl FnMut(u64)) {
        let before = self.length.messages;
        for number in run.first..=run.last {
            if ledger.is_live(number) {
                self.returned.insert(number);
                self.length.messages += 1;
                back(number);
            }
        }
        // Volatile messages are gone if the queue has failed meanwhile.
        if self.length.messages > before {
            self.length.bytes += run.bytes;
        }
    }
}
