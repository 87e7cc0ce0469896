//! A client of MQTT that says what came and waits for nothing else: each call sends or expects one packet.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

pub use leveret_mqtt::{
    Ack, AckKind, ConnAck, Connect, Disconnect, Packet, PropertyId, PropertyList, PropertyWriter, Publish, QoS,
    ReasonCode, RetainHandling, SubscribeWriter, SubscriptionOptions, Version, Will, encode_unsubscribe,
};
use leveret_mqtt::{PACKET_MAX, next_packet};

use crate::{PATIENCE, secrets};

/// A message that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameIn {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its quality of service.
    pub qos: QoS,
    /// Its packet identifier; 0 with QoS 0.
    pub id: u16,
    /// Whether it was sent before.
    pub dup: bool,
    /// Whether it was kept.
    pub retain: bool,
    /// Its properties, as encoded.
    pub properties: Vec<u8>,
}

/// A connection.
pub struct MqttClient {
    socket: TcpStream,
    version: Version,
    /// Bytes that weren't decoded yet.
    kept: Vec<u8>,
}

/// The content of a CONNECT besides its client id.
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// The version of the protocol.
    pub version: Version,
    /// Whether a new session is wanted.
    pub clean: bool,
    /// Seconds for which the session outlives the connection, in MQTT 5.
    pub expiry_s: u32,
    /// Number of messages that may be unacknowledged, in MQTT 5.
    pub receive_max: Option<u16>,
    /// The will.
    pub will: Option<Will<'a>>,
    /// User name and password.
    pub user: Option<(&'a str, &'a str)>,
    /// The keep alive, in seconds.
    pub keep_alive: u16,
}

impl Default for Login<'_> {
    fn default() -> Self {
        Self {
            version: Version::V50,
            clean: true,
            expiry_s: 0,
            receive_max: None,
            will: None,
            user: Some(("guest", "guest")),
            keep_alive: 0,
        }
    }
}

impl MqttClient {
    /// Connects and sends a CONNECT; [`MqttClient::connack`] has the answer.
    ///
    /// # Panics
    /// If there is no such listener: the test has failed then, as in all other calls.
    pub fn connect(address: SocketAddr, client_id: &str, login: Login<'_>) -> Self {
        Self::connect_by(address, b"", client_id, login)
    }

    /// As [`MqttClient::connect`], behind the header of a proxy.
    pub fn connect_by(address: SocketAddr, proxy: &[u8], client_id: &str, login: Login<'_>) -> Self {
        let mut socket = TcpStream::connect(address).expect("a listener");
        socket.write_all(proxy).expect("the broker reads");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut this = Self { socket, version: login.version, kept: Vec::new() };
        let mut properties = Vec::new();
        let mut writer = PropertyWriter::begin(&mut properties);
        if login.version == Version::V50 {
            writer.number(PropertyId::SessionExpiryInterval, login.expiry_s);
            login.receive_max.into_iter().for_each(|most| writer.number(PropertyId::ReceiveMaximum, most.into()));
        }
        let connect = Connect {
            version: login.version,
            clean_start: login.clean,
            keep_alive: login.keep_alive,
            properties: PropertyList::written(&properties),
            client_id,
            will: login.will,
            user_name: login.user.map(|(name, _)| name),
            password: login.user.map(|(_, password)| password.as_bytes()),
        };
        if let Some((user, password)) = login.user {
            secrets::used(user, password);
        }
        this.send(&Packet::Connect(connect));
        this
    }

    /// Connects, and returns whether there was a session.
    pub fn open(address: SocketAddr, client_id: &str, login: Login<'_>) -> (Self, bool) {
        let mut this = Self::connect(address, client_id, login);
        let (reason, session_present) = this.connack();
        assert_eq!(reason, ReasonCode::SUCCESS, "CONNACK of {client_id}");
        (this, session_present)
    }

    /// Sends a packet.
    pub fn send(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(self.version, &mut bytes);
        self.send_bytes(&bytes);
    }

    /// Sends bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the broker reads");
    }

    /// Gives the next packet to `look`; `None` if the broker closed the connection.
    pub fn next<T>(&mut self, look: impl FnOnce(Packet<'_>) -> T) -> Option<T> {
        loop {
            if let Some((raw, used)) = next_packet(&self.kept, PACKET_MAX).expect("a packet") {
                let found = look(Packet::decode(&raw, self.version).expect("a well-formed packet"));
                self.kept.drain(..used);
                return Some(found);
            }
            let mut buffer = [0; 65_536];
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.kept.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// The CONNACK: its reason, and whether there was a session.
    pub fn connack(&mut self) -> (ReasonCode, bool) {
        let found = self.next(|packet| match packet {
            Packet::ConnAck(connack) => (connack.reason, connack.session_present),
            other => panic!("{other:?}, expected CONNACK"),
        });
        found.expect("CONNACK")
    }

    /// Subscribes, and returns the codes.
    pub fn subscribe(&mut self, filters: &[(&str, SubscriptionOptions)], id: Option<u32>) -> Vec<u8> {
        let mut properties = Vec::new();
        let mut writer = PropertyWriter::begin(&mut properties);
        id.into_iter().for_each(|id| writer.number(PropertyId::SubscriptionIdentifier, id));
        let mut bytes = Vec::new();
        let mut writer = SubscribeWriter::begin(&mut bytes, self.version, 99, PropertyList::written(&properties));
        filters.iter().for_each(|(filter, options)| writer.filter(filter, *options));
        writer.end();
        self.send_bytes(&bytes);
        let found = self.next(|packet| match packet {
            Packet::SubAck(suback) => suback.codes.to_vec(),
            other => panic!("{other:?}, expected SUBACK"),
        });
        found.expect("SUBACK")
    }

    /// Subscribes to one filter with this QoS.
    pub fn subscribe_to(&mut self, filter: &str, qos: QoS) {
        let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
        assert_eq!(self.subscribe(&[(filter, options)], None), [qos.bits()]);
    }

    /// Sends a message without waiting for its acknowledgement.
    pub fn publish(&mut self, topic: &str, payload: &[u8], qos: QoS, id: u16, dup: bool) {
        let properties = PropertyList::NONE;
        self.send(&Packet::Publish(Publish { dup, qos, retain: false, topic, packet_id: id, properties, payload }));
    }

    /// Sends a message that is to be kept, with QoS 1, and waits for its acknowledgement.
    pub fn retain(&mut self, topic: &str, payload: &[u8]) {
        let (qos, properties) = (QoS::AtLeastOnce, PropertyList::NONE);
        let publish = Publish { dup: false, qos, retain: true, topic, packet_id: 7, properties, payload };
        self.send(&Packet::Publish(publish));
        self.expect_ack(AckKind::PubAck, 7);
    }

    /// Sends a message of QoS 1, and waits for its acknowledgement.
    pub fn publish_once(&mut self, topic: &str, payload: &[u8]) {
        self.publish(topic, payload, QoS::AtLeastOnce, 8, false);
        self.expect_ack(AckKind::PubAck, 8);
    }

    /// Sends an acknowledgement.
    pub fn ack(&mut self, kind: AckKind, id: u16) {
        self.send(&Packet::Ack(Ack::success(kind, id)));
    }

    /// Waits for an acknowledgement, and returns its reason.
    pub fn expect_ack(&mut self, kind: AckKind, id: u16) -> ReasonCode {
        let found = self.next(|packet| match packet {
            Packet::Ack(ack) if (ack.kind, ack.packet_id) == (kind, id) => ack.reason,
            other => panic!("{other:?}, expected {kind:?} of {id}"),
        });
        found.expect("an acknowledgement")
    }

    /// Waits for a message.
    pub fn message(&mut self) -> CameIn {
        let found = self.next(|packet| match packet {
            Packet::Publish(publish) => CameIn {
                topic: publish.topic.to_owned(),
                payload: publish.payload.to_vec(),
                qos: publish.qos,
                id: publish.packet_id,
                dup: publish.dup,
                retain: publish.retain,
                properties: publish.properties.as_bytes().to_vec(),
            },
            other => panic!("{other:?}, expected PUBLISH"),
        });
        found.expect("PUBLISH")
    }

    /// Waits for a message, and acknowledges it as its QoS asks for.
    pub fn receive(&mut self) -> CameIn {
        let message = self.message();
        self.acknowledge(&message);
        message
    }

    /// Acknowledges a message as its QoS asks for.
    pub fn acknowledge(&mut self, message: &CameIn) {
        match message.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.ack(AckKind::PubAck, message.id),
            QoS::ExactlyOnce => {
                self.ack(AckKind::PubRec, message.id);
                self.expect_ack(AckKind::PubRel, message.id);
                self.ack(AckKind::PubComp, message.id);
            }
        }
    }

    /// Sends a PINGREQ: what comes before its answer was sent before. Nothing may.
    pub fn expect_nothing(&mut self) {
        self.send(&Packet::PingReq);
        self.next(|packet| assert_eq!(packet, Packet::PingResp)).expect("PINGRESP");
    }

    /// The reason of the DISCONNECT that the broker sends before it closes the connection; `None` if it sends none.
    pub fn disconnected(&mut self) -> Option<ReasonCode> {
        let reason = self.next(|packet| match packet {
            Packet::Disconnect(disconnect) => disconnect.reason,
            other => panic!("{other:?}, expected DISCONNECT"),
        });
        if reason.is_some() {
            assert_eq!(self.next(|packet| panic!("{packet:?} behind DISCONNECT")), None::<()>);
        }
        reason
    }

    /// Ends the connection as the protocol asks for, and waits until the broker has closed it.
    pub fn close(mut self) {
        self.send(&Packet::Disconnect(Disconnect::of(ReasonCode::SUCCESS)));
        while self.next(|_| ()).is_some() {}
    }

    /// Ends the connection without a word.
    pub fn vanish(self) {
        self.socket.shutdown(Shutdown::Both).expect("is open");
    }

    /// Bounds the time for which calls wait for a packet.
    pub fn set_patience(&mut self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).expect("a timeout");
    }
}
