//! A link on which the client receives from a queue.

use std::sync::Arc;

use leveret_amqp10::Serial;
use leveret_queue::{ConsumerId, CreditState, Taken, Unsent};

use super::link_state::INITIAL_DELIVERY_COUNT;
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

/// Properties of a consumer's link that stay the same.
pub(crate) struct ConsumerTerms {
    /// The link's name.
    pub name: Arc<str>,
    /// The address of its source, as the client sent it.
    pub address: Arc<str>,
    pub queue: QueueRef,
    pub id: ConsumerId,
    /// Deliveries are sent settled.
    pub settled: bool,
    /// Messages are copied, not taken (distribution mode copy).
    pub browses: bool,
    /// A filter decides which messages are sent.
    pub filters: bool,
    /// The largest message in bytes that the client takes; 0 for no limit.
    pub max_message_size: u64,
    /// The time for which its receiver may leave deliveries unsettled; `None` if it can't hold any for itself.
    pub timeout: Option<ConsumerTimeout>,
    /// That time as its receiver asked for it, in milliseconds.
    pub own_timeout_ms: Option<u64>,
    /// The queue is deleted with the link.
    pub dynamic: bool,
}

/// The sending endpoint of a consumer's link.
pub(crate) struct Consumer {
    terms: ConsumerTerms,
    delivered: Delivered,
    /// The tag of the next delivery; unique among unsettled ones.
    next_tag: u32,
    /// The link's delivery-count: messages that were taken, and credit that was used up by drains.
    delivery_count: Serial,
    /// The delivery-count up to which its receiver has granted credit.
    limit: Serial,
    activity: Activity,
    /// Number of deliveries that were taken back and that its receiver hasn't settled yet.
    overdue: u64,
    /// The log has a warning about its deliveries before this one, as [`Unsettled`] counts them.
    warned_to: u64,
    /// The log lines about them.
    lines: OverdueLines,
}

impl Consumer {
    /// A consumer that has no credit and was sent nothing.
    pub(crate) fn new(terms: ConsumerTerms) -> Self {
        Self {
            terms,
            delivered: Delivered::default(),
            next_tag: 0,
            delivery_count: INITIAL_DELIVERY_COUNT,
            limit: INITIAL_DELIVERY_COUNT,
            activity: Activity::default(),
            overdue: 0,
            warned_to: 0,
            lines: OverdueLines::default(),
        }
    }

    #[inline]
    pub(crate) fn terms(&self) -> &ConsumerTerms {
        &self.terms
    }

    #[inline]
    pub(crate) fn queue(&self) -> &QueueRef {
        &self.terms.queue
    }

    #[inline]
    pub(crate) fn id(&self) -> ConsumerId {
        self.terms.id
    }

    /// The key of the link in its queue's signals.
    pub(crate) fn key(&self) -> u64 {
        self.terms.id.0
    }

    /// Deliveries are sent settled.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.terms.settled
    }

    /// Messages are copied, not taken.
    pub(crate) fn browses(&self) -> bool {
        self.terms.browses
    }

    /// The size in bytes above which the client takes no message, if a message of this size is above it.
    #[inline]
    pub(crate) fn refuses_size(&self, size: u64) -> Option<u64> {
        let most = self.terms.max_message_size;
        (most > 0 && size > most).then_some(most)
    }

    /// The time for which its receiver may leave deliveries unsettled.
    pub(crate) fn timeout(&self) -> Option<ConsumerTimeout> {
        self.terms.timeout
    }

    /// Its deliveries among all of its session.
    pub(crate) fn delivered_mut(&mut self) -> &mut Delivered {
        &mut self.delivered
    }

    /// The tag of the next delivery.
    #[inline]
    pub(crate) fn next_tag(&self) -> [u8; 4] {
        self.next_tag.to_be_bytes()
    }

    /// The next delivery is sent with its tag.
    #[inline]
    pub(crate) fn use_tag(&mut self) {
        self.next_tag = self.next_tag.wrapping_add(1);
    }

    /// Notes messages that were taken from its queue.
    #[inline]
    pub(crate) fn took(&mut self, taken: &[Taken]) {
        self.delivery_count = taken.iter().fold(self.delivery_count, |count, run| count.add(run.count));
    }

    /// See [`Activity::served`].
    #[inline]
    pub(crate) fn served(&mut self) -> bool {
        self.activity.served()
    }

    /// See [`Activity::changed`].
    pub(crate) fn activity_changed(&mut self, active: bool, change: u32) -> bool {
        self.activity.changed(active, change)
    }

    /// Notes deliveries that its queue takes back from its receiver.
    pub(crate) fn takes_back(&mut self, count: u64) {
        self.overdue += count;
    }

    /// Its receiver settled deliveries that were taken back. Returns whether it has none of these any more.
    pub(crate) fn settled_late(&mut self, count: u64) -> bool {
        self.overdue = self.overdue.saturating_sub(count);
        self.overdue == 0
    }

    /// Whether the log gets a warning about late deliveries, of which these are the first and the last one.
    pub(crate) fn warns_of(&mut self, (first, last): (u64, u64)) -> bool {
        let is_new = first >= self.warned_to;
        if is_new {
            self.warned_to = last + 1;
        }
        is_new
    }

    /// The log lines about late deliveries, and the properties that they have.
    pub(crate) fn overdue_lines(&mut self) -> (&ConsumerTerms, &mut OverdueLines) {
        (&self.terms, &mut self.lines)
    }

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
        if let Some(timeout) = self.terms.timeout.filter(|_| added > 0) {
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
