use crate::composite::composite;
use crate::terminus::{Source, TargetArchetype};
use crate::value::MapRef;
use crate::{ReceiverSettleMode, Role, SenderSettleMode, Symbols};

composite! {
    /// Attaches a link to a session (2.7.3).
    Attach['a] = ATTACH, "attach" {
        /// The link's name.
        name "name": mandatory &'a str,
        /// The number by which its sender calls the link in this session.
        handle "handle": mandatory u32,
        /// Which end its sender is.
        role "role": mandatory Role,
        /// How the link's sender settles.
        snd_settle_mode "snd-settle-mode": default SenderSettleMode = SenderSettleMode::Mixed,
        /// How the link's receiver settles.
        rcv_settle_mode "rcv-settle-mode": default ReceiverSettleMode = ReceiverSettleMode::First,
        /// Where messages come from.
        source "source": optional Source<'a>,
        /// Where they go.
        target "target": optional TargetArchetype<'a>,
        /// Deliveries that its sender holds unsettled, by tag.
        unsettled "unsettled": optional MapRef<'a>,
        /// Whether these are not all of them.
        incomplete_unsettled "incomplete-unsettled": default bool = false,
        /// The delivery-count to begin with: from the link's sender only, and mandatory there.
        initial_delivery_count "initial-delivery-count": optional u32,
        /// The largest message that its sender takes, in bytes; no limit if `None` or 0.
        max_message_size "max-message-size": optional u64,
        /// Extensions that its sender has.
        offered_capabilities "offered-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Extensions that its sender would like.
        desired_capabilities "desired-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Properties of the link.
        properties "properties": optional MapRef<'a>,
    }
}
