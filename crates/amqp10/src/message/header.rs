use crate::composite::{Composite, composite};

/// The priority of a message that has none (3.2.1).
pub const DEFAULT_PRIORITY: u8 = 4;

composite! {
    /// What intermediaries look at (3.2.1).
    ///
    /// Durability and priority are options although the specification has defaults (false and 4): RabbitMQ tells
    /// absent from default.
    Header = HEADER, "header" {
        /// Whether the message survives its node's end.
        durable "durable": optional bool,
        /// From 0; 4 is the default.
        priority "priority": optional u8,
        /// Milliseconds that it lives.
        ttl "ttl": optional u32,
        /// Whether no other receiver has acquired it before.
        first_acquirer "first-acquirer": default bool = false,
        /// Failed attempts before this one.
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
