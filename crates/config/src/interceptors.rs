//! What is noted on messages on their way.

/// See [`crate::Config::interceptors`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interceptors {
    /// `message_interceptors.incoming.set_header_timestamp.overwrite`: messages get the time at which they came, also in
    /// place of the publisher's if this is true; `None` for never.
    pub received_time: Option<bool>,
    /// `message_interceptors.incoming.set_header_routing_node.overwrite`: likewise the node's name.
    pub routing_node: Option<bool>,
    /// `message_interceptors.outgoing.timestamp.enabled`: receivers get the time at which a message is sent to them.
    pub sent_time: bool,
}
