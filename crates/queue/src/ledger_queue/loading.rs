//! Reading messages back that are only on disk.

use std::sync::Arc;

use leveret_message::Batch;

use crate::answers::QueueState;
use crate::consumer_id::ConsumerId;
use crate::contents::{HeldBatch, READ_AHEAD_BYTES};
use crate::effects::Effects;
use crate::ledger_queue::LedgerQueue;
use crate::ledger_queue::ready::LaneKind;
use crate::nanos::Nanos;
use crate::reads::{StoredRead, WantedNumbers};

/// Most runs of messages that are looked at for one read: others of them may be in memory.
const LOOKED_AT_MAX: usize = 1024;

impl LedgerQueue {
    pub(super) fn read_ahead(&mut self, effects: &mut Effects) {
        if let Some(from) = self.contents.spilled_from
            && !self.reads.is_under_way()
            && self.contents.bytes() < READ_AHEAD_BYTES
            && self.ready.messages() > 0
        {
            let from = from.max(self.ready.cursor());
            let next = match self.ready.has_priorities() {
                false => Some(from),
                // The cursor may be where nothing is.
                true => self.ready_numbers().next_default(from),
            };
            if let Some(next) = next {
                self.reads.request(next, effects);
            }
        }
    }

    /// Asks for ready messages from `number` on, which aren't in memory. Those that came back, or came due, are asked for by their
    /// numbers: they may be anywhere in the log.
    pub(super) fn read_ready(&mut self, number: u64, effects: &mut Effects) {
        if !self.reads.request(number, effects) {
            return;
        }
        let mut wanted = WantedNumbers::default();
        for (first, last) in self.ready.returned_from(number).take(LOOKED_AT_MAX) {
            self.contents.absent(first, last).for_each(|(first, last)| wanted.push(first, last));
            if wanted.is_full() {
                break;
            }
        }
        let numbers = wanted.in_reading_order();
        if !numbers.is_empty() {
            effects.rare_mut().read_numbers = numbers;
        }
    }

    /// A read requested by [`Effects`] has finished.
    pub fn loaded(&mut self, read: StoredRead, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        match read {
            StoredRead::Delivery => self.ready_loaded(runs, now, effects),
            StoredRead::Own(id, from) => self.own_loaded((id, from), runs, now, effects),
            StoredRead::DeadLetters => self.dead_loaded(runs, effects),
        }
    }

    /// A read requested by [`crate::RareEffects::own_reads`] has finished: stored messages in ascending order, each run with
    /// consecutive numbers.
    fn own_loaded(
        &mut self,
        (id, from): (ConsumerId, u64),
        runs: Vec<(u64, Arc<Batch>)>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        let budget = self.contents.budget().clone();
        let Some(consumer) = self.consumers.find(id) else { return };
        let is_seeker = consumer.seeker.is_some();
        let is_claimed = consumer.claims.as_ref().is_some_and(|claims| claims.first() == Some(from));
        let Some(reads) = consumer.own_reads(from) else { return };
        if !reads.loaded(from, runs, &budget) {
            return;
        }
        let is_found = reads.find(from).is_some();
        consumer.changed = now;
        self.consumers.refresh(id);
        let is_there = is_claimed || is_seeker && self.ready_numbers().next(from) == Some(from);
        if is_there && !is_found && self.contents.find(from).is_none() {
            self.fail(format!("message {from} is not in its message store"), effects);
            return;
        }
        self.schedule(effects);
    }

    /// Takes over messages that were read, and drops messages that have left the queue meanwhile.
    fn ready_loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        let Some(from) = self.reads.finish() else { return };
        if self.state != QueueState::Running {
            return;
        }
        let mut reached = None;
        let lane = self.ready.lane_of(from);
        for (first, batch) in runs {
            let count = batch.len() as u64;
            reached = Some(first + count).filter(|_| lane == LaneKind::Default);
            self.insert_ready((first, count), &batch, lane, now);
        }
        let waited = self.reads.unblock();
        if self.ready_numbers().first() == Some(from) && self.contents.find(from).is_none() {
            self.fail(format!("message {from} is not in its message store"), effects);
            return;
        }
        if let (Some(reached), Some(spilled)) = (reached, self.contents.spilled_from)
            && reached > spilled
        {
            self.contents.spilled_from = self.ledger.live_run(reached).map(|_| reached);
        }
        if waited {
            self.changed = now;
        }
        self.reads.signal_getters(effects);
        self.schedule(effects);
        self.drop_excess(effects);
    }

    /// Inserts the ready ones of the messages that were read, in runs: those of this lane. Others would stay in memory for as long
    /// as messages of a higher priority are there.
    fn insert_ready(&mut self, (first, count): (u64, u64), batch: &Arc<Batch>, lane: LaneKind, now: Nanos) {
        let mut run: Option<u64> = None;
        for number in first..=first + count {
            let wanted = number < first + count
                && self.ledger.is_live(number)
                && self.ready_numbers().has(number)
                && self.ready.lane_of(number) == lane
                && self.contents.find(number).is_none();
            match (wanted, run) {
                (true, None) => run = Some(number),
                (false, Some(start)) => {
                    let index = (start - first) as u32;
                    let count = (number - start) as u32;
                    self.contents.insert(start, HeldBatch::new(batch.clone(), index, count, true, now));
                    run = None;
                }
                _ => {}
            }
        }
    }
}
