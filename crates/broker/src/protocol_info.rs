//! Names of protocols.

/// The names of a protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolInfo {
    /// Its label in metrics and in the configuration of listeners.
    pub label: &'static str,
    /// Its name in listings of connections.
    pub name: &'static str,
    /// Whether its connections are listed with channels that show published and delivered messages. Otherwise the connection
    /// shows these.
    pub has_channels: bool,
}
