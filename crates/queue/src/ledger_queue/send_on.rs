//! Parked messages that an operator moves on: they are claimed first, so that nothing else removes them before their targets
//! have them.

use std::ops::RangeInclusive;

use crate::answers::{Candidates, ParkedMessage, QueueState};
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::records::Run;

impl LedgerQueue {
    /// The lowest and the highest number of parked messages among these.
    pub fn parked_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        self.parked.ends(range)
    }

    /// Claims at most `most` parked messages with numbers in `range` out of those that were read, runs of messages by the number
    /// of their first. Until the caller calls [`crate::LedgerQueue::parked_moved`], which it has to, nothing else removes them.
    pub fn claim_parked(&mut self, among: &Candidates<'_>) -> Vec<ParkedMessage> {
        let mut claimed = Vec::new();
        if self.is_closed || self.state != QueueState::Running {
            return claimed;
        }
        for (first, batch) in among.read {
            for (number, index) in (*first..).zip(0..batch.len() as u32) {
                if claimed.len() == among.most {
                    return claimed;
                }
                if among.range.contains(&number) && self.parked.claim(number) {
                    let (batch, index) = match self.with_annotations(number, 1, batch, index) {
                        Ok(annotated) => (annotated, 0),
                        Err(_) => (batch.clone(), index),
                    };
                    claimed.push(ParkedMessage { number, batch, index });
                }
            }
        }
        claimed
    }

    /// Ends the claim: the messages with these numbers, in ascending order, have left for other queues or other places of this
    /// one, and the others stay parked. Returns the runs that left, which have to be logged.
    pub fn parked_moved(&mut self, moved: &[u64]) -> Vec<Run> {
        if self.state == QueueState::Deleted {
            return Vec::new();
        }
        let runs = self.parked.end_moves(moved);
        self.depart_all(&runs, Departure::Settled);
        runs
    }
}
