//! What a broker asks of a protocol and of its connections. It knows them by these traits alone.

use std::sync::Arc;

use leveret_metrics::{SizeTotals, Totals};
use leveret_model::ConnectionId;
use thiserror::Error;

use crate::broker::Broker;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::peer::Peer;
pub use crate::protocol_info::ProtocolInfo;
use crate::time::{Nanos, Now};
use crate::traffic::Traffic;

/// What a protocol makes of a connection's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognised {
    /// They are another's.
    No,
    /// More of them are needed.
    Perhaps,
    /// They are its own; so many of them are its header and aren't given to the session.
    Yes(usize),
}

/// A protocol that clients speak.
pub trait Protocol: Send + Sync {
    /// What it is called.
    fn info(&self) -> &'static ProtocolInfo;

    /// Whether a connection that begins with `input` speaks it.
    fn recognise(&self, input: &[u8]) -> Recognised;

    /// The answer to a client that began with `received`, which no protocol of its listener recognises. The first protocol
    /// that has one answers.
    fn refusal(&self, received: &[u8]) -> Option<&'static [u8]> {
        let _ = received;
        None
    }

    /// The response of a SASL mechanism that this protocol defines, in PLAIN's form (RFC 4616); none for other mechanisms.
    /// Clients of all protocols may name it.
    fn plain_response(&self, mechanism: &str, response: &[u8]) -> Option<Result<Vec<u8>, String>> {
        let _ = (mechanism, response);
        None
    }

    /// A session for a connection that was recognised at `now`.
    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn Session>;
}

/// A connection of a protocol: bytes in, bytes out, time as a parameter. [`crate::Connection`] says when each is called.
pub trait Session: Send {
    /// Handles input; returns how many bytes it used.
    fn receive(&mut self, input: &[u8], now: Now) -> usize;
    /// Does whatever is due, up to one write's worth.
    fn turn(&mut self, now: Now);
    /// The last turn left work behind.
    fn wants_turn(&self) -> bool;
    /// False while its input is held back.
    fn wants_read(&self) -> bool;
    /// When it has to have a turn at the latest.
    fn next_deadline(&self) -> Option<Nanos>;
    /// Nothing more will come.
    fn is_finished(&self) -> bool;
    /// It is ending, and more is left of it than one turn may end.
    fn is_ending(&self) -> bool;
    /// A user has proved its identity.
    fn is_logged_in(&self) -> bool;
    /// What the socket is to take.
    fn output(&mut self) -> &mut Output;
    /// So many bytes were read from its socket and written to it.
    fn transferred(&mut self, read: u64, written: u64, now: Now);
    /// The socket is gone. Idempotent.
    fn disconnected(&mut self, now: Now);
}

/// A connection whose protocol is known.
pub struct Accepted {
    /// The broker that accepted it.
    pub broker: Arc<Broker>,
    /// Its id.
    pub id: ConnectionId,
    /// Where it comes from.
    pub peer: Peer,
    /// How it is reached.
    pub outbox: Arc<Outbox>,
    /// What it counts.
    pub counters: Box<Traffic>,
    /// What it speaks.
    pub spoken: Spoken,
    /// It has to be open at this monotonic time, in nanoseconds.
    pub deadline: Nanos,
}

/// A protocol of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// Its place among the broker's protocols.
    pub(crate) at: usize,
    /// What it is called.
    pub info: &'static ProtocolInfo,
}

/// A listener names a protocol that the broker doesn't speak.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("protocol '{0}' is not spoken by this node")]
pub struct NotSpoken(String);

/// The protocols of a broker, or those of them that a listener accepts.
#[derive(Clone)]
pub struct Protocols(Arc<[(Spoken, Arc<dyn Protocol>)]>);

impl Protocols {
    /// All protocols of a broker, in the order in which they are asked and shown.
    pub fn new(protocols: impl IntoIterator<Item = Arc<dyn Protocol>>) -> Self {
        let numbered = protocols.into_iter().enumerate();
        Self(numbered.map(|(at, protocol)| (Spoken { at, info: protocol.info() }, protocol)).collect())
    }

    /// Those with these labels.
    ///
    /// # Errors
    /// The first label that none of them has.
    pub fn named(&self, labels: &[&str]) -> Result<Self, NotSpoken> {
        let find = |label: &&str| {
            let found = self.0.iter().find(|(spoken, _)| spoken.info.label == *label);
            found.cloned().ok_or_else(|| NotSpoken((*label).to_owned()))
        };
        labels.iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    /// What they are called.
    pub fn spoken(&self) -> impl Iterator<Item = Spoken> {
        self.0.iter().map(|(spoken, _)| *spoken)
    }

    /// As [`Protocol::plain_response`], of the protocol that defines the mechanism.
    pub fn plain_response(&self, mechanism: &str, response: &[u8]) -> Option<Result<Vec<u8>, String>> {
        self.0.iter().find_map(|(_, protocol)| protocol.plain_response(mechanism, response))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Spoken, &Arc<dyn Protocol>)> {
        self.0.iter().map(|(spoken, protocol)| (*spoken, protocol))
    }
}

/// What connections of one protocol have counted.
pub struct ProtocolTotals {
    /// What the protocol is called.
    pub info: &'static ProtocolInfo,
    /// Everything they counted.
    pub totals: Totals,
    /// Sizes of the messages that they published.
    pub sizes: SizeTotals,
}
