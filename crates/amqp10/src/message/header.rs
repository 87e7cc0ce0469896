use crate::composite::{Composite, composite};

/// The priority of a message without one (3.2.1).
pub const DEFAULT_PRIORITY: u8 = 4;

composite! {
    /// The fields for intermediaries (3.2.1).
    ///
    /// Durability and priority are options although the specification has defaults (false and 4), because RabbitMQ
    /// distinguishes an absent value from the default.
    Header = HEADER, "header" {
        /// Whether the message survives a restart of its node.
        durable "durable": optional bool,
        /// Priority, from 0; the default is 4.
        priority "priority": optional u8,
        /// Time to live, in milliseconds.
        ttl "ttl": optional u32,
        /// Whether no receiver has acquired it before.
        first_acquirer "first-acquirer": default bool = false,
        /// Number of failed attempts before this one.
        delivery_count "delivery-count": default u32 = 0,
    }
}

impl Header {
    /// Appends the section.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write_described(out);
    }
}
