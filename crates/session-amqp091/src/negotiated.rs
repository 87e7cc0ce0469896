//! The client's properties and capabilities (specification 1.4), and the size of frames.

use leveret_amqp091::{FieldTable, FieldValue, HEADER_OVERHEAD, Table};

/// Facts that a connection and its client have agreed on.
pub(crate) struct Negotiated {
    /// The part of the client's properties that is kept for listings, bounded in size.
    properties: FieldTable,
    knows_cancel: bool,
    knows_blocked: bool,
    frame_max: u32,
}

impl Negotiated {
    /// Before `connection.tune-ok`, frames have at most this many bytes.
    pub(crate) fn new(frame_max: u32) -> Self {
        Self { properties: FieldTable::new(), knows_cancel: false, knows_blocked: false, frame_max }
    }

    /// The client has these capabilities.
    pub(crate) fn set_capabilities(&mut self, has: impl Fn(&str) -> bool) {
        self.knows_cancel = has("consumer_cancel_notify");
        self.knows_blocked = has("connection.blocked");
    }

    pub(crate) fn set_properties(&mut self, properties: Table<'_>) {
        self.properties = properties.into();
    }

    pub(crate) fn set_frame_max(&mut self, frame_max: u32) {
        self.frame_max = frame_max;
    }

    pub(crate) fn properties(&self) -> &FieldTable {
        &self.properties
    }

    /// The name that the client gave its connection; empty without one.
    pub(crate) fn client_name(&self) -> &str {
        self.properties.lookup("connection_name").and_then(FieldValue::as_str).unwrap_or_default()
    }

    /// Whether the client knows `basic.cancel` from the broker.
    pub(crate) fn knows_cancel(&self) -> bool {
        self.knows_cancel
    }

    /// Whether the client knows `connection.blocked`.
    pub(crate) fn knows_blocked(&self) -> bool {
        self.knows_blocked
    }

    /// Largest frame in bytes; 0 is no limit.
    #[inline]
    pub(crate) fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Largest size in bytes of the properties in a content header to this client.
    pub(crate) fn properties_max(&self) -> usize {
        match self.frame_max {
            0 => usize::MAX,
            frame_max => (frame_max as usize).saturating_sub(HEADER_OVERHEAD),
        }
    }
}
