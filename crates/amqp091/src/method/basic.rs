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
        /// RabbitMQ: false for each later consumer, true for the channel as a whole.
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
        /// The consumer's tag; empty for one of the server's choice.
        consumer_tag: ShortStr<'a>,
        ; bits
        /// Obsolete.
        no_local = 1,
        /// Deliveries are settled as they are sent.
        no_ack = 2,
        /// No other consumer.
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
        /// See [`ReplyCode`](crate::ReplyCode).
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
        /// What to acknowledge it by, unique in the channel.
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
        /// The message is settled as it is sent.
        no_ack = 1,
    }
}

method! {
    /// Answers `basic.get` with the content that follows.
    GetOk['a] = 60, 71, "basic.get-ok" {
        /// What to acknowledge it by, unique in the channel.
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
        /// All up to this tag.
        multiple = 1,
    }
}

method! {
    /// Rejects one delivery.
    Reject = 60, 90, "basic.reject" {
        /// The tag.
        delivery_tag: u64,
        ; bits
        /// Put it back, else drop or dead-letter it.
        requeue = 1,
    }
}

method! {
    /// Requeues what is unacknowledged, without an answer (deprecated).
    RecoverAsync = 60, 100, "basic.recover-async" {
        ; bits
        /// False would mean to the same consumer.
        requeue = 1,
    }
}

method! {
    /// Requeues what is unacknowledged.
    Recover = 60, 110, "basic.recover" {
        ; bits
        /// False would mean to the same consumer.
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
        /// All up to this tag.
        multiple = 1,
        /// Put them back, else drop or dead-letter them.
        requeue = 2,
    }
}
