//! Class 40: exchanges.

use super::fields::method;
use crate::{ShortStr, Table};

method! {
    /// Creates an exchange, or checks that it exists.
    Declare['a] = 40, 10, "exchange.declare" {
        /// Obsolete.
        ticket: u16,
        /// Name of the exchange.
        exchange: ShortStr<'a>,
        /// `direct`, `fanout`, `topic`, `headers` ...
        kind: ShortStr<'a>,
        ; bits
        /// Only check that it exists.
        passive = 1,
        /// It survives a restart.
        durable = 2,
        /// It is deleted with its last binding.
        auto_delete = 4,
        /// Only other exchanges may publish to it.
        internal = 8,
        /// Don't answer.
        nowait = 16,
        ; then
        /// Arguments such as `alternate-exchange`.
        arguments: Table<'a>,
    }
}

method! {
    /// The exchange exists.
    DeclareOk = 40, 11, "exchange.declare-ok" {}
}

method! {
    /// Deletes an exchange.
    Delete['a] = 40, 20, "exchange.delete" {
        /// Obsolete.
        ticket: u16,
        /// Name of the exchange.
        exchange: ShortStr<'a>,
        ; bits
        /// Only if it has no bindings.
        if_unused = 1,
        /// Don't answer.
        nowait = 2,
    }
}

method! {
    /// The exchange is gone.
    DeleteOk = 40, 21, "exchange.delete-ok" {}
}

method! {
    /// Binds an exchange to another (RabbitMQ's extension).
    Bind['a] = 40, 30, "exchange.bind" {
        /// Obsolete.
        ticket: u16,
        /// The destination exchange.
        destination: ShortStr<'a>,
        /// The source exchange.
        source: ShortStr<'a>,
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
    BindOk = 40, 31, "exchange.bind-ok" {}
}

method! {
    /// Removes a binding between exchanges (RabbitMQ's extension).
    Unbind['a] = 40, 40, "exchange.unbind" {
        /// Obsolete.
        ticket: u16,
        /// The destination exchange.
        destination: ShortStr<'a>,
        /// The source exchange.
        source: ShortStr<'a>,
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
    /// The binding is gone. The method id is 51, not 41, in RabbitMQ's definition since its first release.
    UnbindOk = 40, 51, "exchange.unbind-ok" {}
}
