//! What protocols are called.

/// What a protocol is called.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolInfo {
    /// Its label in metrics; listeners name it so, too.
    pub label: &'static str,
    /// What listings of connections call it.
    pub name: &'static str,
    /// Whether its connections are listed with channels that show what was published and delivered. Otherwise the connection
    /// shows that.
    pub has_channels: bool,
}
