use crate::composite::composite;
use crate::value::MapRef;

composite! {
    /// Updates the windows of a session, and with a handle the credit of a link (2.7.4).
    Flow['a] = FLOW, "flow" {
        /// The transfer-id that the sending peer expects next; `None` before it got the peer's `begin`.
        next_incoming_id "next-incoming-id": optional u32,
        /// Number of transfer frames that the sending peer accepts from there.
        incoming_window "incoming-window": mandatory u32,
        /// The transfer-id of the sending peer's next transfer.
        next_outgoing_id "next-outgoing-id": mandatory u32,
        /// Number of transfer frames that the sending peer could send.
        outgoing_window "outgoing-window": mandatory u32,
        /// The link; `None` for the session alone.
        handle "handle": optional u32,
        /// The link's delivery-count, as known to the sending peer.
        delivery_count "delivery-count": optional u32,
        /// Number of deliveries that the link's receiver accepts from that count on.
        link_credit "link-credit": optional u32,
        /// Number of messages available at the link's sender.
        available "available": optional u32,
        /// Whether the credit is to be used up, with or without messages.
        drain "drain": default bool = false,
        /// Whether a flow is requested in reply.
        echo "echo": default bool = false,
        /// Properties of the link's state.
        properties "properties": optional MapRef<'a>,
    }
}
