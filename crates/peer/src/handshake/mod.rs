//! The beginning of a link, without sockets.
//!
//! | dialer | acceptor |
//! |---|---|
//! | preamble, HELLO | |
//! | | preamble, HELLO |
//! | PROOF | |
//! | | PROOF, then WELCOME or REFUSED |
//! | WELCOME or REFUSED | |
//!
//! The preamble is `LVRP`, version 1 (2), zeros (2). A message is its kind (1), the length of its body (2) and its body. Nothing that a
//! HELLO says counts before the proof behind it is right. A side that can't go on says why in REFUSED, and that text is believed as much as
//! the proof before it: before a right proof it is a stranger's.

use crate::foreign::describe;
use crate::hello::{Hello, Versions};
use crate::proof::{Cookie, PROOF_BYTES, Role, Transcript};
use crate::wire::{FieldReader, FieldWriter, cut, harmless};

/// The first bytes of both sides: magic, version of the handshake, zeros.
pub const PREAMBLE: [u8; 8] = *b"LVRP\x01\0\0\0";
const MAGIC: &[u8] = b"LVRP";

/// Most bytes that a side takes before the proof of the other one is right.
pub const UNPROVEN_BYTES_MAX: usize = 16 << 10;
/// Longest body of a message.
const BODY_BYTES_MAX: usize = 8 << 10;
/// Longest text of a refusal.
const TEXT_BYTES_MAX: usize = 2 << 10;
const HEAD: usize = 3;

const HELLO: u8 = 1;
const PROOF: u8 = 2;
const WELCOME: u8 = 3;
const REFUSED: u8 = 4;

/// The reason why there is no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Its bytes aren't those of a node.
    #[error("{0}")]
    Foreign(String),
    /// Its bytes aren't those of a handshake of this version.
    #[error("it broke off the rules of the handshake: {0}")]
    Malformed(String),
    /// The proof is wrong.
    #[error(
        "the Erlang cookies differ: give all nodes the same RABBITMQ_ERLANG_COOKIE or .erlang.cookie (or somebody between the nodes reads \
         along)"
    )]
    Cookie,
    /// There is no version that both speak.
    #[error("{0}")]
    Versions(String),
    /// The other side refuses the link, with this text. It has proven that it has the cookie.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The other side refuses the link, with this text, and has proven nothing.
    #[error("it refuses: {0}")]
    RefusedUnproven(String),
    /// This side refused the link, with this text.
    #[error("{0}")]
    RefusedHere(String),
    /// The other side closed the connection.
    #[error("{0}")]
    Closed(&'static str),
}

/// The state of a handshake after bytes came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// More bytes have to come.
    Incomplete,
    /// The other side has proven that it has the cookie: say [`Handshake::decide`].
    Proven,
    /// The link stands.
    Done(Box<Verdict>),
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The other side.
    pub hello: Hello,
    /// The version that both speak.
    pub version: u16,
    /// Bytes that came behind the handshake.
    pub rest: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preamble,
    Hello,
    Proof,
    /// The dialer waits for the acceptor's verdict, which comes first.
    TheirVerdict,
    /// This side has to decide.
    Own,
    /// The acceptor waits for the dialer's verdict, which comes last.
    LastVerdict,
    Over,
}

/// A handshake. After each call, send [`Handshake::output`]; after an error, close the connection then.
#[derive(Debug)]
pub struct Handshake {
    role: Role,
    cookie: Cookie,
    exporter: Vec<u8>,
    versions: Versions,
    own: Vec<u8>,
    theirs: Vec<u8>,
    hello: Option<Hello>,
    version: u16,
    state: State,
    input: Vec<u8>,
    /// Bytes that came before the other side had proven anything.
    unproven: usize,
    is_proven: bool,
    output: Vec<u8>,
}

impl Handshake {
    /// The side that connects. `exporter` is keying material of the TLS connection, empty without TLS.
    #[must_use]
    pub fn dialer(hello: &Hello, cookie: &Cookie, exporter: &[u8]) -> Handshake {
        let mut this = Handshake::new(Role::Dialer, hello, cookie, exporter);
        this.greet();
        this
    }

    /// The side that accepts. It says nothing before the other side has said HELLO.
    #[must_use]
    pub fn acceptor(hello: &Hello, cookie: &Cookie, exporter: &[u8]) -> Handshake {
        Handshake::new(Role::Acceptor, hello, cookie, exporter)
    }

    fn new(role: Role, hello: &Hello, cookie: &Cookie, exporter: &[u8]) -> Handshake {
        Handshake {
            role,
            cookie: cookie.clone(),
            exporter: exporter.to_vec(),
            versions: hello.versions,
            own: hello.encode(),
            theirs: Vec::new(),
            hello: None,
            version: 0,
            state: State::Preamble,
            input: Vec::new(),
            unproven: 0,
            is_proven: false,
            output: Vec::new(),
        }
    }

    /// Takes the bytes that have to be sent.
    #[must_use]
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The other side's HELLO, once its proof is right.
    #[must_use]
    pub fn proven(&self) -> Option<&Hello> {
        self.hello.as_ref().filter(|_| self.is_proven)
    }

    /// The name that the other side says it has, right or wrong; for texts.
    #[must_use]
    pub fn claimed_name(&self) -> Option<&str> {
        self.hello.as_ref().map(|hello| hello.node_name.as_str())
    }

    /// Takes bytes of the other side.
    ///
    /// # Errors
    /// There will be no link.
    pub fn receive(&mut self, input: &[u8]) -> Result<HandshakeStep, HandshakeError> {
        self.input.extend(input);
        if !self.is_proven {
            self.unproven += input.len();
        }
        let result = self.advance();
        if !self.is_proven && result.is_ok() && self.unproven > UNPROVEN_BYTES_MAX {
            return Err(self.fail(HandshakeError::Malformed(format!(
                "it sent more than {UNPROVEN_BYTES_MAX} bytes before it proved that it has the cookie"
            ))));
        }
        result.map_err(|error| self.fail(error))
    }

    /// Says whether the other side, which has proven that it has the cookie, gets its link: `Err` with the text for it.
    ///
    /// # Errors
    /// It doesn't, with the same text.
    ///
    /// # Panics
    /// If there is nothing to be decided.
    pub fn decide(&mut self, verdict: Result<(), String>) -> Result<HandshakeStep, HandshakeError> {
        assert_eq!(self.state, State::Own, "nothing is to be decided");
        if self.role == Role::Acceptor {
            let proof = self.transcript().prove(&self.cookie, self.role);
            self.say(PROOF, &proof);
        }
        match verdict {
            Ok(()) => self.say(WELCOME, &self.version.to_le_bytes()),
            Err(text) => {
                self.say_refused(&text);
                self.state = State::Over;
                return Err(HandshakeError::RefusedHere(text));
            }
        }
        match self.role {
            Role::Dialer => Ok(self.done()),
            Role::Acceptor => {
                self.state = State::LastVerdict;
                self.receive(&[])
            }
        }
    }

    /// The other side closed the connection.
    #[must_use]
    pub fn closed(&self) -> HandshakeError {
        HandshakeError::Closed(match self.state {
            State::Preamble => {
                "it closed the connection without a word; it may be no Leveret node, have another value of cluster.tls, or not be ready yet"
            }
            State::Hello | State::Proof => {
                "it closed the connection before it proved that it has the cookie; its log may say why"
            }
            _ => "it closed the connection during the handshake; its log may say why",
        })
    }

    fn advance(&mut self) -> Result<HandshakeStep, HandshakeError> {
        loop {
            match self.state {
                State::Own => return Ok(HandshakeStep::Proven),
                State::Over => return Ok(HandshakeStep::Incomplete),
                State::Preamble => {
                    if !self.take_preamble()? {
                        return Ok(HandshakeStep::Incomplete);
                    }
                    self.state = State::Hello;
                }
                _ => {
                    let Some((kind, body)) = self.take_message()? else { return Ok(HandshakeStep::Incomplete) };
                    if let Some(progress) = self.take(kind, body)? {
                        return Ok(progress);
                    }
                }
            }
        }
    }

    fn take_preamble(&mut self) -> Result<bool, HandshakeError> {
        let there = self.input.len().min(PREAMBLE.len());
        let magic = there.min(MAGIC.len());
        if self.input[..magic] != MAGIC[..magic] {
            // Wait for as much as shows what it is.
            return if there < PREAMBLE.len() && magic < 3 {
                Ok(false)
            } else {
                Err(HandshakeError::Foreign(describe(&self.input)))
            };
        }
        if there < PREAMBLE.len() {
            return Ok(false);
        }
        let version = u16::from_le_bytes([self.input[4], self.input[5]]);
        if self.input[..8] != PREAMBLE {
            return Err(HandshakeError::Versions(format!(
                "its handshake between nodes has version {version}, this node's 1; run releases that are closer to each other"
            )));
        }
        self.input.drain(..PREAMBLE.len());
        Ok(true)
    }

    fn take_message(&mut self) -> Result<Option<(u8, Vec<u8>)>, HandshakeError> {
        let Some(&[kind, low, high]) = self.input.first_chunk() else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes([low, high]));
        if !(HELLO..=REFUSED).contains(&kind) || length > BODY_BYTES_MAX {
            return Err(HandshakeError::Malformed(format!("a message of kind {kind} with {length} bytes")));
        }
        if self.input.len() < HEAD + length {
            return Ok(None);
        }
        let body = self.input[HEAD..HEAD + length].to_vec();
        self.input.drain(..HEAD + length);
        Ok(Some((kind, body)))
    }

    fn take(&mut self, kind: u8, body: Vec<u8>) -> Result<Option<HandshakeStep>, HandshakeError> {
        match (self.state, kind) {
            (_, REFUSED) => return Err(self.refused_by(&body)),
            (State::Hello, HELLO) => self.take_hello(body)?,
            (State::Proof, PROOF) => self.take_proof(&body)?,
            (State::TheirVerdict, WELCOME) => {
                self.check_welcome(&body)?;
                self.state = State::Own;
            }
            (State::LastVerdict, WELCOME) => {
                self.check_welcome(&body)?;
                return Ok(Some(self.done()));
            }
            (state, _) => return Err(HandshakeError::Malformed(format!("message {kind} in state {state:?}"))),
        }
        Ok(None)
    }

    fn take_hello(&mut self, body: Vec<u8>) -> Result<(), HandshakeError> {
        let hello = Hello::decode(&body).ok_or_else(|| HandshakeError::Malformed("its HELLO can't be read".into()))?;
        (self.hello, self.theirs) = (Some(hello), body);
        match self.role {
            Role::Dialer => {
                let proof = self.transcript().prove(&self.cookie, self.role);
                self.say(PROOF, &proof);
            }
            Role::Acceptor => self.greet(),
        }
        self.state = State::Proof;
        Ok(())
    }

    fn take_proof(&mut self, body: &[u8]) -> Result<(), HandshakeError> {
        if body.len() != PROOF_BYTES || !self.transcript().is_proof(&self.cookie, self.role.other(), body) {
            return Err(HandshakeError::Cookie);
        }
        self.is_proven = true;
        let theirs = self.hello.as_ref().map_or(self.versions, |hello| hello.versions);
        let common = self.versions.common(theirs);
        if common.is_none() && self.role == Role::Acceptor {
            // So that the text is believed.
            let proof = self.transcript().prove(&self.cookie, self.role);
            self.say(PROOF, &proof);
        }
        self.version = common.ok_or_else(|| self.no_common_version(theirs))?;
        self.state = if self.role == Role::Dialer { State::TheirVerdict } else { State::Own };
        Ok(())
    }

    fn no_common_version(&self, theirs: Versions) -> HandshakeError {
        let Versions { min, max } = self.versions;
        HandshakeError::Versions(format!(
            "one node speaks versions {} to {} of the protocol between nodes, the other {min} to {max}; upgrade in smaller steps",
            theirs.min, theirs.max
        ))
    }

    fn check_welcome(&self, body: &[u8]) -> Result<(), HandshakeError> {
        match FieldReader(body).u16() {
            Some(version) if version == self.version => Ok(()),
            version => Err(HandshakeError::Malformed(format!("it agreed on version {version:?}"))),
        }
    }

    fn refused_by(&self, body: &[u8]) -> HandshakeError {
        let text = harmless(body, TEXT_BYTES_MAX);
        match self.is_proven {
            true => HandshakeError::Refused(text),
            false => HandshakeError::RefusedUnproven(text),
        }
    }

    /// Tells the other side why, if it is a node and hasn't said the same itself.
    fn fail(&mut self, error: HandshakeError) -> HandshakeError {
        let is_told = !matches!(
            error,
            HandshakeError::Foreign(_) | HandshakeError::Refused(_) | HandshakeError::RefusedUnproven(_)
        );
        if is_told && self.state != State::Over {
            if self.role == Role::Acceptor && matches!(self.state, State::Preamble | State::Hello) {
                self.output.extend(PREAMBLE);
            }
            self.say_refused(&error.to_string());
        }
        self.state = State::Over;
        error
    }

    fn done(&mut self) -> HandshakeStep {
        self.state = State::Over;
        let hello = self.hello.clone().expect("it has proven itself");
        HandshakeStep::Done(Box::new(Verdict { hello, version: self.version, rest: std::mem::take(&mut self.input) }))
    }

    fn transcript(&self) -> Transcript<'_> {
        let (dialer, acceptor) = match self.role {
            Role::Dialer => (&self.own, &self.theirs),
            Role::Acceptor => (&self.theirs, &self.own),
        };
        Transcript { dialer, acceptor, exporter: &self.exporter }
    }

    fn greet(&mut self) {
        self.output.extend(PREAMBLE);
        let own = std::mem::take(&mut self.own);
        self.say(HELLO, &own);
        self.own = own;
    }

    fn say(&mut self, kind: u8, body: &[u8]) {
        self.output.extend(message(kind, body));
    }

    fn say_refused(&mut self, text: &str) {
        self.say(REFUSED, cut(text, TEXT_BYTES_MAX).as_bytes());
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut to = FieldWriter::default();
    to.u8(kind);
    to.u16(body.len() as u16);
    to.0.extend(body);
    to.0
}

/// An acceptor's bytes that refuse a link before any handshake, with this text.
#[must_use]
pub fn refusal(text: &str) -> Vec<u8> {
    [&PREAMBLE[..], &message(REFUSED, cut(text, TEXT_BYTES_MAX).as_bytes())].concat()
}

#[cfg(test)]
mod tests;
