//! A connection: login, frames in and out, and what arrives without being asked for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use leveret_stream_protocol::client::{ServerCommand, request};
use leveret_stream_protocol::{key, next_frame};

use super::chunk::ReceivedChunk;
use super::subscription::Subscription;
use super::{OK, number};
use crate::{PATIENCE, secrets};

/// Largest frame of a server that is read: chunks aren't limited by what was agreed.
const FRAME_MAX: u32 = 256 << 20;

/// The transport of the bytes: a socket, or TLS over one.
pub trait Transport: Read + Write + Send {}

impl<T: Read + Write + Send> Transport for T {}

/// User, password, vhost and limits.
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// User.
    pub user: &'a str,
    /// Its password.
    pub password: &'a str,
    /// Virtual host.
    pub vhost: &'a str,
    /// Largest frame that the client asks for.
    pub frame_max: u32,
}

impl Default for Login<'_> {
    fn default() -> Self {
        Self { user: "guest", password: "guest", vhost: "/", frame_max: 1 << 20 }
    }
}

/// A close of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The code.
    pub code: u16,
    /// The reason.
    pub reason: String,
}

/// A connection.
pub struct StreamClient {
    transport: Box<dyn Transport>,
    input: Vec<u8>,
    correlation: u32,
    /// Messages that were sent and aren't answered, by publisher; a publishing id may be sent more than once.
    pub(super) unanswered: BTreeMap<u8, BTreeMap<u64, u32>>,
    /// Confirmed ids by publisher, in the order received.
    pub confirmed: BTreeMap<u8, Vec<u64>>,
    /// Refused messages: publisher, publishing id, code.
    pub refused: Vec<(u8, u64, u16)>,
    /// Subscriptions by id.
    pub subscriptions: BTreeMap<u8, Subscription>,
    /// Credit that was refused: subscription and code.
    pub credit_refused: Vec<(u8, u16)>,
    /// Changes of activity that aren't answered: correlation id, subscription, whether it becomes active.
    pub updates: VecDeque<(u32, u8, bool)>,
    /// Streams that went, each with its code.
    pub gone: VecDeque<(String, u16)>,
    /// The properties of the answer to `Open`.
    pub properties: BTreeMap<String, String>,
    /// The limits that the server proposed: frame and heartbeat.
    pub proposed: (u32, u32),
    /// The close of the server, which was answered.
    pub closed: Option<Closed>,
}

impl fmt::Debug for StreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamClient").field("confirmed", &self.confirmed).field("closed", &self.closed).finish()
    }
}

impl StreamClient {
    /// A socket without a login.
    ///
    /// # Panics
    /// When nothing listens.
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("a listener for streams");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_nodelay(true).expect("an option");
        Self::over(socket)
    }

    /// A connection over something that is open already, without a login.
    pub fn over(transport: impl Transport + 'static) -> Self {
        Self {
            transport: Box::new(transport),
            input: Vec::new(),
            correlation: 0,
            unanswered: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            refused: Vec::new(),
            subscriptions: BTreeMap::new(),
            credit_refused: Vec::new(),
            updates: VecDeque::new(),
            gone: VecDeque::new(),
            properties: BTreeMap::new(),
            proposed: (0, 0),
            closed: None,
        }
    }

    /// A connection of guest in the default vhost.
    ///
    /// # Panics
    /// When the login fails.
    pub fn open(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        client.log_in(&Login::default()).unwrap_or_else(|code| panic!("guest's login was refused with {code}"));
        client
    }

    /// Logs in and enters a vhost.
    ///
    /// # Errors
    /// The code of the refusal.
    ///
    /// # Panics
    /// If the server answers something else than the protocol says.
    pub fn log_in(&mut self, login: &Login<'_>) -> Result<(), u16> {
        secrets::used(login.user, login.password);
        let response = format!("\0{}\0{}", login.user, login.password);
        let code = self.call(
            |out, correlation| request::sasl_authenticate(out, correlation, "PLAIN", response.as_bytes()),
            |answer| match answer {
                ServerCommand::SaslAuthenticated { code, .. } => code,
                other => panic!("an answer to the login expected: {other:?}"),
            },
        );
        if code != OK {
            return Err(code);
        }
        let frame = self.next_frame().expect("tune");
        let Ok(ServerCommand::Tune { frame_max, heartbeat }) = decode(&frame) else { panic!("tune expected") };
        self.proposed = (frame_max, heartbeat);
        let mut out = Vec::new();
        request::tune(&mut out, login.frame_max, 0);
        self.send(&out);
        let (code, properties) = self.call(
            |out, correlation| request::open(out, correlation, login.vhost),
            |answer| match answer {
                ServerCommand::Opened { code, properties, .. } => {
                    (code, properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
                }
                other => panic!("an answer to open expected: {other:?}"),
            },
        );
        self.properties = properties;
        if code == OK { Ok(()) } else { Err(code) }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the socket is broken.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the bytes are sent");
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The socket's.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes)
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// If none comes, or one that can't be decoded.
    pub fn call<T>(&mut self, write: impl FnOnce(&mut Vec<u8>, u32), read: impl FnOnce(ServerCommand<'_>) -> T) -> T {
        self.try_call(write, read).unwrap_or_else(|error| panic!("no answer: {error}; closed: {:?}", self.closed))
    }

    /// As [`StreamClient::call`], for a server that may go at any time.
    ///
    /// # Errors
    /// The socket's.
    ///
    /// # Panics
    /// If what comes can't be decoded.
    pub fn try_call<T>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>, u32),
        read: impl FnOnce(ServerCommand<'_>) -> T,
    ) -> io::Result<T> {
        self.correlation += 1;
        let mut out = Vec::new();
        write(&mut out, self.correlation);
        self.try_send(&out)?;
        loop {
            if let Some(frame) = self.step()? {
                let answer = decode(&frame).unwrap_or_else(|error| panic!("{error}: {frame:?}"));
                assert_eq!(correlation_of(&frame), self.correlation, "the answer to another request: {answer:?}");
                return Ok(read(answer));
            }
        }
    }

    /// Sends a request whose answer has only a code, and returns it.
    pub fn code(&mut self, write: impl FnOnce(&mut Vec<u8>, u32)) -> u16 {
        self.call(write, |answer| match answer {
            ServerCommand::Response { code, .. } => code,
            other => panic!("a code expected: {other:?}"),
        })
    }

    /// Reads until `wanted` holds.
    ///
    /// # Panics
    /// If the server closes before or falls silent, or answers what wasn't asked.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let end = self.try_wait(wanted);
        end.unwrap_or_else(|error| panic!("{what}: {error}; {self:?}"));
    }

    /// Reads until `wanted` holds.
    ///
    /// # Errors
    /// The socket's.
    ///
    /// # Panics
    /// If the server answers what wasn't asked.
    pub fn try_wait(&mut self, wanted: impl Fn(&Self) -> bool) -> io::Result<()> {
        while !wanted(self) {
            let answer = self.step()?;
            assert_eq!(answer, None, "an answer without a request");
        }
        Ok(())
    }

    /// Waits for the server's close, and for the end of the connection after it. `None` if it ends without one.
    pub fn until_closed(&mut self) -> Option<Closed> {
        while self.step().is_ok() {}
        self.closed.clone()
    }

    /// Waits for an answer: everything that the server sent before has arrived then.
    ///
    /// # Panics
    /// If none comes.
    pub fn barrier(&mut self) {
        self.partitions("no such super stream");
    }

    /// Closes the connection in order.
    ///
    /// # Panics
    /// If the server doesn't answer.
    pub fn close(mut self) {
        assert_eq!(self.code(|out, correlation| request::close(out, correlation, OK, "bye")), OK);
    }

    /// Reads one frame. An answer to a request is returned, everything else noted.
    pub(super) fn step(&mut self) -> io::Result<Option<Vec<u8>>> {
        let frame = self.next_frame()?;
        let command = decode(&frame).unwrap_or_else(|error| panic!("{error}: {frame:?}"));
        match command {
            ServerCommand::Confirm { publisher, ids } => {
                assert!(ids.iter().len() > 0, "a confirm of nothing");
                for id in ids.iter() {
                    self.answered(publisher, id);
                    self.confirmed.entry(publisher).or_default().push(id);
                }
            }
            ServerCommand::PublishError { publisher, errors } => {
                for (id, code) in errors.iter() {
                    self.answered(publisher, id);
                    self.refused.push((publisher, id, code));
                }
            }
            ServerCommand::Deliver { subscription, committed, chunk } => {
                let chunk = ReceivedChunk::checked(chunk, committed);
                // Chunks on their way when a subscription ends may still come, but not after the answer.
                let known = self.subscriptions.get_mut(&subscription);
                known.unwrap_or_else(|| panic!("a chunk of subscription {subscription}")).received(chunk);
            }
            ServerCommand::CreditRefused { code, subscription } => self.credit_refused.push((subscription, code)),
            ServerCommand::ConsumerUpdate { correlation, subscription, is_active } => {
                self.updates.push_back((correlation, subscription, is_active));
            }
            ServerCommand::MetadataUpdate { code, stream } => self.gone.push_back((stream.to_owned(), code)),
            ServerCommand::Heartbeat => {}
            ServerCommand::Close { correlation, code, reason } => {
                self.closed = Some(Closed { code, reason: reason.to_owned() });
                let mut out = Vec::new();
                request::closed(&mut out, correlation, OK);
                let _ = self.try_send(&out);
            }
            _ => return Ok(Some(frame)),
        }
        Ok(None)
    }

    fn answered(&mut self, publisher: u8, id: u64) {
        let sent = self.unanswered.get_mut(&publisher);
        let times = sent.and_then(|sent| sent.get_mut(&id).filter(|times| **times > 0));
        *times.unwrap_or_else(|| panic!("publisher {publisher}: an answer to {id}, which wasn't sent")) -= 1;
    }

    fn next_frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let found = next_frame(&self.input, FRAME_MAX).unwrap_or_else(|error| panic!("{error}"));
            if let Some((_, length)) = found {
                let rest = self.input.split_off(length);
                return Ok(std::mem::replace(&mut self.input, rest));
            }
            let mut buffer = [0; 65536];
            match self.transport.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend_from_slice(&buffer[..count]),
            }
        }
    }
}

fn decode(frame: &[u8]) -> Result<ServerCommand<'_>, leveret_stream_protocol::DecodeError> {
    let (frame, _) = next_frame(frame, 0).expect("a frame").expect("a whole one");
    ServerCommand::decode(&frame)
}

/// The correlation id behind size, key and version.
fn correlation_of(frame: &[u8]) -> u32 {
    assert!(u16::from_be_bytes([frame[4], frame[5]]) & 0x7FFF != key::CREDIT, "credit has no correlation id");
    u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]])
}

impl StreamClient {
    /// Fails if the server refused a message.
    ///
    /// # Panics
    /// If it did.
    pub fn nothing_refused(&self) {
        assert_eq!(self.refused, [], "{} is no code of success", number(super::ResponseCode::AccessRefused));
    }
}
