//! Blocked input: the connection isn't read until the event that it waits for.

use leveret_broker::ticket::Ticket;

/// The reason why the connection's input is blocked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum InputHold {
    /// Input isn't blocked.
    #[default]
    No,
    /// The frame at its head declared something that becomes durable with this ticket. The frame is handled again then.
    Again { ticket: Ticket },
    /// The frame at its head needs a change whose outcome comes later. The frame is handled again then.
    Change,
    /// The frame at its head has more to do than fits in one turn. It is handled again in the next one.
    NextTurn,
    /// The frame at its head names this link, which waits for its queue. It is handled once the queue has answered, or the
    /// link has ended.
    Asked { channel: u16, handle: u32 },
    /// A management request removes messages or a binding, and isn't answered yet: what follows it mustn't come before it.
    Removal,
    /// Too many bytes of incoming bodies are on their way to their files; the disk has to catch up.
    Upload,
    /// The body of the last message of this link is being written to a file of its own.
    Body { channel: u16, handle: u32 },
    /// The log takes no publishes at the moment, or this connection's share of bytes on their way to the disk is used
    /// up.
    LogRoom,
}
