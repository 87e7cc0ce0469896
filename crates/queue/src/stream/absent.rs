//! Calls that a stream has no use for. Sessions refuse those that a client could ask for; here they change nothing.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_message::{Added, BatchPart};

use crate::answers::{Candidates, GetOutcome, ParkedMessage, Peeked, ReadyFound, Rejection, SetAside};
use crate::consumer_id::ConsumerId;
use crate::dead_letter::{DeadRun, DeadTurn};
use crate::dispatch::Deliveries;
use crate::effects::{Effects, Link};
use crate::nanos::Nanos;
use crate::publishers::PublishSlot;
use crate::records::{AttemptRun, Run};
use crate::stream::StreamQueue;

impl StreamQueue {
    /// Publishes are never paced: readers go their own ways.
    pub fn arrived(&mut self, _count: u32, _now: Nanos) {}

    /// See [`StreamQueue::arrived`].
    pub fn slot(&mut self, _count: u32, _now: Nanos) -> PublishSlot {
        PublishSlot::default()
    }

    /// Its messages are always logged.
    pub fn spills_volatile(&self) -> bool {
        true
    }

    /// A reader that is behind holds up nobody.
    pub fn is_behind(&self) -> bool {
        false
    }

    /// It has no limit that refuses messages.
    pub fn acceptable(&self, part: BatchPart<'_>) -> u32 {
        part.count
    }

    /// Sessions refuse a get.
    pub fn get(
        &mut self,
        _automatic_ack: bool,
        _link: &Arc<dyn Link>,
        _key: u64,
        _now: Nanos,
        _effects: &mut Effects,
    ) -> GetOutcome {
        GetOutcome::Empty
    }

    /// A rejected message stays, as every other.
    pub fn reject(
        &mut self,
        _deliveries: Deliveries<'_>,
        _failed: bool,
        _now: Nanos,
        _effects: &mut Effects,
    ) -> Rejection {
        Rejection::NoDeadLetters
    }

    /// It has no deferred messages.
    pub fn claim(&mut self, _id: ConsumerId, _tokens: &[Box<str>], _effects: &mut Effects) {}

    /// Its messages never change.
    pub fn annotate(&mut self, _runs: &[Run], _added: &Arc<Added>, _effects: &mut Effects) {}

    /// Sessions refuse a purge.
    pub fn purge(&mut self, _now: Nanos, _effects: &mut Effects) -> (u64, Vec<Run>) {
        (0, Vec::new())
    }

    /// It has no time without use after which it is deleted.
    pub fn used(&mut self, _now: Nanos) {}

    /// It has no dead letters.
    pub fn dead_turn(&mut self, _effects: &mut Effects) -> DeadTurn {
        DeadTurn::Nothing
    }

    /// See [`StreamQueue::dead_turn`].
    pub fn dead_turn_is(&mut self, _runs: &[DeadRun]) {}

    /// See [`StreamQueue::dead_turn`].
    pub fn moved(&mut self, _dropped: u64, _effects: &mut Effects) -> Vec<Run> {
        Vec::new()
    }

    /// See [`StreamQueue::dead_turn`].
    pub fn dead_stay(&mut self) {}

    /// See [`StreamQueue::dead_turn`].
    pub fn dead_blocked(&mut self, _now: Nanos, _effects: &mut Effects) -> bool {
        false
    }

    /// See [`StreamQueue::dead_turn`].
    pub fn dead_letters(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Any message may be delivered again, so that none needs a flag.
    pub fn delivered_below(&self) -> u64 {
        0
    }

    /// Its deliveries aren't counted.
    pub fn logged_attempts(&self) -> Vec<AttemptRun> {
        Vec::new()
    }

    /// It sets no messages aside.
    pub fn drop_set_aside(&mut self, _which: SetAside, _first: u64, _last: u64, _effects: &mut Effects) -> Vec<Run> {
        Vec::new()
    }

    /// See [`StreamQueue::drop_set_aside`].
    pub fn peek_set_aside(&self, _which: SetAside, _offset: u64, _count: usize) -> Vec<Peeked> {
        Vec::new()
    }

    /// See [`StreamQueue::drop_set_aside`].
    pub fn parked_ends(&self, _range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        None
    }

    /// See [`StreamQueue::drop_set_aside`].
    pub fn claim_parked(&mut self, _among: &Candidates<'_>) -> Vec<ParkedMessage> {
        Vec::new()
    }

    /// See [`StreamQueue::drop_set_aside`].
    pub fn parked_moved(&mut self, _moved: &[u64]) -> Vec<Run> {
        Vec::new()
    }

    /// Its messages never leave for other queues.
    pub fn claim_ready(&mut self, _among: &Candidates<'_>, _now: Nanos, _effects: &mut Effects) -> ReadyFound {
        ReadyFound::default()
    }

    /// See [`StreamQueue::claim_ready`].
    pub fn unclaim_ready(&mut self, _runs: &[Run], _effects: &mut Effects) {}

    /// See [`StreamQueue::claim_ready`].
    pub fn ready_moved(&mut self, _runs: &[Run]) -> bool {
        false
    }

    /// See [`StreamQueue::drop_set_aside`].
    pub fn set_aside(&self, _which: SetAside) -> (u64, u64) {
        (0, 0)
    }
}
