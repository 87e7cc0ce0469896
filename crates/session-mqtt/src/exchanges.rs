//! The exchanges of packets that aren't over: messages of QoS 2 that came and aren't released, and messages that went out and aren't
//! acknowledged. Nothing is allocated for clients that have none.

use std::collections::BTreeMap;

use leveret_queue::{Run, push_run};

/// A message that its queue has until it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unacknowledged {
    /// Its number in the queue.
    pub number: u64,
    /// The length of its body.
    pub bytes: u32,
    /// Whether it is in the log.
    pub durable: bool,
}

impl Unacknowledged {
    /// The message as a run of its queue.
    pub(crate) fn run(self) -> Run {
        Run { first: self.number, last: self.number, bytes: self.bytes.into(), durable: self.durable }
    }
}

/// A message on its way to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// PUBLISH of QoS 1 was sent.
    Sent(Unacknowledged),
    /// PUBLISH of QoS 2 was sent.
    SentOnce(Unacknowledged),
    /// PUBREC came for the message with this number. PUBREL is sent once that is durable, and PUBCOMP is expected.
    Released(u64),
}

impl Outgoing {
    /// The message, while the queue has it.
    pub(crate) fn message(self) -> Option<Unacknowledged> {
        match self {
            Self::Sent(message) | Self::SentOnce(message) => Some(message),
            Self::Released(_) => None,
        }
    }
}

/// The exchanges of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchanges(Option<Box<Both>>);

#[derive(Debug, Clone, Default)]
struct Both {
    /// Packet identifiers of received messages of QoS 2 without a PUBREL, in order.
    received: Vec<u16>,
    outgoing: BTreeMap<u16, Outgoing>,
}

impl Exchanges {
    fn both(&mut self) -> &mut Both {
        self.0.get_or_insert_default()
    }

    fn shrink(&mut self) {
        if self.0.as_ref().is_some_and(|both| both.received.is_empty() && both.outgoing.is_empty()) {
            self.0 = None;
        }
    }

    /// Whether there are none.
    pub(crate) fn are_over(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a message of QoS 2 with this identifier came and isn't released.
    #[cfg(test)]
    pub(crate) fn has_received(&self, id: u16) -> bool {
        self.0.as_ref().is_some_and(|both| both.received.binary_search(&id).is_ok())
    }

    /// Notes a message of QoS 2. False if it is known: it came again.
    pub(crate) fn receive(&mut self, id: u16) -> bool {
        let received = &mut self.both().received;
        match received.binary_search(&id) {
            Ok(_) => false,
            Err(at) => {
                received.insert(at, id);
                true
            }
        }
    }

    /// A message of QoS 2 is released, or was refused. False if there is none.
    pub(crate) fn forget_received(&mut self, id: u16) -> bool {
        let Some(both) = &mut self.0 else { return false };
        let found = both.received.binary_search(&id);
        if let Ok(at) = found {
            both.received.remove(at);
        }
        self.shrink();
        found.is_ok()
    }

    /// Number of messages on their way to the client.
    pub(crate) fn outgoing(&self) -> usize {
        self.0.as_ref().map_or(0, |both| both.outgoing.len())
    }

    /// Notes a message that goes out, and returns its packet identifier. It follows from the message's number in its queue, so that
    /// it is the same when the message is sent again, also after a crash. One that is in use makes way.
    pub(crate) fn send(&mut self, message: Unacknowledged, once: bool) -> u16 {
        let outgoing = &mut self.both().outgoing;
        let mut id = packet_id(message.number);
        while outgoing.contains_key(&id) {
            id = if id == u16::MAX { 1 } else { id + 1 };
        }
        outgoing.insert(id, if once { Outgoing::SentOnce(message) } else { Outgoing::Sent(message) });
        id
    }

    /// The state of an outgoing message.
    pub(crate) fn get(&self, id: u16) -> Option<Outgoing> {
        self.0.as_ref()?.outgoing.get(&id).copied()
    }

    /// PUBREC came for a message.
    pub(crate) fn release(&mut self, id: u16, number: u64) {
        self.both().outgoing.insert(id, Outgoing::Released(number));
    }

    /// Whether PUBREC came for the message with this number: its client has it.
    pub(crate) fn has_released(&self, number: u64) -> bool {
        let mut all = self.0.iter().flat_map(|both| both.outgoing.values());
        all.any(|state| *state == Outgoing::Released(number))
    }

    /// An outgoing message is acknowledged.
    pub(crate) fn end(&mut self, id: u16) -> Option<Outgoing> {
        let ended = self.0.as_mut()?.outgoing.remove(&id);
        self.shrink();
        ended
    }

    /// Packet identifiers whose PUBREL has no PUBCOMP.
    pub(crate) fn released(&self) -> impl Iterator<Item = u16> {
        let all = self.0.iter().flat_map(|both| &both.outgoing);
        all.filter(|(_, state)| matches!(state, Outgoing::Released(_))).map(|(id, _)| *id)
    }

    /// Removes messages that the queue still has, and returns them: they are sent again.
    pub(crate) fn take_unacknowledged(&mut self) -> Vec<Unacknowledged> {
        let Some(both) = &mut self.0 else { return Vec::new() };
        let messages = both.outgoing.values().filter_map(|state| state.message()).collect();
        both.outgoing.retain(|_, state| state.message().is_none());
        self.shrink();
        messages
    }
}

/// Messages as runs, in the order of their numbers.
pub(crate) fn runs_of(mut messages: Vec<Unacknowledged>) -> Vec<Run> {
    messages.sort_unstable_by_key(|message| message.number);
    let mut runs = Vec::new();
    messages.into_iter().for_each(|message| push_run(&mut runs, message.run()));
    runs
}

/// The packet identifier of a message by its number in its queue: never 0.
fn packet_id(number: u64) -> u16 {
    (number % u64::from(u16::MAX)) as u16 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64) -> Unacknowledged {
        Unacknowledged { number, bytes: 1, durable: true }
    }

    #[test]
    fn an_identifier_follows_from_the_number_and_makes_way() {
        let mut exchanges = Exchanges::default();
        assert_eq!([0, 1, 65_534, 65_535, 65_536].map(packet_id), [1, 2, 65_535, 1, 2]);
        assert_eq!(exchanges.send(message(65_534), false), 65_535);
        assert_eq!(exchanges.send(message(65_534 + 65_535), true), 1, "it is in use");
        assert_eq!(exchanges.send(message(0), true), 2, "so is this one");
        let runs = runs_of(exchanges.take_unacknowledged());
        assert_eq!(runs.iter().map(|run| run.first).collect::<Vec<_>>(), [0, 65_534, 131_069]);
        assert!(exchanges.are_over());
    }

    #[test]
    fn a_released_message_stays_until_it_is_complete() {
        let mut exchanges = Exchanges::default();
        let id = exchanges.send(message(4), true);
        exchanges.release(id, 4);
        assert!(exchanges.take_unacknowledged().is_empty());
        assert!(exchanges.has_released(4) && !exchanges.has_released(5));
        assert_eq!(exchanges.released().collect::<Vec<_>>(), [id]);
        assert_eq!(exchanges.end(id), Some(Outgoing::Released(4)));
        assert!(exchanges.are_over() && exchanges.end(id).is_none());
    }

    #[test]
    fn a_message_that_comes_again_is_known_until_its_release() {
        let mut exchanges = Exchanges::default();
        assert!(exchanges.receive(9) && !exchanges.receive(9) && exchanges.has_received(9));
        assert!(exchanges.forget_received(9) && !exchanges.forget_received(9));
        assert!(exchanges.are_over() && exchanges.receive(9));
    }
}
