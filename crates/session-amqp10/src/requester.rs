//! A link on which a requester of direct reply-to receives answers.

use std::sync::Arc;

use leveret_amqp10::Serial;
use leveret_queue::CreditState;

use super::link_state::INITIAL_DELIVERY_COUNT;
use leveret_broker::reply_to::{Registration, ReplyTarget};

/// The sending endpoint of a requester's link.
pub(crate) struct Replies {
    registration: Registration,
    delivery_count: Serial,
    credit: u32,
    max_message_size: u64,
    next_tag: u32,
}

impl Replies {
    /// A link without credit.
    pub(crate) fn new(registration: Registration, max_message_size: u64) -> Self {
        Self { registration, delivery_count: INITIAL_DELIVERY_COUNT, credit: 0, max_message_size, next_tag: 0 }
    }

    /// The target that the answers are sent to.
    pub(crate) fn target(&self) -> &Arc<ReplyTarget> {
        self.registration.target()
    }

    /// Whether an answer may be sent.
    pub(crate) fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// Whether the client takes a message of this many bytes.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        self.max_message_size == 0 || bytes as u64 <= self.max_message_size
    }

    /// Uses up one credit; returns the delivery's tag.
    pub(crate) fn send(&mut self) -> [u8; 4] {
        self.credit -= 1;
        self.delivery_count.advance();
        let tag = self.next_tag.to_be_bytes();
        self.next_tag = self.next_tag.wrapping_add(1);
        tag
    }

    /// Handles the client's flow (2.6.7). No message is ever available, so a drain uses up the credit at once.
    pub(crate) fn grant(&mut self, seen: u32, link_credit: u32, drain: bool) -> CreditState {
        // Messages sent since the client's flow count against it; the credit may be more than half of the number space.
        let ahead = self.delivery_count.distance_from(Serial(seen));
        self.credit = match u32::try_from(ahead) {
            Ok(sent) => link_credit.saturating_sub(sent),
            Err(_) => link_credit.saturating_add(ahead.unsigned_abs()),
        };
        if drain {
            self.delivery_count = self.delivery_count.add(self.credit);
            self.credit = 0;
        }
        CreditState { delivery_count: self.delivery_count.0, credit: self.credit, available: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use leveret_broker::outbox::Outbox;
    use leveret_broker::reply_to::ReplyTargets;

    struct Nobody;

    impl leveret_broker::Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn credit_may_be_more_than_half_of_the_numbers() {
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        let registration =
            Arc::new(ReplyTargets::new(Arc::new(leveret_broker::names::Names::new([1; 16])))).register(outbox, 1);
        let delivery_count = Serial(5);
        let mut replies = Replies { registration, delivery_count, credit: 0, max_message_size: 0, next_tag: 0 };
        assert_eq!(replies.grant(5, u32::MAX, false).credit, u32::MAX);
        assert_eq!(replies.grant(3, u32::MAX, false).credit, u32::MAX - 2);
        assert_eq!(replies.grant(3, 1, false).credit, 0);
        assert_eq!(replies.grant(u32::MAX, 10, false).credit, 4);
        let drained = replies.grant(5, 7, true);
        assert_eq!((drained.delivery_count, drained.credit), (12, 0));
    }
}
