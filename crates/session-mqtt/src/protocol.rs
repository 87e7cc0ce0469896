//! Each version of MQTT as one of the broker's protocols: RabbitMQ counts them apart.

use std::sync::Arc;

use leveret_broker::broker::Broker;
use leveret_broker::protocol::{self, Accepted, Protocol, ProtocolInfo, Recognised};
use leveret_broker::time::Now;
use leveret_mqtt::Version;
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::Driven;

use super::node::Shared;
use super::session::Session;
use super::settings::MqttSettings;

/// MQTT on a node: what the connections of all versions share.
#[derive(Clone)]
pub struct MqttNode(Arc<Shared>);

impl Default for MqttNode {
    fn default() -> Self {
        Self::new(MqttSettings::default())
    }
}

impl MqttNode {
    /// MQTT with these settings.
    pub fn new(settings: MqttSettings) -> Self {
        Self(Shared::new(settings))
    }

    /// Reads what the broker's log has for clients: their wills are published, since their connections ended with the process before.
    pub fn start(&self, broker: &Arc<Broker>, now: Now) {
        self.0.start(broker, now);
    }

    /// The protocols of the node, one for each version.
    pub fn protocols(&self) -> [MqttProtocol; 3] {
        Version::ALL.map(|version| MqttProtocol { version, shared: self.0.clone() })
    }
}

/// A version of MQTT.
#[derive(Clone)]
pub struct MqttProtocol {
    version: Version,
    shared: Arc<Shared>,
}

const V310: ProtocolInfo = ProtocolInfo { label: "mqtt310", name: "MQTT 3-1-0", has_channels: false };
const V311: ProtocolInfo = ProtocolInfo { label: "mqtt311", name: "MQTT 3-1-1", has_channels: false };
const V50: ProtocolInfo = ProtocolInfo { label: "mqtt50", name: "MQTT 5-0", has_channels: false };

/// First byte of a CONNECT.
const CONNECT: u8 = 0x10;
/// Bytes of a remaining length.
const LENGTH_BYTES: usize = 4;

impl Protocol for MqttProtocol {
    fn info(&self) -> &'static ProtocolInfo {
        match self.version {
            Version::V310 => &V310,
            Version::V311 => &V311,
            Version::V50 => &V50,
        }
    }

    /// A connection begins with a CONNECT, whose name and level say the version. What begins otherwise, and what has no known version, is
    /// answered by the session of the newest one.
    fn recognise(&self, input: &[u8]) -> Recognised {
        let is_newest = self.version == Version::V50;
        match version_of(input) {
            Begin::Version(version) if version == self.version => Recognised::Yes(0),
            Begin::Unknown if is_newest => Recognised::Yes(0),
            Begin::Incomplete => Recognised::Perhaps,
            Begin::Version(_) | Begin::Unknown | Begin::Foreign => Recognised::No,
        }
    }

    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn protocol::Session> {
        let client = ClientConnection::new(accepted, now);
        Box::new(Driven(Session::new(client, self.shared.clone(), self.version)))
    }
}

/// The meaning of the first bytes of a connection.
enum Begin {
    Incomplete,
    /// No CONNECT, and nothing that could be one.
    Foreign,
    /// A CONNECT of no known version, or a broken one.
    Unknown,
    Version(Version),
}

fn version_of(input: &[u8]) -> Begin {
    let Some((first, rest)) = input.split_first() else { return Begin::Incomplete };
    if *first != CONNECT {
        return Begin::Foreign;
    }
    let Some(length) = rest.iter().take(LENGTH_BYTES).position(|byte| byte & 0x80 == 0) else {
        return if rest.len() < LENGTH_BYTES { Begin::Incomplete } else { Begin::Unknown };
    };
    let is_empty = rest[..=length].iter().all(|byte| byte & 0x7f == 0);
    match &rest[length + 1..] {
        _ if is_empty => Begin::Unknown,
        [high, low, rest @ ..] => {
            let name = usize::from(u16::from_be_bytes([*high, *low]));
            if !matches!(name, 4 | 6) {
                return Begin::Unknown;
            }
            match rest.split_at_checked(name) {
                Some((name, [level, ..])) => Version::of(name, *level).map_or(Begin::Unknown, Begin::Version),
                _ => Begin::Incomplete,
            }
        }
        _ => Begin::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognise(input: &[u8]) -> Vec<Recognised> {
        MqttNode::default().protocols().iter().map(|protocol| protocol.recognise(input)).collect()
    }

    #[test]
    fn versions_are_told_apart_by_their_connect() {
        let (no, yes) = (Recognised::No, Recognised::Yes(0));
        let connect = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd";
        assert_eq!(recognise(connect), [no, yes, no]);
        assert_eq!(recognise(b"\x10\x12\0\x06MQIsdp\x03\x02"), [yes, no, no]);
        assert_eq!(recognise(b"\x10\x80\x02\0\x04MQTT\x05"), [no, no, yes]);
        assert_eq!(recognise(b"\x10\x10\0\x04MQTT\x09"), [no, no, yes], "it is answered that there is no such version");
        assert_eq!(recognise(b"\x10\x00"), [no, no, yes]);
        for end in 0..9 {
            assert_eq!(recognise(&connect[..end]), [Recognised::Perhaps; 3], "{end}");
        }
        for other in [&b"AMQP\0\0\x09\x01"[..], b"GET / HTTP/1.1", b"\x16\x03\x01", b"\x30\x00"] {
            assert_eq!(recognise(other), [no; 3]);
        }
    }
}
