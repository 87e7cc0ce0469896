use crate::Symbols;
use crate::composite::composite;
use crate::value::MapRef;

composite! {
    /// Begins a session (2.7.2).
    Begin['a] = BEGIN, "begin" {
        /// Channel of the peer's `begin` that this one answers; absent if this one asks for a new session.
        remote_channel "remote-channel": optional u16,
        /// The transfer-id of the next transfer.
        next_outgoing_id "next-outgoing-id": mandatory u32,
        /// Number of transfer frames that the sending peer accepts now.
        incoming_window "incoming-window": mandatory u32,
        /// Number of transfer frames that the sending peer can send, as far as its own buffers allow.
        outgoing_window "outgoing-window": mandatory u32,
        /// The highest link handle that the receiving peer may use.
        handle_max "handle-max": default u32 = u32::MAX,
        /// Extensions that the sending peer supports.
        offered_capabilities "offered-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Extensions that the sending peer would like to use.
        desired_capabilities "desired-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Properties of the session.
        properties "properties": optional MapRef<'a>,
    }
}
