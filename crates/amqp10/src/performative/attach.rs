use crate::composite::composite;
use crate::terminus::{Source, TargetArchetype};
use crate::value::MapRef;
use crate::{ReceiverSettleMode, Role, SenderSettleMode, Symbols};

composite! {
    /// Attaches a link to a session (2.7.3).
    Attach['a] = ATTACH, "attach" {
        /// The link's name.
        name "name": mandatory &'a str,
        /// The sending peer's number for the link in this session.
        handle "handle": mandatory u32,
        /// The role of the sending peer.
        role "role": mandatory Role,
        /// The settlement mode of the link's sender.
        snd_settle_mode "snd-settle-mode": default SenderSettleMode = SenderSettleMode::Mixed,
        /// The settlement mode of the link's receiver.
        rcv_settle_mode "rcv-settle-mode": default ReceiverSettleMode = ReceiverSettleMode::First,
        /// The source of messages.
        source "source": optional Source<'a>,
        /// The target of messages.
        target "target": optional TargetArchetype<'a>,
        /// Unsettled deliveries of the sending peer, by tag.
        unsettled "unsettled": optional MapRef<'a>,
        /// Whether `unsettled` is incomplete.
        incomplete_unsettled "incomplete-unsettled": default bool = false,
        /// The initial delivery-count: only from the link's sender, and mandatory there.
        initial_delivery_count "initial-delivery-count": optional u32,
        /// The largest message that the sending peer accepts, in bytes; no limit if `None` or 0.
        max_message_size "max-message-size": optional u64,
        /// Extensions that the sending peer supports.
        offered_capabilities "offered-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Extensions that the sending peer would like to use.
        desired_capabilities "desired-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Properties of the link.
        properties "properties": optional MapRef<'a>,
    }
}
