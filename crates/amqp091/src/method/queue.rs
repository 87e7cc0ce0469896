//! Class 50: queues.

use super::fields::method;
use crate::{ShortStr, Table};

method! {
    /// Creates a queue, or checks that it exists.
    Declare['a] = 50, 10, "queue.declare" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; if empty, the server chooses one.
        queue: ShortStr<'a>,
        ; bits
        /// Only check that it exists.
        passive = 1,
        /// It survives a restart.
        durable = 2,
        /// Only this connection may use it, and it is deleted with the connection.
        exclusive = 4,
        /// It is deleted with its last consumer.
        auto_delete = 8,
        /// Don't answer.
        nowait = 16,
        ; then
        /// Arguments such as `x-queue-type`.
        arguments: Table<'a>,
    }
}

method! {
    /// The queue exists.
    DeclareOk['a] = 50, 11, "queue.declare-ok" {
        /// Its name.
        queue: ShortStr<'a>,
        /// Messages that are ready.
        message_count: u32,
        /// Number of consumers.
        consumer_count: u32,
    }
}

method! {
    /// Binds a queue to an exchange.
    Bind['a] = 50, 20, "queue.bind" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; empty for the last one declared on the channel.
        queue: ShortStr<'a>,
        /// Name of the exchange.
        exchange: ShortStr<'a>,
        /// Routing or binding key.
        routing_key: ShortStr<'a>,
        ; bits
        /// Don't answer.
        nowait = 1,
        ; then
        /// Arguments of the binding.
        arguments: Table<'a>,
    }
}

method! {
    /// The binding exists.
    BindOk = 50, 21, "queue.bind-ok" {}
}

method! {
    /// Removes a binding.
    Unbind['a] = 50, 50, "queue.unbind" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; empty for the last one declared on the channel.
        queue: ShortStr<'a>,
        /// Name of the exchange.
        exchange: ShortStr<'a>,
        /// Routing or binding key.
        routing_key: ShortStr<'a>,
        /// Arguments of the binding.
        arguments: Table<'a>,
    }
}

method! {
    /// The binding is gone.
    UnbindOk = 50, 51, "queue.unbind-ok" {}
}

method! {
    /// Removes all ready messages.
    Purge['a] = 50, 30, "queue.purge" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; empty for the last one declared on the channel.
        queue: ShortStr<'a>,
        ; bits
        /// Don't answer.
        nowait = 1,
    }
}

method! {
    /// The messages are gone.
    PurgeOk = 50, 31, "queue.purge-ok" {
        /// Number of messages removed.
        message_count: u32,
    }
}

method! {
    /// Deletes a queue.
    Delete['a] = 50, 40, "queue.delete" {
        /// Obsolete.
        ticket: u16,
        /// Name of the queue; empty for the last one declared on the channel.
        queue: ShortStr<'a>,
        ; bits
        /// Only if it has no consumers.
        if_unused = 1,
        /// Only if it has no messages.
        if_empty = 2,
        /// Don't answer.
        nowait = 4,
    }
}

method! {
    /// The queue is gone.
    DeleteOk = 50, 41, "queue.delete-ok" {
        /// Number of messages deleted with it.
        message_count: u32,
    }
}
