use crate::composite::composite;
use crate::value::MapRef;

composite! {
    /// Updates the windows of a session, and with a handle the credit of a link (2.7.4).
    Flow['a] = FLOW, "flow" {
        /// The transfer-id that its sender expects next; `None` before it saw the peer's `begin`.
        next_incoming_id "next-incoming-id": optional u32,
        /// Transfer frames that its sender takes from there.
        incoming_window "incoming-window": mandatory u32,
        /// The transfer-id of its sender's next transfer.
        next_outgoing_id "next-outgoing-id": mandatory u32,
        /// Transfer frames that its sender could send.
        outgoing_window "outgoing-window": mandatory u32,
        /// Which link; `None` for the session alone.
        handle "handle": optional u32,
        /// The link's delivery-count, as its sender knows it.
        delivery_count "delivery-count": optional u32,
        /// Deliveries that the link's receiver takes from that count.
        link_credit "link-credit": optional u32,
        /// Messages that the link's sender has.
        available "available": optional u32,
        /// Use up the credit, with messages or without.
        drain "drain": default bool = false,
        /// Asks for a flow in answer.
        echo "echo": default bool = false,
        /// Properties of the link's state.
        properties "properties": optional MapRef<'a>,
    }
}
