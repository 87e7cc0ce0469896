//! Rejections, each with an answer of its own: the dead letters of a queue may wait for as long as their target is full.

use std::collections::{BTreeMap, VecDeque};

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::ticket::Awaited;
use leveret_broker::wait_for::{Reached, WaitFor};
use leveret_model::QueueId;

/// The rejections that aren't answered, by queue. Messages of a queue are dead-lettered in the order in which they died, so only the first one
/// of each queue can be over.
#[derive(Default)]
pub(super) struct Rejections(BTreeMap<QueueId, (QueueRef, VecDeque<(u64, WaitFor)>)>);

impl Rejections {
    pub(super) fn push(&mut self, queue: &QueueRef, number: u64, wait: WaitFor) {
        let waiting = self.0.entry(queue.info().id).or_insert_with(|| (queue.clone(), VecDeque::new()));
        if !waiting.0.is_same(queue) {
            // Of an earlier leadership: whoever rejected says it again.
            *waiting = (queue.clone(), VecDeque::new());
        }
        waiting.1.push_back((number, wait));
    }

    /// The places that they wait for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.0.values().filter_map(|(_, waiting)| waiting.front()?.1.first_awaited())
    }

    /// Takes out those that are over, with whether their messages have left for good. A queue that has failed moves none.
    pub(super) fn take_over(&mut self, reached: &impl Reached) -> Vec<(u64, bool)> {
        let mut over = Vec::new();
        self.0.retain(|_, (queue, waiting)| {
            while let Some((number, wait)) = waiting.front() {
                let end = wait.end(reached).map(|end| end.is_reached()).or_else(|| queue.has_failed().then_some(false));
                let Some(is_done) = end else { break };
                over.push((*number, is_done));
                waiting.pop_front();
            }
            !waiting.is_empty()
        });
        over
    }
}
