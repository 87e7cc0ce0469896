//! Messages between the two phases: submitted, and not yet part of the queue.

mod group;
mod place;

pub(crate) use group::Awaited;
pub use group::{ChunkPlacement, GroupPlace, Placement};
pub use place::{LatestPlace, Place, Watermarks};

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use leveret_message::Batch;

use crate::limits::Length;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};

/// The form of messages between the phases.
pub(crate) trait PendingForm {
    /// Length in bytes of the body at this index.
    fn body_length(&self, index: usize) -> u32;
}

impl PendingForm for Arc<Batch> {
    fn body_length(&self, index: usize) -> u32 {
        Batch::body_length(self, index)
    }
}

/// Consecutive messages of one batch, or a chunk of a stream.
#[derive(Debug)]
pub(crate) struct Pending<B = Arc<Batch>> {
    /// The place in the commit stream that they wait for.
    pub place: Awaited,
    pub first: u64,
    pub batch: B,
    pub index: u32,
    pub count: u32,
    /// Their body bytes.
    pub bytes: u64,
    /// Number of messages that won't be delayed, from the first on, that consumers waited for when they were submitted.
    pub awaited: u32,
    pub durable: bool,
    pub submitted: Nanos,
    /// The ones that will be delayed, by place among them: until when, in milliseconds since the Unix epoch.
    pub delayed: Vec<(u32, u64)>,
}

impl<B: PendingForm> Pending<B> {
    /// Tells whether a consumer waited for a message when it was submitted. To be asked for each place among them, in order.
    pub(crate) fn is_awaited(&self) -> impl FnMut(u32) -> bool {
        let (mut delayed, mut left) = (self.delayed.iter().peekable(), self.awaited);
        move |at| {
            // A delayed one takes no place from those behind it.
            let is_one = delayed.next_if(|(place, _)| *place == at).is_none() && left > 0;
            left -= u32::from(is_one);
            is_one
        }
    }

    /// The ones that will be delayed.
    fn delayed_length(&self) -> Length {
        let bytes =
            self.delayed.iter().map(|(at, _)| u64::from(self.batch.body_length((self.index + at) as usize))).sum();
        Length { messages: self.delayed.len() as u64, bytes }
    }

    /// Number and body bytes of its first `most` messages that won't be delayed.
    fn first_undelayed(&self, most: u64) -> Length {
        let undelayed = u64::from(self.count) - self.delayed.len() as u64;
        if most >= undelayed {
            return Length { messages: undelayed, bytes: self.bytes - self.delayed_length().bytes };
        }
        let mut delayed = self.delayed.iter().peekable();
        let places = (0..self.count).filter(|place| delayed.next_if(|(at, _)| at == place).is_none());
        let lengths = places.map(|at| u64::from(self.batch.body_length((self.index + at) as usize)));
        Length { messages: most, bytes: lengths.take(most as usize).sum() }
    }
}

/// Submitted messages that aren't applied yet, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct PendingMessages<B = Arc<Batch>> {
    runs: VecDeque<Pending<B>>,
    length: Length,
    /// The part of `length` that will be delayed.
    delayed: Length,
    /// Number of runs that are part of a group.
    in_groups: usize,
    /// The next number to be reserved.
    next: u64,
}

impl<B: PendingForm> PendingMessages<B> {
    /// An empty list; the first message gets the number `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self { runs: VecDeque::new(), length: Length::default(), delayed: Length::default(), in_groups: 0, next }
    }

    /// Reserves `count` numbers; returns the first.
    pub(crate) fn reserve(&mut self, count: u32) -> u64 {
        let first = self.next;
        self.next += u64::from(count);
        first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn length(&self) -> Length {
        self.length
    }

    /// The messages that will be delayed: no consumer waits for them.
    pub(crate) fn delayed(&self) -> Length {
        self.delayed
    }

    /// The messages that will be ready.
    pub(crate) fn undelayed(&self) -> Length {
        self.length - self.delayed
    }

    /// Time when the oldest messages were submitted.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.runs.front().map(|pending| pending.submitted)
    }

    /// The place that the last message waits for.
    pub(crate) fn last_place(&self) -> Option<&Awaited> {
        self.runs.back().map(|pending| &pending.place)
    }

    /// Whether any message is part of a group: later ones have to be durable, too.
    pub(crate) fn awaits_group(&self) -> bool {
        self.in_groups > 0
    }

    pub(crate) fn push(&mut self, pending: Pending<B>) {
        self.length.messages += u64::from(pending.count);
        self.length.bytes += pending.bytes;
        self.delayed = self.delayed + pending.delayed_length();
        self.in_groups += usize::from(matches!(pending.place, Awaited::Group(_)));
        self.runs.push_back(pending);
    }

    /// To be called before the first [`PendingMessages::pop_reached`]: a place for [`Bug::ApplyOutOfOrder`].
    pub(crate) fn begin(&mut self, reached: Watermarks) {
        if is_planted(Bug::ApplyOutOfOrder) {
            let count = self.runs.iter().take_while(|pending| pending.place.is_reached(reached)).count();
            self.runs.make_contiguous()[..count].reverse();
        }
    }

    /// Removes and returns the oldest messages, if their place is reached.
    pub(crate) fn pop_reached(&mut self, reached: Watermarks) -> Option<Pending<B>> {
        let pending = self.runs.pop_front_if(|pending| pending.place.is_reached(reached))?;
        self.length.messages -= u64::from(pending.count);
        self.length.bytes -= pending.bytes;
        self.delayed = self.delayed - pending.delayed_length();
        self.in_groups -= usize::from(matches!(pending.place, Awaited::Group(_)));
        Some(pending)
    }

    /// Body bytes of the first `count` messages that will be ready.
    pub(crate) fn bytes_of_first(&self, count: u64) -> u64 {
        let (mut left, mut bytes) = (count, 0);
        for pending in &self.runs {
            let some = pending.first_undelayed(left);
            bytes += some.bytes;
            left -= some.messages;
        }
        bytes
    }

    /// Withdraws all, because their stream lost its leadership before their place was reached: none of them becomes part of the
    /// queue. Returns their numbers, which are reused.
    pub(crate) fn withdraw(&mut self) -> Range<u64> {
        let first = self.runs.front().map_or(self.next, |pending| pending.first);
        let end = std::mem::replace(&mut self.next, first);
        self.clear();
        first..end
    }

    /// Drops all, because the queue is deleted.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.in_groups = 0;
        (self.length, self.delayed) = (Length::default(), Length::default());
    }
}
