//! The connection: SASL, `open`, dispatch of frames to sessions, close.

use leveret_amqp10::performative::{Close, Open};
use leveret_amqp10::sasl::{self, SaslCode};
use leveret_amqp10::value::OwnedMap;
use leveret_amqp10::{
    FRAME_MIN_SIZE, Frame, FrameKind, HEADER_AMQP, HEADER_SASL, Performative, SaslFrame, Symbol, Symbols, decode_frame,
    encode_performative,
};

use super::event::{Event, Span};
use super::options::{Mechanism, Options};
use super::session::{Session, Surroundings};
use crate::{Rule, Violation};

/// The state of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    AwaitSaslHeader,
    AwaitMechanisms,
    AwaitOutcome,
    AwaitHeader,
    AwaitOpen,
    Open,
    /// `close` was sent.
    Closing,
    Closed,
}

/// An AMQP 1.0 client without a socket.
#[derive(Debug)]
pub struct Client {
    pub(crate) out: Vec<u8>,
    /// Sessions by the client's channel.
    pub(crate) sessions: Vec<Option<Box<Session>>>,
    /// The client's channels by the peer's channel.
    by_remote: Vec<Option<u16>>,
    pub(crate) state: ConnectionState,
    options: Options,
    pub(crate) remote_max_frame_size: u32,
    remote_idle_time_out: Option<u32>,
    channel_max: u16,
    arena: Vec<u8>,
}

impl Client {
    /// A client whose output contains the protocol header.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut client = Self {
            out: Vec::new(),
            sessions: Vec::new(),
            by_remote: Vec::new(),
            state: ConnectionState::AwaitSaslHeader,
            remote_max_frame_size: FRAME_MIN_SIZE,
            remote_idle_time_out: None,
            channel_max: 0,
            options,
            arena: Vec::new(),
        };
        if client.options.mechanism == Mechanism::None {
            client.open();
        } else {
            client.out.extend_from_slice(&HEADER_SASL);
        }
        client
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
        let mut used = 0;
        loop {
            let rest = &input[used..];
            if matches!(self.state, ConnectionState::AwaitSaslHeader | ConnectionState::AwaitHeader) {
                let Some((header, _)) = rest.split_first_chunk::<8>() else { break };
                self.on_header(header)?;
                used += header.len();
                continue;
            }
            let in_sasl = matches!(self.state, ConnectionState::AwaitMechanisms | ConnectionState::AwaitOutcome);
            // The limit of SASL frames is fixed, because nothing was negotiated yet (5.3.1).
            let limit = if in_sasl { FRAME_MIN_SIZE } else { self.options.max_frame_size };
            let Some((frame, size)) = decode_frame(rest, limit)? else { break };
            self.on_frame(frame, in_sasl, events)?;
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

    /// Largest frame in bytes that the peer accepts.
    #[must_use]
    pub fn remote_max_frame_size(&self) -> u32 {
        self.remote_max_frame_size
    }

    /// Time without a frame after which the peer closes, in milliseconds.
    #[must_use]
    pub fn remote_idle_time_out(&self) -> Option<u32> {
        self.remote_idle_time_out
    }

    /// Highest channel number, as negotiated.
    #[must_use]
    pub fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Whether `open` was received and neither side has closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == ConnectionState::Open
    }

    fn on_header(&mut self, header: &[u8; 8]) -> Result<(), Violation> {
        let (expected, next) = match self.state {
            ConnectionState::AwaitSaslHeader => (HEADER_SASL, ConnectionState::AwaitMechanisms),
            _ => (HEADER_AMQP, ConnectionState::AwaitOpen),
        };
        if *header != expected {
            let text = format!("the protocol header {header:02x?}, expected {expected:02x?}");
            return Err(Violation::new(Rule::OpenOrder, text));
        }
        self.state = next;
        Ok(())
    }

    fn on_frame(&mut self, frame: Frame<'_>, in_sasl: bool, events: &mut Vec<Event>) -> Result<(), Violation> {
        if self.state == ConnectionState::Closed {
            let text = format!("a {:?} frame on channel {} after the end", frame.kind, frame.channel);
            return Err(Violation::new(Rule::ConnectionClosed, text));
        }
        match (frame.kind, in_sasl) {
            (FrameKind::Sasl, true) => self.on_sasl(SaslFrame::decode(frame.body)?, events),
            (FrameKind::Amqp, false) if frame.body.is_empty() => {
                events.push(Event::Empty);
                Ok(())
            }
            (FrameKind::Amqp, false) => {
                let (performative, payload) = Performative::decode(frame.body)?;
                self.on_performative(frame, performative, payload, events)
            }
            (kind, _) => {
                Err(Violation::new(Rule::OpenOrder, format!("a frame of kind {kind:?} in state {:?}", self.state)))
            }
        }
    }

    fn on_sasl(&mut self, frame: SaslFrame<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        match (self.state, frame) {
            (ConnectionState::AwaitMechanisms, SaslFrame::Mechanisms(mechanisms)) => {
                let offered = mechanisms.sasl_server_mechanisms;
                let name = self.options.mechanism.name();
                if !offered.contains(name) {
                    return Err(Violation::new(Rule::OpenOrder, format!("mechanisms {offered:?} without {name}")));
                }
                let response = self.options.mechanism.initial_response();
                let init = sasl::Init {
                    mechanism: Symbol::new(name),
                    initial_response: response.as_deref(),
                    hostname: self.options.hostname.as_deref(),
                };
                SaslFrame::Init(init).encode(&mut self.out);
                self.state = ConnectionState::AwaitOutcome;
                events.push(Event::Mechanisms(offered.iter().map(|symbol| symbol.to_string()).collect()));
            }
            (ConnectionState::AwaitOutcome, SaslFrame::Challenge(challenge)) => {
                let span = keep(&mut self.arena, challenge.challenge);
                events.push(Event::Challenge(span));
            }
            (ConnectionState::AwaitOutcome, SaslFrame::Outcome(outcome)) => match outcome.code {
                SaslCode::Ok => self.open(),
                code => {
                    self.state = ConnectionState::Closed;
                    events.push(Event::SaslFailed(code as u8));
                }
            },
            (state, frame) => {
                return Err(Violation::new(Rule::OpenOrder, format!("{} in state {state:?}", frame.name())));
            }
        }
        Ok(())
    }

    /// Writes the AMQP header and `open`.
    fn open(&mut self) {
        self.out.extend_from_slice(&HEADER_AMQP);
        let desired: Vec<Symbol<'_>> =
            self.options.desired_capabilities.iter().map(|capability| Symbol::new(capability)).collect();
        let properties = self.options.properties.as_map();
        let open = Open {
            container_id: &self.options.container_id,
            hostname: self.options.hostname.as_deref(),
            max_frame_size: self.options.max_frame_size,
            channel_max: self.options.channel_max,
            idle_time_out: self.options.idle_time_out,
            desired_capabilities: Symbols::of(&desired),
            properties: (!properties.is_empty()).then_some(properties),
            ..Open::default()
        };
        encode_performative(&mut self.out, 0, &open.into());
        self.state = ConnectionState::AwaitHeader;
    }

    #[inline]
    fn on_performative(
        &mut self,
        frame: Frame<'_>,
        performative: Performative<'_>,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        if let (ConnectionState::Open, Performative::Transfer(transfer)) = (self.state, &performative) {
            let (session, mut around) = self.session_of(frame.channel, "transfer", events)?;
            return session.on_transfer(transfer, payload, &mut around);
        }
        self.on_other(frame, &performative, events)
    }

    fn on_other(
        &mut self,
        frame: Frame<'_>,
        performative: &Performative<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let name = performative.name();
        match (self.state, performative) {
            (ConnectionState::AwaitOpen, Performative::Open(open)) => self.on_open(frame.channel, open, events),
            (
                ConnectionState::Open | ConnectionState::Closing | ConnectionState::AwaitOpen,
                Performative::Close(close),
            ) => {
                let by_peer = self.state != ConnectionState::Closing;
                if by_peer {
                    encode_performative(&mut self.out, 0, &Close::default().into());
                }
                self.state = ConnectionState::Closed;
                events.push(Event::Closed { error: close.error.map(Into::into), by_peer });
                Ok(())
            }
            // Any frame may be in flight while the connection closes.
            (ConnectionState::Closing, _) => Ok(()),
            (ConnectionState::Open, Performative::Begin(begin)) => {
                if frame.channel > self.options.channel_max {
                    let text = format!("begin on channel {}, channel-max {}", frame.channel, self.options.channel_max);
                    return Err(Violation::new(Rule::ChannelMax, text));
                }
                self.on_begin(frame.channel, begin, events)
            }
            (ConnectionState::Open, Performative::Open(_)) | (ConnectionState::AwaitOpen, _) => {
                Err(Violation::new(Rule::OpenOrder, format!("{name} in state {:?}", self.state)))
            }
            _ => {
                let (session, mut around) = self.session_of(frame.channel, name, events)?;
                match performative {
                    Performative::Attach(attach) => session.on_attach(attach, frame.body, &mut around),
                    Performative::Flow(flow) => session.on_flow(flow, &mut around),
                    Performative::Disposition(disposition) => session.on_disposition(disposition, &mut around),
                    Performative::Detach(detach) => session.on_detach(detach, &mut around),
                    Performative::End(end) => {
                        session.on_end(end, &mut around);
                        self.by_remote[usize::from(frame.channel)] = None;
                        Ok(())
                    }
                    _ => Err(Violation::new(Rule::OpenOrder, name)),
                }
            }
        }
    }

    fn on_open(&mut self, channel: u16, open: &Open<'_>, events: &mut Vec<Event>) -> Result<(), Violation> {
        if channel != 0 {
            return Err(Violation::new(Rule::OpenOrder, format!("open on channel {channel}")));
        }
        if open.max_frame_size < FRAME_MIN_SIZE {
            let text = format!("max-frame-size {}, at least {FRAME_MIN_SIZE}", open.max_frame_size);
            return Err(Violation::new(Rule::OpenOrder, text));
        }
        self.remote_max_frame_size = open.max_frame_size;
        self.remote_idle_time_out = open.idle_time_out;
        self.channel_max = self.options.channel_max.min(open.channel_max);
        self.state = ConnectionState::Open;
        events.push(Event::Opened {
            container_id: open.container_id.to_owned(),
            max_frame_size: open.max_frame_size,
            channel_max: open.channel_max,
            idle_time_out: open.idle_time_out,
            offered_capabilities: open.offered_capabilities.iter().map(|symbol| symbol.to_string()).collect(),
            properties: open.properties.map(OwnedMap::from).unwrap_or_default(),
        });
        Ok(())
    }

    fn on_begin(
        &mut self,
        channel: u16,
        begin: &leveret_amqp10::performative::Begin<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let refuse = |why: &str| Err(Violation::new(Rule::BeginAnswer, format!("begin on channel {channel}, {why}")));
        let index = usize::from(channel);
        if self.by_remote.len() <= index {
            self.by_remote.resize(index + 1, None);
        }
        if self.by_remote[index].is_some() {
            return refuse("which has a session");
        }
        let Some(ours) = begin.remote_channel else {
            return refuse("without remote-channel: it answers nothing");
        };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(ours)) else {
            return refuse(&format!("for channel {ours}, where no begin was sent"));
        };
        if session.is_begun() {
            return refuse(&format!("for channel {ours}, which has its answer"));
        }
        session.on_begin(channel, begin);
        self.by_remote[index] = Some(ours);
        events.push(Event::Begun {
            channel: ours,
            handle_max: begin.handle_max,
            incoming_window: begin.incoming_window,
        });
        Ok(())
    }

    /// The session on the peer's channel.
    #[inline]
    fn session_of<'c>(
        &'c mut self,
        channel: u16,
        name: &str,
        events: &'c mut Vec<Event>,
    ) -> Result<(&'c mut Session, Surroundings<'c>), Violation> {
        let ours = self.by_remote.get(usize::from(channel)).copied().flatten();
        let session = ours.and_then(|ours| self.sessions[usize::from(ours)].as_deref_mut());
        match session {
            Some(session) => {
                let max_frame_size = self.remote_max_frame_size;
                Ok((session, Surroundings { out: &mut self.out, events, arena: &mut self.arena, max_frame_size }))
            }
            None if channel > self.options.channel_max => {
                let text = format!("{name} on channel {channel}, channel-max {}", self.options.channel_max);
                Err(Violation::new(Rule::ChannelMax, text))
            }
            None => {
                Err(Violation::new(Rule::SessionBegun, format!("{name} on channel {channel}, which has no session")))
            }
        }
    }
}

/// Keeps bytes for an event.
pub(crate) fn keep(arena: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = arena.len() as u32;
    arena.extend_from_slice(bytes);
    Span { start, length: bytes.len() as u32 }
}
