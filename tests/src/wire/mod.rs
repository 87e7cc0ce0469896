//! A small AMQP 0-9-1 client on a bare socket, for tests that no library supports: stalling, sending invalid bytes,
//! or reading one frame at a time. It is written from the specification and shares no code with the broker's codec.

mod arguments;

use std::collections::BTreeSet;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub use arguments::{Reader, Writer};

use crate::{PATIENCE, secrets};

/// Class and method ids that the tests use (specification, section 1.2).
pub mod method {
    /// A class and a method.
    pub type Id = (u16, u16);
    /// connection.start
    pub const CONNECTION_START: Id = (10, 10);
    /// connection.start-ok
    pub const CONNECTION_START_OK: Id = (10, 11);
    /// connection.tune
    pub const CONNECTION_TUNE: Id = (10, 30);
    pub(super) const CONNECTION_TUNE_OK: Id = (10, 31);
    pub(super) const CONNECTION_OPEN: Id = (10, 40);
    pub(super) const CONNECTION_OPEN_OK: Id = (10, 41);
    /// connection.close
    pub const CONNECTION_CLOSE: Id = (10, 50);
    /// connection.close-ok
    pub const CONNECTION_CLOSE_OK: Id = (10, 51);
    /// connection.blocked
    pub const CONNECTION_BLOCKED: Id = (10, 60);
    /// connection.unblocked
    pub const CONNECTION_UNBLOCKED: Id = (10, 61);
    /// channel.open
    pub const CHANNEL_OPEN: Id = (20, 10);
    /// channel.open-ok
    pub const CHANNEL_OPEN_OK: Id = (20, 11);
    /// channel.close
    pub const CHANNEL_CLOSE: Id = (20, 40);
    /// queue.declare
    pub const QUEUE_DECLARE: Id = (50, 10);
    /// queue.declare-ok
    pub const QUEUE_DECLARE_OK: Id = (50, 11);
    /// queue.delete
    pub const QUEUE_DELETE: Id = (50, 40);
    /// queue.purge
    pub const QUEUE_PURGE: Id = (50, 30);
    /// queue.purge-ok
    pub const QUEUE_PURGE_OK: Id = (50, 31);
    /// `queue.delete-ok`.
    pub const QUEUE_DELETE_OK: Id = (50, 41);
    /// queue.bind
    pub const QUEUE_BIND: Id = (50, 20);
    /// queue.bind-ok
    pub const QUEUE_BIND_OK: Id = (50, 21);
    /// exchange.declare
    pub const EXCHANGE_DECLARE: Id = (40, 10);
    /// exchange.declare-ok
    pub const EXCHANGE_DECLARE_OK: Id = (40, 11);
    /// exchange.bind
    pub const EXCHANGE_BIND: Id = (40, 30);
    /// exchange.bind-ok
    pub const EXCHANGE_BIND_OK: Id = (40, 31);
    /// basic.qos
    pub const BASIC_QOS: Id = (60, 10);
    /// basic.qos-ok
    pub const BASIC_QOS_OK: Id = (60, 11);
    /// basic.consume
    pub const BASIC_CONSUME: Id = (60, 20);
    /// basic.consume-ok
    pub const BASIC_CONSUME_OK: Id = (60, 21);
    /// basic.cancel
    pub const BASIC_CANCEL: Id = (60, 30);
    /// basic.cancel-ok
    pub const BASIC_CANCEL_OK: Id = (60, 31);
    /// basic.publish
    pub const BASIC_PUBLISH: Id = (60, 40);
    /// basic.return
    pub const BASIC_RETURN: Id = (60, 50);
    /// basic.deliver
    pub const BASIC_DELIVER: Id = (60, 60);
    /// channel.close-ok
    pub const CHANNEL_CLOSE_OK: Id = (20, 41);
    /// exchange.delete
    pub const EXCHANGE_DELETE: Id = (40, 20);
    /// exchange.delete-ok
    pub const EXCHANGE_DELETE_OK: Id = (40, 21);
    /// basic.get
    pub const BASIC_GET: Id = (60, 70);
    /// basic.get-ok
    pub const BASIC_GET_OK: Id = (60, 71);
    /// basic.get-empty
    pub const BASIC_GET_EMPTY: Id = (60, 72);
    /// basic.ack, both ways
    pub const BASIC_ACK: Id = (60, 80);
    /// basic.nack, both ways
    pub const BASIC_NACK: Id = (60, 120);
    /// basic.reject
    pub const BASIC_REJECT: Id = (60, 90);
    /// tx.select
    pub const TX_SELECT: Id = (90, 10);
    /// tx.select-ok
    pub const TX_SELECT_OK: Id = (90, 11);
    /// tx.commit
    pub const TX_COMMIT: Id = (90, 20);
    /// tx.commit-ok
    pub const TX_COMMIT_OK: Id = (90, 21);
    /// tx.rollback
    pub const TX_ROLLBACK: Id = (90, 30);
    /// tx.rollback-ok
    pub const TX_ROLLBACK_OK: Id = (90, 31);
    /// confirm.select
    pub const CONFIRM_SELECT: Id = (85, 10);
    /// confirm.select-ok
    pub const CONFIRM_SELECT_OK: Id = (85, 11);
}

/// Frame types.
pub const METHOD: u8 = 1;
/// Content header.
pub const HEADER: u8 = 2;
/// Content body.
pub const BODY: u8 = 3;
/// Heartbeat.
pub const HEARTBEAT: u8 = 8;

/// The protocol header.
pub const PROTOCOL_HEADER: &[u8; 8] = b"AMQP\x00\x00\x09\x01";

/// A frame as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type octet.
    pub kind: u8,
    /// Its channel.
    pub channel: u16,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Class and method of a method frame.
    pub fn method(&self) -> Option<method::Id> {
        (self.kind == METHOD && self.payload.len() >= 4).then(|| {
            let mut reader = Reader::new(&self.payload);
            (reader.short(), reader.short())
        })
    }

    /// A reader of a method frame's arguments.
    pub fn arguments(&self) -> Reader<'_> {
        Reader::new(&self.payload[4..])
    }

    /// Reply code and text, if this closes a connection or channel.
    pub fn reason(&self) -> Option<(u16, String)> {
        matches!(self.method()?, method::CONNECTION_CLOSE | method::CHANNEL_CLOSE).then(|| {
            let mut arguments = self.arguments();
            (arguments.short(), arguments.short_string())
        })
    }
}

/// The bytes of one frame.
pub fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(channel.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).expect("a frame's length").to_be_bytes());
    bytes.extend(payload);
    bytes.push(0xce);
    bytes
}

/// The bytes of a method frame.
pub fn method_frame(channel: u16, id: method::Id, arguments: &Writer) -> Vec<u8> {
    let mut payload = Writer::new();
    payload.put_short(id.0).put_short(id.1);
    payload.append(arguments);
    frame(METHOD, channel, payload.bytes())
}

/// Declares a durable queue over a connection of its own.
///
/// # Panics
/// When the broker refuses.
pub fn declare_durable(address: SocketAddr, queue: &str) {
    let mut wire = Wire::open(address);
    wire.declare(1, queue, true);
    wire.close();
}

/// The frames of a publish to the default exchange; `durable` sets delivery mode 2.
pub fn publish(channel: u16, exchange: &str, key: &str, body: &[u8], mandatory: bool, durable: bool) -> Vec<u8> {
    // Property flags, section 4.2.6.1: bit 12 is delivery-mode.
    let mut properties = Writer::new();
    properties.put_short(0x1000).put_octet(if durable { 2 } else { 1 });
    publish_with(channel, exchange, key, body, mandatory, &properties)
}

/// The frames of a persistent message to a queue that expires after this many milliseconds.
pub fn publish_expiring(channel: u16, queue: &str, body: &[u8], ttl_ms: u64) -> Vec<u8> {
    // Bit 8 is expiration.
    let mut properties = Writer::new();
    properties.put_short(0x1100).put_octet(2).put_short_string(&ttl_ms.to_string());
    publish_with(channel, "", queue, body, true, &properties)
}

/// The frames of a persistent message to a quorum queue, which hands it out at this time: milliseconds since the Unix epoch.
pub fn publish_delayed(channel: u16, queue: &str, body: &[u8], delivery_time_ms: u64) -> Vec<u8> {
    publish_with(channel, "", queue, body, true, &with_header("x-opt-delivery-time", delivery_time_ms))
}

/// The frames of a persistent message to a delayed exchange, which routes it after this many milliseconds.
pub fn publish_to_delayed_exchange(channel: u16, exchange: &str, body: &[u8], delay_ms: u64) -> Vec<u8> {
    publish_with(channel, exchange, "", body, false, &with_header("x-delay", delay_ms))
}

/// The properties of a persistent message with this header.
fn with_header(name: &str, value: u64) -> Writer {
    let mut entry = Writer::new();
    entry.put_short_string(name).put(b"l").put_long_long(value);
    // Bit 13 is the headers.
    let mut properties = Writer::new();
    properties.put_short(0x3000).put_long_string(entry.bytes()).put_octet(2);
    properties
}

fn publish_with(channel: u16, exchange: &str, key: &str, body: &[u8], mandatory: bool, properties: &Writer) -> Vec<u8> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(exchange).put_short_string(key).put_octet(u8::from(mandatory));
    let mut bytes = method_frame(channel, method::BASIC_PUBLISH, &arguments);
    let mut header = Writer::new();
    header.put_short(60).put_short(0).put_long_long(body.len() as u64).append(properties);
    bytes.extend(frame(HEADER, channel, header.bytes()));
    for piece in body.chunks(4000) {
        bytes.extend(frame(BODY, channel, piece));
    }
    bytes
}

/// The limits requested in a connection's handshake.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Largest frame in bytes; 0 accepts the broker's offer.
    pub frame_max: u32,
    /// Heartbeat interval in seconds; 0 for none.
    pub heartbeat: u16,
}

/// User, virtual host and client properties of a login.
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// User.
    pub user: &'a str,
    /// Its password.
    pub password: &'a str,
    /// Virtual host.
    pub vhost: &'a str,
    /// The client's capabilities.
    pub capabilities: &'a [&'a str],
    /// Other client properties, all with text values.
    pub properties: &'a [(&'a str, &'a str)],
}

impl Default for Login<'_> {
    fn default() -> Self {
        // With these, a refused login is answered with a reason, and alarms are reported.
        let capabilities = &["authentication_failure_close", "connection.blocked"];
        Self { user: "guest", password: "guest", vhost: "/", capabilities, properties: &[] }
    }
}

/// A connected socket.
#[derive(Debug)]
pub struct Wire {
    /// For tests that write to it or close it directly.
    pub socket: TcpStream,
    /// Frames are read from here.
    reader: BufReader<TcpStream>,
    /// Larger frames fail the test.
    frame_max: usize,
}

impl Wire {
    /// Connects without sending anything.
    ///
    /// # Panics
    /// If there is no listener.
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("connect");
        socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        socket.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        socket.set_nodelay(true).expect("no delay");
        let reader = BufReader::with_capacity(64 * 1024, socket.try_clone().expect("a second handle"));
        Self { socket, reader, frame_max: usize::MAX }
    }

    /// Connects as guest, with channel 1 open.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn open(address: SocketAddr) -> Self {
        let mut wire = Self::open_connection(address, Tuning { frame_max: 0, heartbeat: 0 });
        wire.open_channel(1);
        wire
    }

    /// Connects as guest, without a channel.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn open_connection(address: SocketAddr, tuning: Tuning) -> Self {
        Self::handshake(address, tuning).unwrap_or_else(|frame| panic!("the broker refuses: {frame:?}"))
    }

    /// Performs the handshake up to open-ok.
    ///
    /// # Errors
    /// The frame that came instead, such as connection.close.
    ///
    /// # Panics
    /// When the socket fails.
    pub fn handshake(address: SocketAddr, tuning: Tuning) -> Result<Self, Frame> {
        Self::handshake_to(address, tuning, "/")
    }

    /// As [`Wire::handshake`], for a vhost.
    ///
    /// # Errors
    /// As [`Wire::handshake`].
    ///
    /// # Panics
    /// When the socket fails.
    pub fn handshake_to(address: SocketAddr, tuning: Tuning, vhost: &str) -> Result<Self, Frame> {
        let mut wire = Self::connect(address);
        wire.send(PROTOCOL_HEADER);
        let _ = wire.next_method(method::CONNECTION_START)?;
        wire.log_in_to(tuning, vhost)?;
        Ok(wire)
    }

    /// Performs the handshake from connection.start on.
    ///
    /// # Errors
    /// As [`Wire::handshake`].
    ///
    /// # Panics
    /// When the socket fails.
    pub fn log_in_to(&mut self, tuning: Tuning, vhost: &str) -> Result<(), Frame> {
        self.log_in(tuning, &Login { vhost, ..Login::default() })
    }

    /// As [`Wire::log_in_to`], with any user and client properties.
    ///
    /// # Errors
    /// As [`Wire::handshake`].
    ///
    /// # Panics
    /// When the socket fails.
    pub fn log_in(&mut self, tuning: Tuning, login: &Login<'_>) -> Result<(), Frame> {
        secrets::used(login.user, login.password);
        let mut capabilities = Writer::new();
        for capability in login.capabilities {
            capabilities.put_short_string(capability).put(b"t\x01");
        }
        let mut properties = Writer::new();
        properties.put_short_string("capabilities").put_octet(b'F').put_long_string(capabilities.bytes());
        for (key, value) in login.properties {
            properties.put_short_string(key).put_octet(b'S').put_long_string(value.as_bytes());
        }
        let mut arguments = Writer::new();
        arguments
            .put_long_string(properties.bytes())
            .put_short_string("PLAIN")
            .put_long_string(format!("\0{}\0{}", login.user, login.password).as_bytes())
            .put_short_string("en_US");
        self.send(&method_frame(0, method::CONNECTION_START_OK, &arguments));
        let tune = self.next_method(method::CONNECTION_TUNE)?;
        let mut offered = tune.arguments();
        let (channel_max, frame_max) = (offered.short(), offered.long());
        let frame_max = if tuning.frame_max == 0 { frame_max } else { tuning.frame_max };
        let mut arguments = Writer::new();
        arguments.put_short(channel_max).put_long(frame_max).put_short(tuning.heartbeat);
        self.send(&method_frame(0, method::CONNECTION_TUNE_OK, &arguments));
        let mut arguments = Writer::new();
        arguments.put_short_string(login.vhost).put_short_string("").put_octet(0);
        self.send(&method_frame(0, method::CONNECTION_OPEN, &arguments));
        self.next_method(method::CONNECTION_OPEN_OK)?;
        Ok(())
    }

    /// Opens a channel.
    pub fn open_channel(&mut self, channel: u16) {
        let mut arguments = Writer::new();
        arguments.put_short_string("");
        self.call(channel, method::CHANNEL_OPEN, &arguments, method::CHANNEL_OPEN_OK);
    }

    /// Declares a queue with or without `durable`; never exclusive.
    pub fn declare(&mut self, channel: u16, name: &str, durable: bool) -> Frame {
        self.call(channel, method::QUEUE_DECLARE, &declare_arguments(name, durable), method::QUEUE_DECLARE_OK)
    }

    /// Declares a durable queue for this connection alone.
    pub fn declare_exclusive(&mut self, channel: u16, name: &str) -> Frame {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(name).put_octet(0b110).put_empty_table();
        self.call(channel, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK)
    }

    /// Enables confirms.
    pub fn confirm_select(&mut self, channel: u16) {
        let mut arguments = Writer::new();
        arguments.put_octet(0);
        self.call(channel, method::CONFIRM_SELECT, &arguments, method::CONFIRM_SELECT_OK);
    }

    /// Publishes `count` messages on channel 1, with at most `window` unconfirmed, and waits until all are confirmed. `message` makes the
    /// frames of one.
    pub fn publish_all(&mut self, count: u64, window: u64, mut message: impl FnMut(u64) -> Vec<u8>) {
        self.confirm_select(1);
        let (mut sent, mut confirmed) = (0, Confirmed::default());
        while confirmed.count() < count {
            if sent == count || sent - confirmed.count() >= window {
                confirmed.wait(self);
                continue;
            }
            let end = (sent + RUN).min(count);
            let bytes: Vec<u8> = (sent..end).flat_map(&mut message).collect();
            self.send(&bytes);
            sent = end;
        }
    }

    /// Sets the prefetch of later consumers.
    pub fn prefetch(&mut self, channel: u16, count: u16) {
        let mut arguments = Writer::new();
        arguments.put_long(0).put_short(count).put_octet(0);
        self.call(channel, method::BASIC_QOS, &arguments, method::BASIC_QOS_OK);
    }

    /// Starts a consumer.
    pub fn consume(&mut self, channel: u16, queue: &str, no_ack: bool) {
        self.consume_with(channel, queue, no_ack, &[]);
    }

    /// Starts a consumer with numeric arguments.
    pub fn consume_with(&mut self, channel: u16, queue: &str, no_ack: bool, table: &[(&str, i32)]) {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_short_string("").put_octet(u8::from(no_ack) << 1);
        arguments.put_number_table(table);
        self.call(channel, method::BASIC_CONSUME, &arguments, method::BASIC_CONSUME_OK);
    }

    /// Number of ready messages of a queue.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn message_count(&mut self, channel: u16, queue: &str) -> u32 {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_octet(1).put_empty_table();
        let frame = self.call(channel, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
        let mut answer = frame.arguments();
        let _queue = answer.short_string();
        answer.long()
    }

    /// Acknowledges a delivery.
    pub fn ack(&mut self, channel: u16, tag: u64, multiple: bool) {
        let mut arguments = Writer::new();
        arguments.put_long_long(tag).put_octet(u8::from(multiple));
        self.send(&method_frame(channel, method::BASIC_ACK, &arguments));
    }

    /// Sends a method and returns the reply.
    ///
    /// # Panics
    /// If another method comes.
    pub fn call(&mut self, channel: u16, id: method::Id, arguments: &Writer, answer: method::Id) -> Frame {
        self.send(&method_frame(channel, id, arguments));
        self.next_method(answer).unwrap_or_else(|frame| panic!("{answer:?} expected: {frame:?} {:?}", frame.reason()))
    }

    /// Sends bytes unchanged.
    ///
    /// # Panics
    /// When the socket fails.
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("write to the broker");
    }

    /// Sets the time after which a read gives up, in place of [`PATIENCE`].
    ///
    /// # Panics
    /// If the socket takes none.
    pub fn set_patience(&self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).expect("a read timeout");
    }

    /// The next frame that isn't a heartbeat.
    ///
    /// # Errors
    /// `UnexpectedEof` if the broker closed, `WouldBlock` if nothing came within [`PATIENCE`].
    pub fn next_frame(&mut self) -> io::Result<Frame> {
        loop {
            let mut head = [0; 7];
            self.reader.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            if length > 16 * 1024 * 1024 {
                return Err(io::Error::new(ErrorKind::InvalidData, format!("a frame of {length} bytes")));
            }
            assert!(length + 8 <= self.frame_max, "a frame of {} bytes", length + 8);
            let mut payload = vec![0; length + 1];
            self.reader.read_exact(&mut payload)?;
            if payload.pop() != Some(0xce) {
                return Err(io::Error::new(ErrorKind::InvalidData, "a frame without its end mark"));
            }
            if head[0] != HEARTBEAT {
                return Ok(Frame { kind: head[0], channel: u16::from_be_bytes([head[1], head[2]]), payload });
            }
        }
    }

    /// The next method.
    ///
    /// # Errors
    /// The frame, if it is another one.
    ///
    /// # Panics
    /// When the socket fails.
    pub fn next_method(&mut self, id: method::Id) -> Result<Frame, Frame> {
        let frame = self.next_frame().unwrap_or_else(|error| panic!("{id:?} expected: {error}"));
        if frame.method() == Some(id) { Ok(frame) } else { Err(frame) }
    }

    /// The content (header and bodies) that follows a publish, delivery, return or get-ok.
    ///
    /// # Errors
    /// As [`Wire::next_frame`].
    ///
    /// # Panics
    /// If something else comes in place of the content.
    pub fn content(&mut self) -> io::Result<Vec<u8>> {
        self.content_with_properties().map(|(_, body)| body)
    }

    /// The same as the property flags and list, and the body.
    ///
    /// # Errors
    /// As [`Wire::next_frame`].
    ///
    /// # Panics
    /// As [`Wire::content`].
    pub fn content_with_properties(&mut self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let header = self.next_frame()?;
        assert_eq!(header.kind, HEADER, "a content header expected: {header:?}");
        let mut reader = Reader::new(&header.payload);
        let (_class, _weight) = (reader.short(), reader.short());
        let size = usize::try_from(reader.long_long()).expect("a body size");
        let mut body = Vec::new();
        while body.len() < size {
            let piece = self.next_frame()?;
            assert_eq!(piece.kind, BODY, "a body expected: {piece:?}");
            body.extend(piece.payload);
        }
        assert_eq!(body.len(), size, "body size");
        Ok((header.payload[12..].to_vec(), body))
    }

    /// The next delivery: tag, redelivered, body.
    ///
    /// # Panics
    /// If something else comes.
    pub fn delivery(&mut self) -> (u64, bool, Vec<u8>) {
        let frame =
            self.next_method(method::BASIC_DELIVER).unwrap_or_else(|frame| panic!("a delivery expected: {frame:?}"));
        let mut arguments = frame.arguments();
        let _consumer = arguments.short_string();
        let (tag, redelivered) = (arguments.long_long(), arguments.octet() & 1 == 1);
        (tag, redelivered, self.content().expect("content"))
    }

    /// The next delivery, none of whose frames may exceed `frame_max` bytes including header and end mark.
    ///
    /// # Panics
    /// If one does, or something else comes.
    pub fn delivery_in_frames(&mut self, frame_max: usize) -> (u64, bool, Vec<u8>) {
        self.frame_max = frame_max;
        let delivery = self.delivery();
        self.frame_max = usize::MAX;
        delivery
    }

    /// Waits for confirms until `count` publishes are confirmed.
    ///
    /// # Panics
    /// If one is refused.
    pub fn confirms(&mut self, count: u64) {
        let mut confirmed = Confirmed::default();
        while confirmed.count() < count {
            confirmed.wait(self);
        }
    }

    /// Closes in order: everything sent before has arrived when this returns.
    ///
    /// # Panics
    /// If no close-ok comes.
    pub fn close(mut self) {
        let mut arguments = Writer::new();
        arguments.put_short(200).put_short_string("done").put_short(0).put_short(0);
        self.send(&method_frame(0, method::CONNECTION_CLOSE, &arguments));
        while self.next_frame().expect("connection.close-ok").method() != Some(method::CONNECTION_CLOSE_OK) {}
    }

    /// Reads until the broker closes the socket. Returns the last reason that it sent.
    ///
    /// # Panics
    /// If it doesn't close within [`PATIENCE`].
    pub fn until_closed(&mut self) -> Option<(u16, String)> {
        let mut reason = None;
        loop {
            match self.next_frame() {
                Ok(frame) => {
                    if let Some(found) = frame.reason() {
                        reason = Some(found);
                    }
                    if frame.method() == Some(method::CONNECTION_CLOSE) {
                        let _ = self.socket.write_all(&method_frame(0, method::CONNECTION_CLOSE_OK, &Writer::new()));
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("the broker didn't close the connection (last reason: {reason:?})")
                }
                Err(_) => return reason,
            }
        }
    }
}

/// Messages per write of [`Wire::publish_all`].
const RUN: u64 = 500;

/// The publishes of a channel that are confirmed so far, in whatever order.
#[derive(Debug, Default)]
pub struct Confirmed {
    /// All up to this tag.
    up_to: u64,
    /// Others above it.
    single: BTreeSet<u64>,
}

impl Confirmed {
    /// Their number.
    pub fn count(&self) -> u64 {
        self.up_to + self.single.len() as u64
    }

    /// Waits for the next confirm.
    ///
    /// # Panics
    /// If something else comes.
    pub fn wait(&mut self, wire: &mut Wire) {
        let ack = wire.next_method(method::BASIC_ACK).unwrap_or_else(|frame| panic!("a confirm expected: {frame:?}"));
        let mut arguments = ack.arguments();
        let (tag, multiple) = (arguments.long_long(), arguments.octet() & 1 == 1);
        if multiple {
            self.up_to = self.up_to.max(tag);
            self.single = self.single.split_off(&(tag + 1));
        } else {
            self.single.insert(tag);
        }
        while self.single.remove(&(self.up_to + 1)) {
            self.up_to += 1;
        }
    }
}

/// Arguments of queue.declare: not passive, exclusive or auto-delete.
pub fn declare_arguments(name: &str, durable: bool) -> Writer {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(name).put_octet(u8::from(durable) << 1).put_empty_table();
    arguments
}
