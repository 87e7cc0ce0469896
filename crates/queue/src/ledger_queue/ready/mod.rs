//! The live messages that are ready, and those that consumers have.
//!
//! Numbers from the cursor on were never handed out and are ready if they are live, but for those that a consumer with a filter
//! took from behind others. Of these, and below the cursor, only messages that came back are ready. Queues with priorities have
//! [`Lanes`] beside that.

mod lanes;
mod numbers;
mod returns;

use std::collections::BTreeMap;

pub(crate) use self::lanes::LaneKind;
use self::lanes::Lanes;
pub(crate) use self::numbers::{Head, Numbers};
use crate::attempts::Attempts;
use crate::ledger::Ledger;
use crate::limits::Length;
use crate::number_set::NumberSet;
use crate::priorities::PriorityLevels;
use crate::records::{AttemptCounts, Run};

/// The ready messages of a queue.
#[derive(Debug)]
pub(crate) struct ReadyMessages {
    /// Numbers from here on were never handed out.
    cursor: u64,
    /// Numbers that were handed out and came back, each in its place: below the cursor, or among those `ahead`. Empty if there
    /// are lanes.
    returned: NumberSet,
    /// Numbers from the cursor on that were handed out before lower ones, whatever became of them. Empty if there are lanes, which
    /// set them aside.
    ahead: NumberSet,
    /// The messages that are delivered in another order than that of their numbers, if the queue has priorities.
    lanes: Option<Box<Lanes>>,
    /// Lower numbers may have been delivered before a restart.
    redelivered_below: u64,
    /// Whether consumers aren't told how often a message came back, only whether it did.
    hides_attempts: bool,
    length: Length,
    unacknowledged: Length,
}

impl ReadyMessages {
    /// All live messages are ready; those below `redelivered_below` may have been delivered before. In a queue with priorities,
    /// these are the messages to which their publishers gave one. Messages that were set aside aren't ready.
    pub(crate) fn new(
        ledger: &Ledger,
        redelivered_below: u64,
        priorities: Option<(PriorityLevels, BTreeMap<u8, NumberSet>)>,
        (set_aside, aside): (impl Iterator<Item = u64>, Length),
    ) -> Self {
        Self {
            cursor: 0,
            returned: NumberSet::default(),
            ahead: NumberSet::default(),
            lanes: priorities.map(|(levels, given)| Box::new(Lanes::recovered(levels, given, set_aside))),
            redelivered_below,
            hides_attempts: false,
            length: Length {
                messages: ledger.len() - aside.messages,
                bytes: ledger.bytes().saturating_sub(aside.bytes),
            },
            unacknowledged: Length::default(),
        }
    }

    /// Messages that come back go to their old places from now on, if they have priorities; others do anyway.
    pub(crate) fn keep_places(&mut self) {
        if let Some(lanes) = &mut self.lanes {
            lanes.keep_places();
        }
    }

    /// Consumers aren't told how often a message came back, only whether it did.
    pub(crate) fn hide_attempts(&mut self) {
        self.hides_attempts = true;
    }

    pub(crate) fn numbers<'a>(&'a self, ledger: &'a Ledger) -> Numbers<'a> {
        let lanes = self.lanes.as_deref();
        let aside = lanes.map_or(&self.ahead, Lanes::aside);
        Numbers { ledger, returned: &self.returned, cursor: self.cursor, aside, lanes }
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

    /// No number from here on was handed out by this process.
    pub(crate) fn handed_out_below(&self) -> u64 {
        let aside = self.lanes.as_deref().map_or(&self.ahead, Lanes::aside);
        aside.last().map_or(self.cursor, |last| self.cursor.max(last + 1))
    }

    /// Whether a message that was never handed out by this process may have been delivered by an earlier one.
    pub(crate) fn is_redelivered(&self, number: u64) -> bool {
        number < self.redelivered_below
    }

    /// The average body, in bytes.
    pub(crate) fn average_bytes(&self) -> u64 {
        self.length.bytes / self.length.messages.max(1)
    }

    /// Number of messages from the head of a run on, at most `most`, that are delivered with the same flag and counts; returned
    /// with these.
    pub(crate) fn alike(&self, head: Head, most: u64, attempts: &Attempts) -> (u64, bool, AttemptCounts) {
        let Head { number, last, came_back } = head;
        let old = number < self.redelivered_below;
        let most = most.min((last - number).saturating_add(1));
        let most = if old && !came_back { most.min(self.redelivered_below - number) } else { most };
        if !came_back && attempts.is_empty() {
            return (most, old, AttemptCounts::default());
        }
        let counts = attempts.of(number);
        if !came_back && self.lanes.is_none() && counts == AttemptCounts::default() {
            // Messages that have counts, without having come back, are dead letters of other queues.
            return (attempts.next(number).map_or(most, |next| most.min(next - number)), old, counts);
        }
        let has_places = came_back && self.lanes.is_none();
        let alike = |number| (!has_places || self.returned.contains(number)) && attempts.of(number) == counts;
        let mut count = 1;
        while count < most && alike(number + count) {
            count += 1;
        }
        if self.lanes.is_none() {
            return (count, old || came_back || counts != AttemptCounts::default(), counts);
        }
        if self.hides_attempts {
            return (count, old || counts != AttemptCounts::default(), AttemptCounts { acquired: 0, ..counts });
        }
        // With lanes, messages are counted when they come back, and one that was delayed from the beginning never did. One whose
        // delivery failed in other queues counts as delivered, as often as it failed, until it comes back here.
        let acquired = if counts.acquired > 0 { counts.acquired } else { counts.failed };
        (count, old || acquired > 0, AttemptCounts { acquired, ..counts })
    }

    /// Whether the messages are delivered in the order of their numbers.
    pub(crate) fn is_in_order(&self) -> bool {
        self.lanes.as_ref().is_none_or(|lanes| lanes.is_empty())
    }

    /// Whether the messages have priorities.
    pub(crate) fn has_priorities(&self) -> bool {
        self.lanes.is_some()
    }

    /// Gives a new message its priority.
    pub(crate) fn prioritize(&mut self, number: u64, priority: u8) {
        if let Some(lanes) = &mut self.lanes {
            lanes.admit(number, priority);
        }
    }

    /// The live messages of another priority than the default one.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = (u8, NumberSet)> {
        self.lanes.iter().flat_map(|lanes| lanes.priorities())
    }

    /// Number of ready messages that came back, and of those that never did, by priority.
    pub(crate) fn by_lane(&self) -> (u64, BTreeMap<u8, u64>) {
        let Some(lanes) = &self.lanes else { return (0, BTreeMap::new()) };
        let (returned, mut by_priority) = lanes.sizes();
        by_priority.remove(&lanes.default_priority());
        let default = self.length.messages.saturating_sub(returned + by_priority.values().sum::<u64>());
        if default > 0 {
            by_priority.insert(lanes.default_priority(), default);
        }
        (returned, by_priority)
    }

    /// Messages left the queue.
    pub(crate) fn depart(&mut self, first: u64, last: u64) {
        if let Some(lanes) = &mut self.lanes
            && !lanes.is_empty()
        {
            lanes.depart(first, last);
        }
    }

    /// Adds new messages behind all others.
    pub(crate) fn grow(&mut self, messages: u64, bytes: u64) {
        self.length.messages += messages;
        self.length.bytes += bytes;
    }

    /// Removes `first..=last` at the head; they are consecutive and either all returned or all new.
    pub(crate) fn leave(&mut self, first: u64, last: u64, bytes: u64) {
        if let Some(lanes) = &mut self.lanes
            && lanes.take_out(first)
        {
            (first + 1..=last).for_each(|number| _ = lanes.take_out(number));
        } else if first < self.cursor || self.ahead.contains(first) {
            for number in first..=last {
                self.returned.remove(number);
            }
        } else {
            self.move_cursor(last + 1);
        }
        self.length.messages -= last - first + 1;
        self.length.bytes = self.length.bytes.saturating_sub(bytes);
    }

    fn move_cursor(&mut self, to: u64) {
        self.cursor = to;
        if let Some(lanes) = &mut self.lanes {
            lanes.passed(to);
        }
        if !self.ahead.is_empty() && to > 0 {
            self.ahead.remove_range(0, to - 1);
        }
    }

    /// Whether a live message is ready.
    pub(crate) fn has(&self, number: u64) -> bool {
        match &self.lanes {
            Some(lanes) if lanes.has(number) => true,
            Some(lanes) => number >= self.cursor && !lanes.aside().contains(number),
            None => self.returned.contains(number) || number >= self.cursor && !self.ahead.contains(number),
        }
    }

    /// Removes a number that may be behind others, for a consumer: it may come back.
    pub(crate) fn leave_ahead(&mut self, number: u64, bytes: u64) {
        match &mut self.lanes {
            Some(lanes) => {
                if !lanes.take_out(number) && number >= self.cursor {
                    lanes.set_aside(number);
                }
            }
            None if self.returned.remove(number) || number < self.cursor => {}
            None => _ = self.ahead.insert(number),
        }
        self.length.messages -= 1;
        self.length.bytes = self.length.bytes.saturating_sub(bytes);
    }

    /// Moves the cursor over numbers that were set aside, so that nothing looks at them again and again.
    #[inline]
    pub(crate) fn tidy(&mut self, ledger: &Ledger) {
        if !self.lanes.as_deref().map_or(&self.ahead, Lanes::aside).is_empty() {
            let next = self.numbers(ledger).default_run(self.cursor).map_or(ledger.next(), |(first, _)| first);
            if next > self.cursor {
                self.move_cursor(next);
            }
        }
    }

    /// The lane of a ready message. Without priorities there is one.
    pub(crate) fn lane_of(&self, number: u64) -> LaneKind {
        let lanes = self.lanes.as_ref().filter(|lanes| !lanes.is_empty());
        lanes.map_or(LaneKind::Default, |lanes| lanes.kind_of(number))
    }

    /// See [`Lanes::returned_from`].
    pub(crate) fn returned_from(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        self.lanes.iter().flat_map(move |lanes| lanes.returned_from(number))
    }

    /// Removes a number that may be behind others. The caller has to remove it from the ledger, too.
    pub(crate) fn leave_inside(&mut self, number: u64, bytes: u64) {
        match &mut self.lanes {
            Some(lanes) => _ = lanes.take_out(number),
            None => _ = self.returned.remove(number),
        }
        self.length.messages -= 1;
        self.length.bytes = if self.length.messages == 0 { 0 } else { self.length.bytes.saturating_sub(bytes) };
    }

    /// Removes a volatile message that is lost, ready or not. The caller has to remove it from the ledger, too.
    pub(crate) fn lose(&mut self, number: u64, bytes: u64) {
        let is_elsewhere = match &mut self.lanes {
            Some(lanes) => lanes.take_out(number),
            None => self.returned.remove(number),
        };
        let aside = self.lanes.as_deref().map_or(&self.ahead, Lanes::aside);
        if is_elsewhere || number >= self.cursor && !aside.contains(number) {
            self.length.messages -= 1;
            self.length.bytes -= bytes;
        }
    }

    /// Purges: removes all but the first `staying.messages`, with their bytes, and calls `gone` for each run.
    pub(crate) fn purge(&mut self, staying: Length, ledger: &Ledger, mut gone: impl FnMut(u64, u64)) {
        if self.lanes.is_some() {
            return self.purge_lanes(staying, ledger, gone);
        }
        let stay = staying.messages;
        if !self.ahead.is_empty() {
            return self.purge_in_place(staying, ledger, gone);
        }
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

    /// As [`ReadyMessages::purge`], with messages that came back among those that were never handed out.
    fn purge_in_place(&mut self, staying: Length, ledger: &Ledger, mut gone: impl FnMut(u64, u64)) {
        let numbers = self.numbers(ledger);
        let from = numbers.nth(staying.messages);
        let mut next = from;
        while let Some(first) = next {
            let head = numbers.head_at(first);
            let last = if head.came_back { first } else { head.last };
            gone(first, last);
            next = numbers.next(last + 1);
        }
        if let Some(from) = from {
            self.returned.remove_range(from, u64::MAX);
        }
        if staying.messages == 0 {
            self.move_cursor(ledger.next());
        }
        self.length = staying;
    }

    fn purge_lanes(&mut self, staying: Length, ledger: &Ledger, mut gone: impl FnMut(u64, u64)) {
        let numbers = self.numbers(ledger);
        let first_ones = std::iter::successors(numbers.first(), |number| numbers.behind(*number));
        let first_ones: Vec<Head> =
            first_ones.take(staying.messages as usize).map(|number| numbers.head_at(number)).collect();
        let mut sorted: Vec<u64> = first_ones.iter().map(|head| head.number).collect();
        sorted.sort_unstable();
        // Calls `gone` for the parts of a run between numbers that stay.
        let mut leave = |first: u64, last: u64| {
            let mut from = first;
            let stops = sorted.iter().skip(sorted.partition_point(|number| *number < first)).copied();
            for stop in stops.take_while(|number| *number <= last).chain([last + 1]) {
                if from < stop {
                    gone(from, stop - 1);
                }
                from = stop + 1;
            }
        };
        let mut next = numbers.default_run(self.cursor);
        while let Some((first, last)) = next {
            leave(first, last);
            next = numbers.default_run(last + 1);
        }
        let lanes = self.lanes.as_mut().expect("the queue has priorities");
        let elsewhere: Vec<Head> = first_ones.into_iter().filter(|head| lanes.has(head.number)).collect();
        lanes.clear(leave);
        elsewhere.iter().for_each(|head| lanes.stay(head.number, head.came_back));
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

    /// A new message isn't ready for now. Later come [`ReadyMessages::come_due`], and [`ReadyMessages::tidy`] once after all of them.
    pub(crate) fn set_aside(&mut self, number: u64, bytes: u64) {
        if let Some(lanes) = &mut self.lanes {
            lanes.set_aside(number);
            self.length.messages -= 1;
            self.length.bytes -= bytes;
        }
    }

    /// A live message that was set aside is ready again, behind those that came back earlier.
    pub(crate) fn come_due(&mut self, run: &Run) {
        if let Some(lanes) = &mut self.lanes {
            lanes.come_due(run.first);
            self.length.messages += 1;
            self.length.bytes += run.bytes;
        }
    }

    /// Lower numbers may have been delivered before a restart.
    pub(crate) fn redelivered_below(&self) -> u64 {
        self.redelivered_below
    }

    /// The messages that came back and have their places, and `others`.
    pub(crate) fn returned_in_place(&self, others: &NumberSet) -> NumberSet {
        self.returned.union(others)
    }

    /// Marks live messages of a queue without priorities, none of which was handed out, as having come back.
    pub(crate) fn mark_returned(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            self.ahead.insert(number);
            self.returned.insert(number);
        }
    }

    /// Puts back the live ones of these messages, each into its place, or behind those that came back earlier; calls `back` for each.
    pub(crate) fn put_back(&mut self, run: &Run, ledger: &Ledger, mut back: impl FnMut(u64)) {
        let before = self.length.messages;
        for number in run.first..=run.last {
            if ledger.is_live(number) {
                match &mut self.lanes {
                    Some(lanes) => lanes.put_back(number),
                    None => _ = self.returned.insert(number),
                }
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

#[cfg(test)]
mod tests;
