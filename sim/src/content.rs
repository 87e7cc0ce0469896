//! The parts of a message that don't depend on the protocol it came by.

/// A message as received, independent of the protocol.
#[derive(Clone, Debug)]
pub struct Content {
    /// It may have been delivered before: `redelivered`, or the opposite of `first-acquirer`.
    pub redelivered: bool,
    /// Exchange it was published to.
    pub exchange: Vec<u8>,
    /// Routing key.
    pub key: Vec<u8>,
    /// It survives a restart.
    pub persistent: bool,
    /// Its message-id, if it has one.
    pub message_id: Option<String>,
    /// It has a history of deaths.
    pub has_died: bool,
    /// How often it was delivered before, if its queue counts that.
    pub acquired: i64,
    /// Its time of delivery, in milliseconds since the Unix epoch.
    pub delivery_ms: Option<u64>,
    /// Its offset, if it comes from a stream.
    pub offset: Option<u64>,
    /// It carries something that no publisher of a simulation gave it.
    pub has_more: bool,
    /// The body.
    pub body: Vec<u8>,
}
