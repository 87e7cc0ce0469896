//! Dead-lettering of messages, and the history of deaths that they carry.
//!
//! One record per queue and [`Reason`], the most recent death first; a further death with the same queue and reason
//! increments its record's count and moves it to the front. Byte table (little endian) of the overlay's entry: length
//! (1) and name of the exchange that the message had at its last death, then the records:
//!
//! | size | field |
//! |---|---|
//! | 4 | length of the rest of the record |
//! | 1 | reason: 1 expired, 2 rejected, 3 maxlen, 4 delivery_limit |
//! | 1 | flags: bit 0 the message's first death, bit 1 it had a time to live |
//! | 8 | deaths |
//! | 8 | first, milliseconds since the Unix epoch |
//! | 8 | last |
//! | 8 | with bit 1: the time to live, milliseconds |
//! | 1 + n | queue |
//! | 1 + n | exchange that the message had at the first of these deaths |
//! | 4 + n each | the routing keys that it had then, without those that no receiver may see |

use crate::envelope::Envelope;
use crate::overlay::{
    Keys, added_entry, compared_by_entry, deaths_entry, encode_keys, failures_entry, push_sized, stamp_entries,
    take_sized,
};
use crate::stored::{StoredMessage, encode_head_with};

const FLAG_FIRST: u8 = 1;
const FLAG_TTL: u8 = 2;

/// The reason why a message left its queue other than by being acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its own or its queue's time to live ended.
    Expired,
    /// A consumer rejected it, or declared it undeliverable.
    Rejected,
    /// Its queue was full.
    MaxLen,
    /// Its delivery limit was exceeded.
    DeliveryLimit,
}

impl Reason {
    /// RabbitMQ's name of the reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Rejected => "rejected",
            Self::MaxLen => "maxlen",
            Self::DeliveryLimit => "delivery_limit",
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Expired => 1,
            Self::Rejected => 2,
            Self::MaxLen => 3,
            Self::DeliveryLimit => 4,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Expired,
            2 => Self::Rejected,
            3 => Self::MaxLen,
            4 => Self::DeliveryLimit,
            _ => return None,
        })
    }
}

/// One death, with everything that dead-lettering needs.
///
/// The steps of dead-lettering:
///
/// 1. [`BatchBuilder::push_dead_letter`](crate::BatchBuilder::push_dead_letter) (or
///    [`encode_head`](Self::encode_head)) writes the message as it is after this death: the dead-letter
///    exchange and routing key in its envelope, no expiry, the death on top of its history, the body shared.
/// 2. It is routed to `exchange` by each of the new message's
///    [`routing_keys`](StoredMessage::routing_keys), with its headers.
/// 3. A target queue for which [`is_cycle`] is true doesn't get it. If none is left it is dropped.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// Name of the queue in which it died, at most 255 bytes.
    pub queue: &'a [u8],
    /// The reason.
    pub reason: Reason,
    /// Wall time of the death in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The queue's dead-letter exchange.
    pub exchange: &'a [u8],
    /// The queue's dead-letter routing key; without one the message keeps all of its keys.
    pub routing_key: Option<&'a [u8]>,
    /// How often its delivery failed, if that continues in a quorum queue that it comes to.
    pub failures: u32,
}

impl DeadLetter<'_> {
    /// Appends the head of the dead letter; the body is unchanged.
    ///
    /// # Panics
    /// If a name is over 255 bytes: the model has capped them.
    pub fn encode_head(&self, out: &mut Vec<u8>, message: &StoredMessage<'_>) {
        let letter = StoredMessage {
            envelope: Envelope {
                exchange: self.exchange,
                routing_key: self.routing_key.unwrap_or(message.envelope.routing_key),
                received_ms: self.now_ms,
                expiry_ms: 0,
                ..message.envelope
            },
            ..*message
        };
        encode_head_with(out, &letter, message.body.len(), |out| {
            if self.routing_key.is_none() {
                encode_keys(out, message.overlay.further_keys(), message.overlay.blind_keys());
            }
            stamp_entries(out, &message.overlay);
            added_entry(out, message.overlay.added_bytes());
            failures_entry(out, self.failures);
            message.overlay.compared_by().into_iter().for_each(|by| compared_by_entry(out, by));
            deaths_entry(out, |out| self.encode_history(out, message));
        });
    }

    fn encode_history(&self, out: &mut Vec<u8>, message: &StoredMessage<'_>) {
        push_name(out, message.envelope.exchange);
        let history = message.overlay.deaths();
        let same = |death: &Death<'_>| death.queue == self.queue && death.reason == self.reason;
        let before = history.and_then(|deaths| deaths.iter().find(same));
        match before {
            Some(death) => Death { count: death.count.saturating_add(1), last_ms: self.now_ms, ..death }.encode(out),
            None => {
                let mut keys = Vec::new();
                push_sized(&mut keys, message.envelope.routing_key);
                message.overlay.further_keys().for_each(|key| push_sized(&mut keys, key));
                let death = Death {
                    queue: self.queue,
                    reason: self.reason,
                    count: 1,
                    first_ms: self.now_ms,
                    last_ms: self.now_ms,
                    exchange: message.envelope.exchange,
                    ttl_ms: message.envelope.ttl_ms(),
                    is_first: history.is_none(),
                    keys: &keys,
                };
                death.encode(out);
            }
        }
        history.iter().flat_map(Deaths::iter).filter(|death| !same(death)).for_each(|death| death.encode(out));
    }
}

/// Whether a dead letter that would go to the queue `target` was there before and hasn't been rejected by a client
/// since: such a message would cycle forever. `letter` already contains its newest death.
pub fn is_cycle(letter: &StoredMessage<'_>, target: &[u8]) -> bool {
    let Some(deaths) = letter.overlay.deaths() else { return false };
    for death in deaths.iter() {
        if death.reason == Reason::Rejected {
            return false;
        }
        if death.queue == target {
            return true;
        }
    }
    false
}

/// The deaths of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deaths<'a> {
    bytes: &'a [u8],
}

impl<'a> Deaths<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The exchange that the message had at its last death; empty for the default exchange.
    pub fn last_exchange(&self) -> &'a [u8] {
        take_name(self.bytes).map_or(&[], |(name, _)| name)
    }

    /// One record per queue and reason, the most recent first.
    pub fn iter(&self) -> impl Iterator<Item = Death<'a>> + use<'a> {
        let mut rest = take_name(self.bytes).map_or(&[][..], |(_, rest)| rest);
        std::iter::from_fn(move || {
            let (record, after) = take_sized(rest)?;
            rest = after;
            Death::parse(record)
        })
    }
}

/// The deaths of a message in one queue for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death<'a> {
    /// The queue.
    pub queue: &'a [u8],
    /// The reason.
    pub reason: Reason,
    /// Number of deaths.
    pub count: u64,
    /// Time of the first one, in milliseconds since the Unix epoch.
    pub first_ms: u64,
    /// Time of the last one, in milliseconds since the Unix epoch.
    pub last_ms: u64,
    /// The exchange that the message had been published to; empty for the default exchange.
    pub exchange: &'a [u8],
    /// The publisher's time to live in milliseconds, which is removed from a dead letter.
    pub ttl_ms: Option<u64>,
    /// Whether it is the message's first death.
    pub is_first: bool,
    keys: &'a [u8],
}

impl<'a> Death<'a> {
    /// The routing keys that the message had, including `CC` but not `BCC`.
    pub fn routing_keys(&self) -> Keys<'a> {
        Keys::new(self.keys)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let first = if self.is_first { FLAG_FIRST } else { 0 };
        let ttl = if self.ttl_ms.is_some() { FLAG_TTL } else { 0 };
        out.extend_from_slice(&[self.reason.to_byte(), first | ttl]);
        for number in [self.count, self.first_ms, self.last_ms].into_iter().chain(self.ttl_ms) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        push_name(out, self.queue);
        push_name(out, self.exchange);
        out.extend_from_slice(self.keys);
        let length = u32::try_from(out.len() - start - 4).expect("death over 4 GiB");
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn parse(record: &'a [u8]) -> Option<Self> {
        let (&[reason, flags], rest) = record.split_first_chunk()?;
        let (count, rest) = take_number(rest)?;
        let (first_ms, rest) = take_number(rest)?;
        let (last_ms, rest) = take_number(rest)?;
        let (ttl_ms, rest) = match flags & FLAG_TTL {
            0 => (None, rest),
            _ => take_number(rest).map(|(ttl, rest)| (Some(ttl), rest))?,
        };
        let (queue, rest) = take_name(rest)?;
        let (exchange, keys) = take_name(rest)?;
        let reason = Reason::from_byte(reason)?;
        let is_first = flags & FLAG_FIRST != 0;
        Some(Self { queue, reason, count, first_ms, last_ms, exchange, ttl_ms, is_first, keys })
    }
}

fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(u8::try_from(name.len()).expect("name over 255 bytes"));
    out.extend_from_slice(name);
}

fn take_name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}
