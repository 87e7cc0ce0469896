//! Class 60: publishing and consuming.

use super::fields::method;
use crate::{ShortStr, Table};

method! {
    /// Sets prefetch.
    Qos = 60, 10, "basic.qos" {
        /// Prefetch window in bytes, 0 for none.
        prefetch_size: u32,
        /// Prefetch window in messages, 0 for none.
        prefetch_count: u16,
        ; bits
        /// In RabbitMQ: false for each later consumer, true for the channel as a whole.
        global = 1,
    }
}

method! {
    /// Prefetch is set.
    QosOk = 60, 11, "basic.qos-ok" {}
}

method! {
    /// Starts a consumer.
    Consume['a] = 60, 20, "basic.consume" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; empty for the last one declared on the channel.
        queue: ShortStr<'a>,
        /// The consumer's tag; if empty, the server chooses one.
        consumer_tag: ShortStr<'a>,
        ; bits
        /// Obsolete.
        no_local = 1,
        /// Deliveries count as acknowledged when they are sent.
        no_ack = 2,
        /// Allow no other consumer on the queue.
        exclusive = 4,
        /// Don't answer.
        nowait = 8,
        ; then
        /// Arguments such as `x-priority`.
        arguments: Table<'a>,
    }
}

method! {
    /// The consumer exists.
    ConsumeOk['a] = 60, 21, "basic.consume-ok" {
        /// Its tag.
        consumer_tag: ShortStr<'a>,
    }
}

method! {
    /// Ends a consumer; from either side.
    Cancel['a] = 60, 30, "basic.cancel" {
        /// Its tag.
        consumer_tag: ShortStr<'a>,
        ; bits
        /// Don't answer.
        nowait = 1,
    }
}

method! {
    /// The consumer is gone.
    CancelOk['a] = 60, 31, "basic.cancel-ok" {
        /// Its tag.
        consumer_tag: ShortStr<'a>,
    }
}

method! {
    /// Publishes the content that follows.
    Publish['a] = 60, 40, "basic.publish" {
        /// Obsolete.
        ticket: u16,
        /// Name of the exchange; empty for the default one.
        exchange: ShortStr<'a>,
        /// Routing key.
        routing_key: ShortStr<'a>,
        ; bits
        /// Return it if it matches no queue.
        mandatory = 1,
        /// Obsolete.
        immediate = 2,
    }
}

method! {
    /// Returns the content that follows to its publisher.
    Return['a] = 60, 50, "basic.return" {
        /// The code, see [`ReplyCode`](crate::ReplyCode).
        reply_code: u16,
        /// The reason as text.
        reply_text: ShortStr<'a>,
        /// The exchange it was published to.
        exchange: ShortStr<'a>,
        /// Its routing key.
        routing_key: ShortStr<'a>,
    }
}

method! {
    /// Delivers the content that follows to a consumer.
    Deliver['a] = 60, 60, "basic.deliver" {
        /// The consumer's tag.
        consumer_tag: ShortStr<'a>,
        /// The tag to acknowledge it with, unique in the channel.
        delivery_tag: u64,
        ; bits
        /// It may have been delivered before.
        redelivered = 1,
        ; then
        /// The exchange it was published to.
        exchange: ShortStr<'a>,
        /// Its routing key.
        routing_key: ShortStr<'a>,
    }
}

method! {
    /// Asks for one message.
    Get['a] = 60, 70, "basic.get" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; empty for the last one declared on the channel.
        queue: ShortStr<'a>,
        ; bits
        /// The message counts as acknowledged when it is sent.
        no_ack = 1,
    }
}

method! {
    /// Answers `basic.get` with the content that follows.
    GetOk['a] = 60, 71, "basic.get-ok" {
        /// The tag to acknowledge it with, unique in the channel.
        delivery_tag: u64,
        ; bits
        /// It may have been delivered before.
        redelivered = 1,
        ; then
        /// The exchange it was published to.
        exchange: ShortStr<'a>,
        /// Its routing key.
        routing_key: ShortStr<'a>,
        /// Messages left in the queue.
        message_count: u32,
    }
}

method! {
    /// Answers `basic.get`: the queue has no message ready.
    GetEmpty['a] = 60, 72, "basic.get-empty" {
        /// Obsolete.
        cluster_id: ShortStr<'a>,
    }
}

method! {
    /// Acknowledges deliveries, or confirms publishes.
    Ack = 60, 80, "basic.ack" {
        /// The tag; 0 with `multiple` means all.
        delivery_tag: u64,
        ; bits
        /// Applies to all deliveries up to this tag.
        multiple = 1,
    }
}

method! {
    /// Rejects one delivery.
    Reject = 60, 90, "basic.reject" {
        /// The tag.
        delivery_tag: u64,
        ; bits
        /// Requeue it; otherwise drop or dead-letter it.
        requeue = 1,
    }
}

method! {
    /// Requeues all unacknowledged deliveries without an answer (deprecated).
    RecoverAsync = 60, 100, "basic.recover-async" {
        ; bits
        /// False asks for redelivery to the same consumer.
        requeue = 1,
    }
}

method! {
    /// Requeues all unacknowledged deliveries.
    Recover = 60, 110, "basic.recover" {
        ; bits
        /// False asks for redelivery to the same consumer.
        requeue = 1,
    }
}

method! {
    /// Unacknowledged deliveries were requeued.
    RecoverOk = 60, 111, "basic.recover-ok" {}
}

method! {
    /// Rejects deliveries, or refuses publishes (RabbitMQ's extension).
    Nack = 60, 120, "basic.nack" {
        /// The tag; 0 with `multiple` means all.
        delivery_tag: u64,
        ; bits
        /// Applies to all deliveries up to this tag.
        multiple = 1,
        /// Requeue them; otherwise drop or dead-letter them.
        requeue = 2,
    }
}
