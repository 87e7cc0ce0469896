//! Messages of a stream that an operator copies to other queues.

use std::ops::RangeInclusive;

use crate::answers::{Candidates, QueueState, ReadyFound};
use crate::effects::Taken;
use crate::nanos::Nanos;
use crate::records::AttemptCounts;
use crate::stream::StreamQueue;

impl StreamQueue {
    /// See [`crate::Queue::ready_ends`].
    pub fn ready_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64, u64)> {
        if self.state != QueueState::Running {
            return None;
        }
        let (first, next) = self.offsets();
        let (lowest, highest) = (first.max(*range.start()), next.checked_sub(1)?.min(*range.end()));
        (lowest <= highest).then(|| (lowest, highest, highest - lowest + 1))
    }

    /// See [`crate::Queue::find_ready`].
    pub fn find_ready(&self, among: &Candidates<'_>, _now: Nanos) -> ReadyFound {
        let Candidates { read, range, most } = among;
        let mut found = ReadyFound::default();
        for (first, batch) in *read {
            for (number, index) in (*first..).zip(0..batch.len() as u32).filter(|(number, _)| range.contains(number)) {
                if found.messages.len() == *most {
                    found.next = Some(number);
                    return found;
                }
                found.messages.push(Taken {
                    batch: batch.clone(),
                    index,
                    count: 1,
                    first: number,
                    redelivered: false,
                    attempts: AttemptCounts::default(),
                    durable: true,
                });
            }
        }
        found
    }
}
