//! A hostile peer: it writes any bytes and reads everything.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use leveret_amqp10::performative::{Attach, Begin, Detach, End, Flow, Open, Transfer, encode_transfer};
use leveret_amqp10::{
    DecodeError, Error, FrameKind, HEADER_AMQP, HEADER_SASL, Performative, Role, SaslFrame, SenderSettleMode, Source,
    Symbol, Target, TargetArchetype, begin_frame, decode_frame, encode_performative, end_frame, sasl,
};
use leveret_tests::PATIENCE;

/// The level at which the broker ended something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Link,
    Session,
    Connection,
}

/// A refusal by the broker.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub ended: Ended,
    pub condition: String,
    pub description: String,
}

/// The channel of the session by which a peer checks whether it is still served.
const ASKED: u16 = 63;

/// A hostile peer.
pub(crate) struct Peer {
    pub socket: TcpStream,
    /// Largest frame accepted by this side, in bytes.
    max_frame_size: u32,
    input: Vec<u8>,
    start: usize,
}

impl Peer {
    /// A connected socket.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("connect");
        socket.set_nodelay(true).expect("no delay");
        socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        socket.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        Self { socket, max_frame_size: u32::MAX, input: Vec::new(), start: 0 }
    }

    /// A connection on which `open` is due.
    pub(crate) fn logged_in(address: SocketAddr) -> Self {
        let mut this = Self::connect(address);
        let mut out = HEADER_SASL.to_vec();
        let init =
            sasl::Init { mechanism: Symbol::new("PLAIN"), initial_response: Some(b"\0guest\0guest"), hostname: None };
        SaslFrame::Init(init).encode(&mut out);
        out.extend(HEADER_AMQP);
        this.send(&out);
        assert_eq!(this.take(8), HEADER_SASL);
        this.frame().expect("sasl-mechanisms");
        this.frame().expect("sasl-outcome");
        assert_eq!(this.take(8), HEADER_AMQP);
        this
    }

    /// A connection with a session on channel 0.
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::open_with(address, 131_072, 1 << 20)
    }

    /// As [`Peer::open`], with a frame size and an incoming window.
    pub(crate) fn open_with(address: SocketAddr, max_frame_size: u32, incoming_window: u32) -> Self {
        let mut this = Self::logged_in(address);
        this.max_frame_size = max_frame_size;
        let open = Open {
            container_id: "hostile",
            hostname: Some("vhost:/"),
            max_frame_size,
            channel_max: 63,
            ..Open::default()
        };
        let begin = Begin { incoming_window, outgoing_window: u32::MAX, handle_max: u32::MAX, ..Begin::default() };
        this.send(&[of(0, &open.into()), of(0, &begin.into())].concat());
        this.expect("open", |performative| matches!(performative, Performative::Open(_)));
        this.expect("begin", |performative| matches!(performative, Performative::Begin(_)));
        this
    }

    /// A connection with a sender to a queue, which has credit.
    pub(crate) fn sender(address: SocketAddr, queue: &str) -> Self {
        let mut this = Self::open(address);
        this.send(&sender(0, 0, "sender", &format!("/queues/{queue}")));
        this.expect("attach", |performative| matches!(performative, Performative::Attach(_)));
        this.expect(
            "credit",
            |performative| matches!(performative, Performative::Flow(flow) if flow.handle == Some(0)),
        );
        this
    }

    /// Writes all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("write to the broker");
    }

    /// Writes as many bytes as the broker accepts before it closes.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Writes the same bytes repeatedly until the broker accepts no more, or `most` bytes of them. Returns the number
    /// accepted.
    pub(crate) fn stuff(&mut self, piece: &[u8], most: usize) -> usize {
        // Enough for a node that reads; a socket that stays full for this long isn't being read.
        self.socket.set_write_timeout(Some(Duration::from_millis(500))).expect("a write timeout");
        let (mut sent, mut at) = (0, 0);
        while sent < most {
            match self.socket.write(&piece[at..]) {
                Ok(count) => (sent, at) = (sent + count, (at + count) % piece.len()),
                Err(_) => break,
            }
        }
        self.socket.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        sent
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() - self.start < count {
            assert!(self.read(), "the broker closed the socket");
        }
        self.start += count;
        self.input[self.start - count..self.start].to_vec()
    }

    /// Reads once; returns false at the end.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        self.input.drain(..self.start);
        self.start = 0;
        match self.socket.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the broker neither answers nor closes")
            }
            Err(_) => false,
        }
    }

    /// The next frame: its channel and body; `None` at the end.
    pub(crate) fn frame(&mut self) -> Option<(u16, Vec<u8>)> {
        loop {
            if let Some((frame, size)) = decode_frame(&self.input[self.start..], self.max_frame_size).expect("a frame")
            {
                let found = (frame.channel, frame.body.to_vec());
                self.start += size;
                return Some(found);
            }
            if !self.read() {
                return None;
            }
        }
    }

    /// Waits for a performative; if the broker ends anything, the test fails.
    pub(crate) fn expect(&mut self, what: &str, wanted: impl Fn(&Performative<'_>) -> bool) -> Vec<u8> {
        loop {
            let (_, body) = self.frame().unwrap_or_else(|| panic!("{what} expected, the broker closed"));
            if body.is_empty() {
                continue;
            }
            let (performative, _) = decode(&body).expect("a performative");
            if wanted(&performative) {
                return body;
            }
            assert!(refusal(&performative).is_none(), "{what} expected: {performative:?}");
        }
    }

    /// Waits until the broker ends something with an error.
    pub(crate) fn refusal(&mut self, what: &str) -> Refusal {
        loop {
            let (_, body) = self.frame().unwrap_or_else(|| panic!("{what}: the broker closed without a word"));
            if body.is_empty() {
                continue;
            }
            let (performative, _) = decode(&body).expect("a performative");
            if let Some(refusal) = refusal(&performative) {
                return refusal;
            }
        }
    }

    /// Asserts that the connection is still served: everything before was processed, and nothing was refused.
    pub(crate) fn still_served(&mut self, what: &str) {
        let refusals = self.refusals_until_served(what);
        assert!(refusals.is_empty(), "{what}: {refusals:?}");
    }

    /// As [`Peer::still_served`], but returns the refusals until then.
    pub(crate) fn refusals_until_served(&mut self, what: &str) -> Vec<Refusal> {
        // Flows may also be unsolicited: a separate session is answered in order.
        self.send(&[begin(ASKED), end(ASKED)].concat());
        let mut refusals = Vec::new();
        loop {
            let (channel, body) = self.frame().unwrap_or_else(|| panic!("{what}: the broker closed"));
            if body.is_empty() {
                continue;
            }
            match decode(&body).expect("a performative").0 {
                Performative::End(_) if channel == ASKED => return refusals,
                performative => refusals.extend(refusal(&performative)),
            }
        }
    }

    /// Reads until the broker has closed the socket.
    pub(crate) fn until_closed(&mut self) {
        while self.read() {
            self.start = self.input.len();
        }
    }
}

fn decode(body: &[u8]) -> Result<(Performative<'_>, &[u8]), DecodeError> {
    Performative::decode(body)
}

fn refusal(performative: &Performative<'_>) -> Option<Refusal> {
    let (ended, error) = match performative {
        Performative::Detach(detach) => (Ended::Link, detach.error),
        Performative::End(end) => (Ended::Session, end.error),
        Performative::Close(close) => (Ended::Connection, close.error),
        _ => return None,
    };
    let Error { condition, description, .. } = error?;
    Some(Refusal { ended, condition: condition.to_string(), description: description.unwrap_or_default().to_owned() })
}

/// A frame with a performative.
pub(crate) fn of(channel: u16, performative: &Performative<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_performative(&mut out, channel, performative);
    out
}

/// A frame with any body.
pub(crate) fn raw(kind: FrameKind, channel: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_frame(&mut out, kind, channel);
    out.extend_from_slice(body);
    end_frame(&mut out, start);
    out
}

/// A frame of AMQP with any body on channel 0.
pub(crate) fn amqp(body: &[u8]) -> Vec<u8> {
    raw(FrameKind::Amqp, 0, body)
}

/// An attach of a sender.
pub(crate) fn sender(channel: u16, handle: u32, name: &str, address: &str) -> Vec<u8> {
    let target = Target { address: Some(address), ..Target::default() };
    let attach = Attach {
        name,
        handle,
        role: Role::Sender,
        source: Some(Source::default()),
        target: Some(TargetArchetype::Target(target)),
        initial_delivery_count: Some(0),
        ..Attach::default()
    };
    of(channel, &attach.into())
}

/// An attach of a receiver.
pub(crate) fn receiver(channel: u16, handle: u32, name: &str, address: &str, settled: bool) -> Vec<u8> {
    let attach = Attach {
        name,
        handle,
        role: Role::Receiver,
        snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
        source: Some(Source { address: Some(address), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    of(channel, &attach.into())
}

/// A detach without an error.
pub(crate) fn detach(channel: u16, handle: u32) -> Vec<u8> {
    of(channel, &Detach { handle, closed: true, error: None }.into())
}

/// An end without an error.
pub(crate) fn end(channel: u16) -> Vec<u8> {
    of(channel, &End { error: None }.into())
}

/// A begin.
pub(crate) fn begin(channel: u16) -> Vec<u8> {
    let begin = Begin { incoming_window: 1 << 20, outgoing_window: 1 << 20, handle_max: u32::MAX, ..Begin::default() };
    of(channel, &begin.into())
}

/// A flow of a receiver.
pub(crate) fn grant(handle: u32, link_credit: u32) -> Flow<'static> {
    Flow {
        incoming_window: 1 << 20,
        handle: Some(handle),
        delivery_count: Some(0),
        link_credit: Some(link_credit),
        ..Flow::default()
    }
}

/// A first transfer on channel 0, tagged with its delivery-id unless `change` removes the tag.
pub(crate) fn transfer<'t>(handle: u32, id: u32, payload: &[u8], change: impl FnOnce(&mut Transfer<'t>)) -> Vec<u8> {
    let mut changed = Transfer {
        handle,
        delivery_id: Some(id),
        delivery_tag: Some(b"number"),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    };
    change(&mut changed);
    let tag = id.to_be_bytes();
    let transfer = Transfer { delivery_tag: changed.delivery_tag.map(|_| &tag[..]), ..changed };
    let mut out = Vec::new();
    encode_transfer(&mut out, 0, &transfer, payload);
    out
}

impl Peer {
    /// Reads the broker's header and the mechanisms that it offers.
    pub(crate) fn mechanisms(&mut self) {
        assert_eq!(self.take(8), HEADER_SASL);
        self.frame().expect("sasl-mechanisms");
    }
}
