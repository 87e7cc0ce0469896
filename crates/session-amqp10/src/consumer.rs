//! A link on which the client receives from a queue.

use std::sync::Arc;

use leveret_amqp10::Serial;
use leveret_queue::{ConsumerId, CreditState, Unsent};

use super::unsettled::{Delivered, Unsettled};
use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::log_lines::overdue::OverdueLines;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Nanos;
use leveret_session::overdue::Looks;

/// Whether a consumer is active in its queue, as its receiver was told.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    told: Option<bool>,
    /// Number of the latest change that the queue signalled.
    change: u32,
}

impl Activity {
    /// The queue signalled a change. Returns whether the receiver has to be told.
    pub(crate) fn changed(&mut self, active: bool, change: u32) -> bool {
        // Signals may overtake each other: the highest number is the latest.
        let is_latest = change.wrapping_sub(self.change).cast_signed() > 0;
        if is_latest {
            self.change = change;
        }
        is_latest && self.told.replace(active) != Some(active)
    }

    /// The queue gave messages, and so the consumer is active. Returns whether the receiver has to be told before it gets
    /// them: the signal that says so may still be waiting to be handled.
    pub(crate) fn served(&mut self) -> bool {
        self.told == Some(false) && self.told.replace(true).is_some()
    }
}

/// The sending endpoint of a consumer's link.
pub(crate) struct Consumer {
    /// The link's name.
    pub name: Arc<str>,
    /// The address of its source, as the client sent it.
    pub address: Arc<str>,
    pub queue: QueueRef,
    pub id: ConsumerId,
    /// The key of the link in its queue's signals.
    pub key: u64,
    /// Deliveries are sent settled.
    pub settled: bool,
    /// Messages are copied, not taken (distribution mode copy).
    pub browses: bool,
    /// A filter decides which messages are sent.
    pub filters: bool,
    /// The largest message in bytes that the client takes; 0 for no limit.
    pub max_message_size: u64,
    pub delivered: Delivered,
    /// The tag of the next delivery; unique among unsettled ones.
    pub next_tag: u32,
    /// The link's delivery-count: messages that were taken, and credit that was used up by drains.
    pub delivery_count: Serial,
    /// The delivery-count up to which its receiver has granted credit.
    pub limit: Serial,
    pub activity: Activity,
    /// The time for which its receiver may leave deliveries unsettled; `None` if it can't hold any for itself.
    pub timeout: Option<ConsumerTimeout>,
    /// That time as its receiver asked for it, in milliseconds.
    pub own_timeout_ms: Option<u64>,
    /// Number of deliveries that were taken back and that its receiver hasn't settled yet.
    pub overdue: u64,
    /// The log has a warning about its deliveries before this one, as [`Unsettled`] counts them.
    pub warned_to: u64,
    /// The log lines about them.
    pub lines: OverdueLines,
    /// The queue was notified that the socket isn't keeping up.
    pub starved: bool,
    /// The queue is deleted with the link.
    pub dynamic: bool,
}

impl Consumer {
    /// Notes a grant of its receiver: `credit` messages from the delivery-count `seen` on (2.6.7).
    pub(crate) fn granted(&mut self, seen: u32, credit: u32) {
        self.limit = Serial(seen).add(credit);
    }

    /// Notes that `added` deliveries are sent now in a session with this channel.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        added: usize,
        unsettled: &mut Unsettled,
        (channel, node_ms): (u16, u64),
        now: Nanos,
        looks: &mut Looks,
    ) {
        self.delivered.note(added, unsettled);
        if let Some(timeout) = self.timeout.filter(|_| added > 0) {
            unsettled.watch(timeout.nanos(node_ms), now, channel, looks);
        }
    }

    /// Notes that a drain used up the credit up to this delivery-count. Its receiver may have granted more since.
    pub(crate) fn drained(&mut self, delivery_count: u32) {
        if Serial(delivery_count).distance_from(self.delivery_count) > 0 {
            self.delivery_count = Serial(delivery_count);
        }
    }

    /// Notes that the last `count` messages that were taken aren't sent.
    pub(crate) fn not_sent(&mut self, count: u32) -> Unsent {
        let counted = self.delivery_count.0;
        self.delivery_count = Serial(counted.wrapping_sub(count));
        let CreditState { delivery_count, credit, .. } = self.state(0);
        Unsent { counted, delivery_count, credit }
    }

    /// The state that its queue answered with, as it is after the messages that were taken meanwhile: a flow mustn't count fewer
    /// deliveries than were sent before it (2.6.7).
    pub(crate) fn since(&self, state: CreditState) -> CreditState {
        after(self.delivery_count, state)
    }

    /// The state of its link after all messages that were taken.
    pub(crate) fn state(&self, available: u32) -> CreditState {
        CreditState {
            delivery_count: self.delivery_count.0,
            credit: self.limit.distance_from(self.delivery_count).max(0) as u32,
            available,
        }
    }
}

/// A state as it is at this delivery-count, if that is later.
fn after(delivery_count: Serial, state: CreditState) -> CreditState {
    let more = delivery_count.distance_from(Serial(state.delivery_count)).max(0) as u32;
    CreditState {
        delivery_count: state.delivery_count.wrapping_add(more),
        credit: state.credit.saturating_sub(more),
        available: state.available.saturating_sub(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_counts_what_was_taken_since() {
        let state = |delivery_count, credit, available| CreditState { delivery_count, credit, available };
        assert_eq!(after(Serial(7), state(6, 6, 3)), state(7, 5, 2));
        assert_eq!(after(Serial(6), state(6, 6, 3)), state(6, 6, 3));
        assert_eq!(after(Serial(2), state(u32::MAX, 1, 9)), state(2, 0, 6));
        // A drain used up what wasn't sent.
        assert_eq!(after(Serial(6), state(9, 0, 0)), state(9, 0, 0));
    }

    #[test]
    fn a_receiver_is_told_the_latest_change_and_no_state_twice() {
        let mut activity = Activity::default();
        assert!(activity.changed(true, 1));
        assert!(!activity.changed(true, 4), "it knows");
        assert!(!activity.changed(false, 3), "an earlier one came late");
        assert!(activity.changed(false, 5));
    }

    #[test]
    fn a_receiver_is_told_that_it_is_active_before_it_gets_messages() {
        let mut activity = Activity::default();
        assert!(!activity.served(), "it was never told otherwise");
        activity.changed(false, 1);
        assert!(activity.served());
        assert!(!activity.served());
        assert!(!activity.changed(true, 2), "it knows");
    }
}
