//! The terms of a connection: its client's CONNECT says what applies to it and to its session.

use std::sync::Arc;

use leveret_mqtt::{Connect, PropertyId, Version};

/// The terms of a connection. Before the CONNECT they are those of a client that asks for nothing.
pub(crate) struct Terms {
    version: Version,
    /// Empty before the CONNECT.
    client_id: Arc<str>,
    keep_alive_s: u16,
    receive_max: u16,
    packet_max: u32,
    session_expiry_s: u32,
    clean_start: bool,
    has_connect: bool,
    has_assigned_id: bool,
}

impl Terms {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            client_id: "".into(),
            keep_alive_s: 0,
            receive_max: u16::MAX,
            packet_max: u32::MAX,
            session_expiry_s: 0,
            clean_start: true,
            has_connect: false,
            has_assigned_id: false,
        }
    }

    /// A CONNECT was decoded.
    pub(crate) fn begin(&mut self, connect: &Connect<'_>) {
        self.has_connect = true;
        self.version = connect.version;
        self.clean_start = connect.clean_start;
    }

    /// Takes over what the client says of itself. Sessions outlive their connections by at most `session_expiry_max_s`.
    pub(crate) fn negotiate(&mut self, connect: &Connect<'_>, session_expiry_max_s: u32) {
        let properties = &connect.properties;
        self.keep_alive_s = connect.keep_alive;
        self.receive_max = properties.number(PropertyId::ReceiveMaximum).map_or(u16::MAX, |most| most as u16);
        self.packet_max = properties.number(PropertyId::MaximumPacketSize).unwrap_or(u32::MAX);
        self.session_expiry_s = match (self.version, connect.clean_start) {
            (Version::V50, _) => {
                properties.number(PropertyId::SessionExpiryInterval).unwrap_or(0).min(session_expiry_max_s)
            }
            (_, true) => 0,
            (_, false) => session_expiry_max_s,
        };
    }

    /// The client has this id.
    pub(crate) fn identify(&mut self, client_id: Arc<str>) {
        self.client_id = client_id;
    }

    /// The server chooses the client's id.
    pub(crate) fn assign(&mut self) {
        self.has_assigned_id = true;
    }

    /// The session ends so long after its connection.
    pub(crate) fn expire_after(&mut self, session_expiry_s: u32) {
        self.session_expiry_s = session_expiry_s;
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The client id; empty before the CONNECT.
    pub(crate) fn client_id(&self) -> &Arc<str> {
        &self.client_id
    }

    /// Interval in which the client sends something, in seconds; 0 is any time.
    pub(crate) fn keep_alive_s(&self) -> u16 {
        self.keep_alive_s
    }

    /// Messages of QoS 1 and 2 that the client takes without an acknowledgement.
    pub(crate) fn receive_max(&self) -> u16 {
        self.receive_max
    }

    /// Largest packet that the client takes, in bytes.
    pub(crate) fn packet_max(&self) -> u32 {
        self.packet_max
    }

    /// Seconds for which the session outlives the connection; `u32::MAX` is for ever.
    pub(crate) fn session_expiry_s(&self) -> u32 {
        self.session_expiry_s
    }

    /// Whether the session outlives the connection.
    pub(crate) fn outlives_connection(&self) -> bool {
        self.session_expiry_s > 0
    }

    /// Whether the client wants a new session.
    pub(crate) fn clean_start(&self) -> bool {
        self.clean_start
    }

    /// Whether a CONNECT was decoded.
    pub(crate) fn has_connect(&self) -> bool {
        self.has_connect
    }

    /// Whether the server chose the client id.
    pub(crate) fn has_assigned_id(&self) -> bool {
        self.has_assigned_id
    }
}
