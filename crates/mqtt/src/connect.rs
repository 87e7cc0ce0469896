//! CONNECT (MQTT 5, 3.1).

use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::properties::{Place, PropertyList};
use crate::qos::QoS;
use crate::raw::RawPacket;
use crate::topic;
use crate::version::Version;
use crate::wire::{FieldReader, put_packet, put_sized, put_variable, saturate};

const KIND: PacketKind = PacketKind::Connect;
const RESERVED: u8 = 1;
const CLEAN_START: u8 = 1 << 1;
const WILL: u8 = 1 << 2;
const WILL_RETAIN: u8 = 1 << 5;
const PASSWORD: u8 = 1 << 6;
const USER_NAME: u8 = 1 << 7;
/// Longest client id of MQTT 3.1, in bytes.
const CLIENT_ID_MAX_V310: usize = 23;

/// The message that the server publishes when the connection ends without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Will<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its quality of service.
    pub qos: QoS,
    /// Whether the server is to keep it.
    pub retain: bool,
    /// Its properties.
    pub properties: PropertyList<'a>,
    /// Its payload.
    pub payload: &'a [u8],
}

/// A client asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The version that it speaks.
    pub version: Version,
    /// Whether it wants a new session (`Clean Session` before MQTT 5).
    pub clean_start: bool,
    /// It sends something at least so often, in seconds; 0 is any time.
    pub keep_alive: u16,
    /// The properties.
    pub properties: PropertyList<'a>,
    /// The client id; empty if the server is to choose one.
    pub client_id: &'a str,
    /// Its will.
    pub will: Option<Will<'a>>,
    /// Its user name.
    pub user_name: Option<&'a str>,
    /// Its password.
    pub password: Option<&'a [u8]>,
}

fn flags_error(flags: u8, why: &'static str) -> DecodeError {
    DecodeError::ConnectFlags { flags, why }
}

impl<'a> Connect<'a> {
    /// Decodes a CONNECT.
    pub(crate) fn decode(raw: &RawPacket<'a>) -> Decoded<Self> {
        let mut reader = FieldReader::new(KIND, raw.content);
        let name = reader.binary("protocol name")?;
        let level = reader.u8("protocol version")?;
        let version = Version::of(name, level).ok_or(DecodeError::ProtocolVersion { level })?;
        let flags = reader.u8("connect flags")?;
        check_flags(flags, version)?;
        let keep_alive = reader.u16("keep alive")?;
        let properties = PropertyList::read_in(version, &mut reader, Place::Packet(KIND))?;
        let client_id = reader.string("client identifier")?;
        if version == Version::V310 && !(1..=CLIENT_ID_MAX_V310).contains(&client_id.len()) {
            return Err(DecodeError::ClientIdLength { length: client_id.len() as u16 });
        }
        let will = match flags & WILL {
            0 => None,
            _ => Some(Will::read(&mut reader, flags, version)?),
        };
        let user_name = if flags & USER_NAME != 0 { Some(reader.string("user name")?) } else { None };
        let password = if flags & PASSWORD != 0 { Some(reader.binary("password")?) } else { None };
        reader.finish()?;
        let clean_start = flags & CLEAN_START != 0;
        Ok(Self { version, clean_start, keep_alive, properties, client_id, will, user_name, password })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut flags = if self.clean_start { CLEAN_START } else { 0 };
        if let Some(will) = &self.will {
            flags |= WILL | will.qos.bits() << 3 | if will.retain { WILL_RETAIN } else { 0 };
        }
        flags |= if self.user_name.is_some() { USER_NAME } else { 0 };
        flags |= if self.password.is_some() { PASSWORD } else { 0 };
        put_packet(out, (KIND as u8) << 4, |out| {
            put_sized(out, self.version.name().as_bytes());
            out.extend_from_slice(&[self.version.level(), flags]);
            out.extend_from_slice(&self.keep_alive.to_be_bytes());
            put_properties(out, self.version, self.properties);
            put_sized(out, self.client_id.as_bytes());
            if let Some(will) = &self.will {
                put_properties(out, self.version, will.properties);
                put_sized(out, will.topic.as_bytes());
                put_sized(out, will.payload);
            }
            self.user_name.into_iter().for_each(|name| put_sized(out, name.as_bytes()));
            self.password.into_iter().for_each(|password| put_sized(out, password));
        });
    }
}

impl<'a> Will<'a> {
    fn read(reader: &mut FieldReader<'a>, flags: u8, version: Version) -> Decoded<Self> {
        let properties = PropertyList::read_in(version, reader, Place::Will)?;
        let topic = reader.string("will topic")?;
        topic::check_name(KIND, topic)?;
        let payload = reader.binary("will payload")?;
        let qos = QoS::of(flags >> 3 & 3).ok_or(DecodeError::QoS { kind: KIND })?;
        Ok(Self { topic, qos, retain: flags & WILL_RETAIN != 0, properties, payload })
    }
}

fn check_flags(flags: u8, version: Version) -> Decoded<()> {
    if flags & RESERVED != 0 {
        return Err(flags_error(flags, "the reserved flag is set [MQTT-3.1.2-3]"));
    }
    let will_bits = flags >> 3 & 3;
    if flags & WILL == 0 && (will_bits != 0 || flags & WILL_RETAIN != 0) {
        return Err(flags_error(flags, "a QoS or a retain flag of no will [MQTT-3.1.2-11] [MQTT-3.1.2-13]"));
    }
    if will_bits == 3 {
        return Err(flags_error(flags, "the will has QoS 3 [MQTT-3.1.2-12]"));
    }
    if version < Version::V50 && flags & PASSWORD != 0 && flags & USER_NAME == 0 {
        return Err(flags_error(flags, "a password without a user name (MQTT 3.1.1, [MQTT-3.1.2-22])"));
    }
    Ok(())
}

/// Appends properties with their length, if the version has any.
pub(crate) fn put_properties(out: &mut Vec<u8>, version: Version, properties: PropertyList<'_>) {
    if version.has_properties() {
        put_variable(out, saturate(properties.as_bytes().len()));
        out.extend_from_slice(properties.as_bytes());
    }
}
