//! The interface between a broker and its protocols. The broker knows protocols and their connections only by these traits.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_message::deliver::Delivery;
use leveret_message::hub::{self, ForeignEncoding};
use leveret_message::{Encoding, StoredMessage};
use leveret_metrics::{SizeTotals, Totals};
use leveret_model::{Arguments, ConnectionId, Identity, Refused};
use thiserror::Error;

use crate::broker::Broker;
use crate::group::GroupSlot;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::peer::Peer;
pub use crate::protocol_info::ProtocolInfo;
use crate::time::{Nanos, Now};
use crate::traffic::Traffic;

/// A protocol's decision on a connection's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognised {
    /// They belong to another protocol.
    No,
    /// More bytes are needed.
    Perhaps,
    /// They belong to this protocol; the given number of bytes is its header, which isn't passed to the session.
    Yes(usize),
}

/// A protocol that clients speak.
pub trait Protocol: Send + Sync {
    /// Its names.
    fn info(&self) -> &'static ProtocolInfo;

    /// Whether a connection that begins with `input` uses it.
    fn recognise(&self, input: &[u8]) -> Recognised;

    /// The answer to a client that began with `received`, which no protocol of its listener recognises. The first protocol with
    /// an answer is used.
    fn refusal(&self, received: &[u8]) -> Option<&'static [u8]> {
        let _ = received;
        None
    }

    /// The response of a SASL mechanism that this protocol defines, in PLAIN's form (RFC 4616); `None` for other mechanisms.
    /// Clients of all protocols may use it.
    fn plain_response(&self, mechanism: &str, response: &[u8]) -> Option<Result<Vec<u8>, String>> {
        let _ = (mechanism, response);
        None
    }

    /// The form of messages that are published and read without a connection, if this protocol defines it.
    fn plain_form(&self) -> Option<&dyn PlainForm> {
        None
    }

    /// The encoding in which this protocol's messages are stored, if `leveret-message` doesn't know it: if its codec isn't one of ours.
    fn encoding(&self) -> Option<&'static dyn ForeignEncoding> {
        None
    }

    /// Begins a session for a connection that was recognised at `now`.
    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn Session>;

    /// Refused commands so far, by the reason that clients were told; empty if the protocol doesn't count them.
    fn refused(&self) -> Vec<RefusedCommands> {
        Vec::new()
    }
}

/// The number of commands that were refused for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedCommands {
    /// The reason, as in the names of metrics.
    pub name: &'static str,
    /// The number of commands.
    pub count: u64,
}

/// The form in which the HTTP API takes and shows messages: their properties by name, with headers as a table.
pub trait PlainForm {
    /// Checks the properties of a message that `who` publishes at `now`, and encodes them.
    ///
    /// # Errors
    /// A property is wrong, or `user_id` names another user.
    fn encode(&self, broker: &Broker, who: &Identity, properties: &Arguments, now: Now) -> Result<Encoded, Refused>;

    /// The properties of a stored message as this delivery shows them, and its body.
    fn show<'a>(&self, message: &StoredMessage<'a>, delivery: &Delivery) -> (Arguments, Cow<'a, [u8]>);
}

/// The properties of a message that is published without a connection, in the form in which they are stored.
pub struct Encoded {
    /// The encoding of `properties`.
    pub encoding: Encoding,
    /// The encoded properties.
    pub properties: Vec<u8>,
    /// The broker's additions.
    pub overlay: Vec<u8>,
    /// Whether the message is persistent.
    pub persistent: bool,
    /// Its priority, if it has one.
    pub priority: Option<u8>,
    /// Wall time in milliseconds since the Unix epoch at which it expires; 0 is never.
    pub expiry_ms: u64,
}

/// A connection of a protocol: bytes in, bytes out, time as a parameter. [`crate::Connection`] documents when each is called.
pub trait Session: Send {
    /// Handles input; returns how many bytes it used.
    fn receive(&mut self, input: &[u8], now: Now) -> usize;
    /// Does due work, up to one write's worth.
    fn turn(&mut self, now: Now);
    /// Whether the last turn left work behind.
    fn wants_turn(&self) -> bool;
    /// False while backpressure applies to its input.
    fn wants_read(&self) -> bool;
    /// Time of the next turn at the latest.
    fn next_deadline(&self) -> Option<Nanos>;
    /// Time of the next turn, to the millisecond, for publishers that are paced.
    fn next_pace(&self) -> Option<Nanos> {
        None
    }
    /// Whether the connection is over.
    fn is_finished(&self) -> bool;
    /// Whether it is ending and one turn couldn't end everything.
    fn is_ending(&self) -> bool;
    /// Whether a user has logged in.
    fn is_logged_in(&self) -> bool;
    /// Output for the socket.
    fn output(&mut self) -> &mut Output;
    /// Counts bytes that were read from its socket and written to it.
    fn transferred(&mut self, read: u64, written: u64, now: Now);
    /// The socket is closed. Idempotent.
    fn disconnected(&mut self, now: Now);
}

/// A connection whose protocol is known.
pub struct Accepted {
    /// The broker that accepted it.
    pub broker: Arc<Broker>,
    /// Its id.
    pub id: ConnectionId,
    /// The other end.
    pub peer: Peer,
    /// Its outbox, for events from elsewhere.
    pub outbox: Arc<Outbox>,
    /// Its counters.
    pub counters: Box<Traffic>,
    /// The slot for a group of its core's connections that stays open over several turns.
    pub group_slot: Arc<GroupSlot>,
    /// Its protocol.
    pub spoken: Spoken,
    /// Monotonic time in nanoseconds by which it has to be open.
    pub deadline: Nanos,
}

/// A protocol of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// Its index among the broker's protocols.
    pub(crate) at: usize,
    /// Its names.
    pub info: &'static ProtocolInfo,
}

/// A listener names a protocol that the broker doesn't speak.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("protocol '{0}' is not spoken by this node")]
pub struct NotSpoken(String);

/// The protocols of a broker, or the subset that a listener accepts.
#[derive(Clone)]
pub struct Protocols(Arc<[(Spoken, Arc<dyn Protocol>)]>);

impl Protocols {
    /// All protocols of a broker, in the order in which they are tried and shown. Their encodings are known from now on.
    ///
    /// # Panics
    /// Two of them have encodings with the same number.
    pub fn new(protocols: impl IntoIterator<Item = Arc<dyn Protocol>>) -> Self {
        let protocols: Vec<_> = protocols.into_iter().collect();
        protocols.iter().filter_map(|protocol| protocol.encoding()).for_each(hub::make_known);
        let numbered = protocols.into_iter().enumerate();
        Self(numbered.map(|(at, protocol)| (Spoken { at, info: protocol.info() }, protocol)).collect())
    }

    /// The protocols with these labels.
    ///
    /// # Errors
    /// The first unknown label.
    pub fn named(&self, labels: &[&str]) -> Result<Self, NotSpoken> {
        let find = |label: &&str| {
            let found = self.0.iter().find(|(spoken, _)| spoken.info.label == *label);
            found.cloned().ok_or_else(|| NotSpoken((*label).to_owned()))
        };
        labels.iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    /// The protocols, in their order.
    pub fn spoken(&self) -> impl Iterator<Item = Spoken> {
        self.0.iter().map(|(spoken, _)| *spoken)
    }

    /// Like [`Protocol::plain_response`], of the protocol that defines the mechanism.
    pub fn plain_response(&self, mechanism: &str, response: &[u8]) -> Option<Result<Vec<u8>, String>> {
        self.0.iter().find_map(|(_, protocol)| protocol.plain_response(mechanism, response))
    }

    /// The form of messages without a connection, and the protocol that defines it.
    pub(crate) fn plain_form(&self) -> Option<(Spoken, &dyn PlainForm)> {
        self.iter().find_map(|(spoken, protocol)| Some((spoken, protocol.plain_form()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Spoken, &Arc<dyn Protocol>)> {
        self.0.iter().map(|(spoken, protocol)| (*spoken, protocol))
    }
}

/// Totals of the connections of one protocol.
pub struct ProtocolTotals {
    /// The names of the protocol.
    pub info: &'static ProtocolInfo,
    /// Totals of all counters.
    pub totals: Totals,
    /// Sizes of the messages that they published.
    pub sizes: SizeTotals,
    /// Refused commands, see [`Protocol::refused`].
    pub refused: Vec<RefusedCommands>,
}
