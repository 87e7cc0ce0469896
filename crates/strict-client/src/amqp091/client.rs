//! The connection: handshake, dispatch of frames to channels, close.

use leveret_amqp091::method::connection;
use leveret_amqp091::{
    FRAME_MIN_SIZE, FieldValue, Frame, FrameKind, Method, PROTOCOL_HEADER, ShortStr, decode_frame, encode_method,
};

use super::channel::{Channel, Surroundings};
use super::event::{CloseReason, Event, Span};
use super::options::Options;
use crate::{Rule, Violation};

/// The state of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    AwaitStart,
    AwaitTune,
    AwaitOpenOk,
    Open,
    /// `connection.close` was sent.
    Closing,
    Closed,
}

/// An AMQP 0-9-1 client without a socket.
#[derive(Debug)]
pub struct Client {
    pub(crate) out: Vec<u8>,
    pub(crate) channels: Vec<Option<Box<Channel>>>,
    pub(crate) state: ConnectionState,
    options: Options,
    frame_max: u32,
    channel_max: u16,
    heartbeat: u16,
    blocked_notify: bool,
    cancel_notify: bool,
    arena: Vec<u8>,
}

impl Client {
    /// A client whose output contains the protocol header.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let capability = |name: &str| {
            let Some(FieldValue::Table(table)) = options.properties.lookup("capabilities") else {
                return false;
            };
            table.lookup(name) == Some(&FieldValue::Bool(true))
        };
        Self {
            out: PROTOCOL_HEADER.to_vec(),
            channels: Vec::new(),
            state: ConnectionState::AwaitStart,
            frame_max: FRAME_MIN_SIZE,
            channel_max: 0,
            heartbeat: 0,
            blocked_notify: capability("connection.blocked"),
            cancel_notify: capability("consumer_cancel_notify"),
            options,
            arena: Vec::new(),
        }
    }

    /// Bytes for the peer. The caller sends and removes them.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Processes received bytes. Returns the number of bytes in complete frames; the caller passes the rest again,
    /// followed by more. Events are appended; the bytes that they refer to are kept until the next call.
    ///
    /// # Errors
    /// The first rule that the peer broke. The connection can't be used any more.
    pub fn receive(&mut self, input: &[u8], events: &mut Vec<Event>) -> Result<usize, Violation> {
        self.arena.clear();
        if self.state == ConnectionState::AwaitStart && input.starts_with(b"AMQP") {
            return Err(Violation::new(
                Rule::Handshake,
                format!("the protocol header {:?}: the server speaks another version", &input[..input.len().min(8)]),
            ));
        }
        let mut used = 0;
        while let Some((frame, size)) = decode_frame(&input[used..], self.frame_max)? {
            self.on_frame(frame, events)?;
            used += size;
        }
        Ok(used)
    }

    /// The bytes of an event.
    ///
    /// # Panics
    /// If `span` is from before the last `receive`.
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.arena[span.start as usize..][..span.length as usize]
    }

    /// Largest frame in bytes, as negotiated.
    #[must_use]
    pub fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// Highest channel number, as negotiated.
    #[must_use]
    pub fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Heartbeat interval in seconds, as negotiated; 0 for none.
    #[must_use]
    pub fn heartbeat(&self) -> u16 {
        self.heartbeat
    }

    /// Whether the handshake is done and neither side has closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == ConnectionState::Open
    }

    fn on_frame(&mut self, frame: Frame<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        if self.state == ConnectionState::Closed {
            return Err(Violation::new(
                Rule::ConnectionClosed,
                format!("a {:?} frame on channel {} after the end", frame.kind, frame.channel),
            ));
        }
        match (frame.kind, frame.channel) {
            (FrameKind::Heartbeat, _) => Ok(()),
            (FrameKind::Method, 0) => {
                let method = Method::decode(frame.payload)?;
                self.on_connection_method(&method, events)
            }
            (_, 0) => Err(Violation::new(Rule::ChannelZero, format!("a {:?} frame on channel 0", frame.kind))),
            // Any frame may be in flight while the connection closes.
            _ if self.state == ConnectionState::Closing => Ok(()),
            _ => self.on_channel_frame(frame, events),
        }
    }

    fn on_channel_frame(&mut self, frame: Frame<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        let Some(Some(channel)) = self.channels.get_mut(usize::from(frame.channel)) else {
            return Err(Violation::new(
                Rule::ChannelOpen,
                format!("a {:?} frame on channel {}, which was never opened", frame.kind, frame.channel),
            ));
        };
        let around =
            Surroundings { out: &mut self.out, events, arena: &mut self.arena, cancel_notify: self.cancel_notify };
        match frame.kind {
            FrameKind::Header => channel.on_header(frame.payload, around),
            FrameKind::Body => channel.on_body(frame.payload, around),
            FrameKind::Method | FrameKind::Heartbeat => {
                let method = Method::decode(frame.payload)?;
                if method.id().0 == 10 {
                    return Err(Violation::new(
                        Rule::ChannelZero,
                        format!("{} on channel {}", method.name(), frame.channel),
                    ));
                }
                channel.on_method(&method, around)
            }
        }
    }

    fn on_connection_method(&mut self, method: &Method<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        match (self.state, method) {
            (ConnectionState::AwaitStart, Method::ConnectionStart(start)) => self.on_start(start, events)?,
            (ConnectionState::AwaitTune, Method::ConnectionTune(tune)) => self.on_tune(tune)?,
            (ConnectionState::AwaitOpenOk, Method::ConnectionOpenOk(_)) => {
                self.state = ConnectionState::Open;
                events.push(Event::Connected);
            }
            (_, Method::ConnectionClose(close)) => {
                self.send(0, &Method::ConnectionCloseOk(connection::CloseOk {}));
                if self.state != ConnectionState::Closing {
                    self.state = ConnectionState::Closed;
                }
                events.push(Event::ConnectionClosed(CloseReason {
                    code: close.reply_code,
                    text: close.reply_text.to_string(),
                    blamed: (close.class_id, close.method_id),
                }));
            }
            (ConnectionState::Closing, Method::ConnectionCloseOk(_)) => {
                self.state = ConnectionState::Closed;
                events.push(Event::ConnectionCloseOk);
            }
            (ConnectionState::Closing, _) => {}
            (ConnectionState::Open, Method::ConnectionBlocked(_) | Method::ConnectionUnblocked(_))
                if !self.blocked_notify =>
            {
                return Err(Violation::new(Rule::Capability, method.name()));
            }
            (ConnectionState::Open, Method::ConnectionBlocked(blocked)) => {
                events.push(Event::Blocked { reason: blocked.reason.to_string() });
            }
            (ConnectionState::Open, Method::ConnectionUnblocked(_)) => events.push(Event::Unblocked),
            (ConnectionState::Open, Method::ConnectionUpdateSecretOk(_)) => {
                events.push(Event::Reply { channel: 0, method: method.name() });
            }
            (ConnectionState::Open, _) if method.id().0 != 10 => {
                return Err(Violation::new(Rule::ChannelZero, format!("{} on channel 0", method.name())));
            }
            _ => {
                return Err(Violation::new(Rule::Handshake, format!("{} in state {:?}", method.name(), self.state)));
            }
        }
        Ok(())
    }

    /// Renews the secret that it logged in with.
    pub fn update_secret(&mut self, new_secret: &[u8]) {
        let update = connection::UpdateSecret { new_secret, reason: ShortStr::literal("it expires") };
        encode_method(&mut self.out, 0, &Method::ConnectionUpdateSecret(update));
    }

    fn on_start(&mut self, start: &connection::Start<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        if (start.version_major, start.version_minor) != (0, 9) {
            return Err(Violation::new(
                Rule::Handshake,
                format!("version {}-{}, expected 0-9", start.version_major, start.version_minor),
            ));
        }
        let mechanism = ShortStr::literal(if self.options.anonymous { "ANONYMOUS" } else { "PLAIN" });
        if !start.mechanisms.split(|octet| *octet == b' ').any(|offered| offered == mechanism.as_bytes()) {
            let offered = String::from_utf8_lossy(start.mechanisms);
            return Err(Violation::new(Rule::Handshake, format!("mechanisms {offered:?} without {mechanism:?}")));
        }
        let response = format!("\0{}\0{}", self.options.user, self.options.password);
        let properties = self.options.properties.encoded();
        let answer = connection::StartOk {
            client_properties: properties.as_table(),
            mechanism,
            response: if self.options.anonymous { b"" } else { response.as_bytes() },
            locale: ShortStr::literal("en_US"),
        };
        encode_method(&mut self.out, 0, &Method::ConnectionStartOk(answer));
        self.state = ConnectionState::AwaitTune;
        events.push(Event::Started { properties: start.server_properties.into() });
        Ok(())
    }

    fn on_tune(&mut self, tune: &connection::Tune) -> Result<(), Violation> {
        if tune.frame_max != 0 && tune.frame_max < FRAME_MIN_SIZE {
            return Err(Violation::new(Rule::Handshake, format!("frame_max {}, at least 4096", tune.frame_max)));
        }
        self.frame_max = lower(self.options.frame_max, tune.frame_max);
        self.channel_max = lower(self.options.channel_max.into(), tune.channel_max.into()) as u16;
        self.heartbeat = self.options.heartbeat;
        let answer =
            connection::TuneOk { channel_max: self.channel_max, frame_max: self.frame_max, heartbeat: self.heartbeat };
        encode_method(&mut self.out, 0, &Method::ConnectionTuneOk(answer));
        let open =
            connection::Open { virtual_host: ShortStr::truncated(&self.options.virtual_host), ..Default::default() };
        encode_method(&mut self.out, 0, &Method::ConnectionOpen(open));
        self.state = ConnectionState::AwaitOpenOk;
        Ok(())
    }
}

/// The lower of two limits, where the server's 0 means no limit.
fn lower(ours: u32, theirs: u32) -> u32 {
    if theirs == 0 { ours } else { ours.min(theirs) }
}
