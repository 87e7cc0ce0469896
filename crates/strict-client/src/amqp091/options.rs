//! Options of a client.

use leveret_amqp091::FieldTable;

/// Credentials and limits of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Whether to log in with ANONYMOUS instead of PLAIN.
    pub anonymous: bool,
    /// User name, for PLAIN.
    pub user: String,
    /// Password, for PLAIN.
    pub password: String,
    /// Virtual host.
    pub virtual_host: String,
    /// Largest frame to request, in bytes; the server's limit counts if it is smaller.
    pub frame_max: u32,
    /// Highest channel number to request.
    pub channel_max: u16,
    /// Heartbeat interval to request, in seconds; the socket's owner has to send them.
    pub heartbeat: u16,
    /// Client properties, which determine the notifications that the server may send.
    pub properties: FieldTable,
}

impl Default for Options {
    fn default() -> Self {
        let capabilities = FieldTable::new()
            .with("publisher_confirms", true)
            .with("exchange_exchange_bindings", true)
            .with("basic.nack", true)
            .with("consumer_cancel_notify", true)
            .with("connection.blocked", true)
            .with("authentication_failure_close", true);
        Self {
            anonymous: false,
            user: "guest".into(),
            password: "guest".into(),
            virtual_host: "/".into(),
            frame_max: 131_072,
            channel_max: 2047,
            heartbeat: 0,
            properties: FieldTable::new()
                .with("product", "leveret-strict-client")
                .with("version", env!("CARGO_PKG_VERSION"))
                .with("capabilities", capabilities),
        }
    }
}
