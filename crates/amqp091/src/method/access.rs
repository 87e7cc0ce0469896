//! Class 30: access tickets, obsolete since 0-9-1, answered for the sake of old clients.

use super::fields::method;
use crate::ShortStr;

method! {
    /// Asks for a ticket.
    Request['a] = 30, 10, "access.request" {
        /// Name of the realm.
        realm: ShortStr<'a>,
        ; bits
        /// Ask for exclusive access.
        exclusive = 1,
        /// Ask for passive access.
        passive = 2,
        /// Ask for active access.
        active = 4,
        /// Ask for write access.
        write = 8,
        /// Ask for read access.
        read = 16,
    }
}

method! {
    /// Grants a ticket.
    RequestOk = 30, 11, "access.request-ok" {
        /// The ticket.
        ticket: u16,
    }
}
