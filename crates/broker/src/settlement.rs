//! A consumer's decision on messages that it got.

/// A consumer's decision on messages that it got, in any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// They leave their queue.
    Acknowledge,
    /// They can't be processed: they leave their queue, for its dead-letter exchange if it has one.
    Reject {
        /// Whether the delivery counts as failed, as a dead letter's delivery-count shows. RabbitMQ 4.3 counts `basic.reject`,
        /// `rejected`, and `modified` with `delivery-failed`, but not `basic.nack`.
        failed: bool,
    },
    /// They return to their places.
    Requeue {
        /// Whether the delivery counts as failed, as AMQP 1.0's delivery-count shows (3.2.1). RabbitMQ 4.3 counts
        /// `basic.reject` and the end of a channel as failed, but not `basic.nack` and `basic.recover`.
        failed: bool,
    },
}
