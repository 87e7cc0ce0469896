use crate::Symbols;
use crate::composite::composite;
use crate::value::MapRef;

composite! {
    /// Opens a connection (2.7.1).
    Open['a] = OPEN, "open" {
        /// The container's name.
        container_id "container-id": mandatory &'a str,
        /// The host that the client addresses; RabbitMQ's virtual host if it begins with `vhost:`.
        hostname "hostname": optional &'a str,
        /// The largest frame that the sending peer accepts, in bytes.
        max_frame_size "max-frame-size": default u32 = u32::MAX,
        /// The highest channel number that may be used.
        channel_max "channel-max": default u16 = u16::MAX,
        /// Time without a frame after which the sending peer closes the connection, in milliseconds.
        idle_time_out "idle-time-out": optional u32,
        /// Locales of the sending peer's texts.
        outgoing_locales "outgoing-locales": default Symbols<'a> = Symbols::NONE,
        /// Locales that the sending peer would like to get.
        incoming_locales "incoming-locales": default Symbols<'a> = Symbols::NONE,
        /// Extensions that the sending peer supports.
        offered_capabilities "offered-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Extensions that the sending peer would like to use.
        desired_capabilities "desired-capabilities": default Symbols<'a> = Symbols::NONE,
        /// Product, version, platform and others.
        properties "properties": optional MapRef<'a>,
    }
}
