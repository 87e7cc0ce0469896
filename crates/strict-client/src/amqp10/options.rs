//! Options of a client.

use leveret_amqp10::value::EncodedMap;

/// The client's SASL mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mechanism {
    /// User name and password.
    Plain {
        /// User name.
        user: String,
        /// Password.
        password: String,
    },
    /// ANONYMOUS.
    Anonymous,
    /// Another mechanism, with its initial response; challenges of the server get no automatic reply.
    Other {
        /// Its name.
        name: String,
        /// The first response.
        initial_response: Option<Vec<u8>>,
    },
    /// No SASL layer.
    None,
}

impl Mechanism {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Plain { .. } => "PLAIN",
            Self::Anonymous => "ANONYMOUS",
            Self::Other { name, .. } => name,
            Self::None => "",
        }
    }

    pub(crate) fn initial_response(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain { user, password } => Some(format!("\0{user}\0{password}").into_bytes()),
            Self::Anonymous => Some(b"anonymous".to_vec()),
            Self::Other { initial_response, .. } => initial_response.clone(),
            Self::None => None,
        }
    }
}

/// Credentials and limits of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The SASL mechanism.
    pub mechanism: Mechanism,
    /// The container's name.
    pub container_id: String,
    /// The host name; RabbitMQ's virtual host if it begins with `vhost:`.
    pub hostname: Option<String>,
    /// Largest frame that the client accepts, in bytes.
    pub max_frame_size: u32,
    /// Highest channel number that may be used.
    pub channel_max: u16,
    /// Time without a frame after which the client closes, in milliseconds; the socket's owner has to check it.
    pub idle_time_out: Option<u32>,
    /// Properties of the connection.
    pub properties: EncodedMap,
    /// Extensions that the client would like to use.
    pub desired_capabilities: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mechanism: Mechanism::Plain { user: "guest".into(), password: "guest".into() },
            container_id: "leveret-strict-client".into(),
            hostname: Some("vhost:/".into()),
            max_frame_size: 131_072,
            channel_max: 255,
            idle_time_out: None,
            properties: EncodedMap::new()
                .with("product", "leveret-strict-client")
                .with("version", env!("CARGO_PKG_VERSION")),
            desired_capabilities: Vec::new(),
        }
    }
}

/// Windows and limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Number of transfer frames that the client accepts before it widens the window.
    pub incoming_window: u32,
    /// Number of transfer frames that the client could send, as information for the peer.
    pub outgoing_window: u32,
    /// The first transfer-id, and also the first delivery-id.
    pub next_outgoing_id: u32,
    /// Highest handle that may be used.
    pub handle_max: u32,
    /// Whether the client widens its window automatically once half of it is used.
    pub widen: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { incoming_window: 2048, outgoing_window: 2048, next_outgoing_id: 0, handle_max: 255, widen: true }
    }
}
