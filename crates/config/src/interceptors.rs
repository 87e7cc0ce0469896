//! Timestamps and node names that are added to messages.

/// Settings in [`crate::Config::interceptors`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interceptors {
    /// `message_interceptors.incoming.set_header_timestamp.overwrite`: whether the time of receipt replaces the
    /// publisher's own value; `None` if it isn't added at all.
    pub received_time: Option<bool>,
    /// `message_interceptors.incoming.set_header_routing_node.overwrite`: the same for the node's name.
    pub routing_node: Option<bool>,
    /// `message_interceptors.outgoing.timestamp.enabled`: whether receivers get the time at which a message is sent
    /// to them.
    pub sent_time: bool,
}
