//! What a connection published that isn't durable yet: runs that nobody can see before they are applied.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_log::Position;

use crate::commit::Commit;
use crate::queue_handle::QueueRef;
use crate::settings::UNDURABLE_BYTES_MAX;

struct Unapplied {
    /// Of its first run.
    first: Position,
    /// Of its last run.
    position: Position,
    queue: QueueRef,
    bytes: u64,
}

/// See the module. Positions never go back, so a queue of runs is enough.
#[derive(Default)]
pub(crate) struct Undurable {
    runs: VecDeque<Unapplied>,
    bytes: u64,
}

impl Undurable {
    /// A run of this connection went to `queue` at `position`, with this many bytes of memory.
    pub(crate) fn note(&mut self, position: Position, queue: &QueueRef, bytes: u64) {
        self.bytes += bytes;
        match self.runs.back_mut() {
            Some(last) if Arc::ptr_eq(&last.queue, queue) && last.position + 64 > position && last.bytes < 4096 => {
                // Few small runs of the same queue: the first is answered with the last.
                last.position = position;
                last.bytes += bytes;
            }
            _ => self.runs.push_back(Unapplied { first: position, position, queue: queue.clone(), bytes }),
        }
    }

    /// Applies whatever became durable.
    pub(crate) fn apply(&mut self, durable: Position) {
        let mut applied: Option<QueueRef> = None;
        while let Some(unapplied) = self.runs.pop_front_if(|first| first.position <= durable) {
            self.bytes -= unapplied.bytes;
            if !applied.as_ref().is_some_and(|last| Arc::ptr_eq(last, &unapplied.queue)) {
                unapplied.queue.apply();
                applied = Some(unapplied.queue);
            }
        }
        // Nothing is confirmed before it is in its queue, also when later runs of the entry aren't durable.
        if let Some(unapplied) = self.runs.front().filter(|unapplied| unapplied.first <= durable) {
            unapplied.queue.apply();
        }
    }

    /// What the oldest entry waits for.
    pub(crate) fn next_position(&self) -> Option<Position> {
        self.runs.front().map(|first| first.position)
    }

    /// True while the connection has enough on its way to the disk.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > UNDURABLE_BYTES_MAX
    }

    /// The connection is gone: what isn't durable yet still has to be applied by somebody.
    pub(crate) fn hand_over(&mut self, commit: &Commit) {
        for unapplied in self.runs.drain(..) {
            commit.apply_later(unapplied.position, unapplied.queue);
        }
    }
}
