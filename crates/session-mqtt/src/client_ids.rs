//! Client ids: each belongs to one connection at a time. A connection that claims one ends the connection that has it, and gets it
//! once that has left its queues. What of a session outlives its connection in memory waits here, too.

use std::sync::Arc;

use leveret_broker::outbox::{Event, Outbox};
use leveret_broker::time::Nanos;
use leveret_model::ConnectionId;
use leveret_queue::Signal;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::exchanges::Exchanges;

/// The key with which a connection is signalled that it has its client id.
pub(crate) const CLAIM_KEY: u64 = 1;
/// The reason with which a connection ends whose client id another one has now.
pub(crate) const TAKEN_OVER: &str = "another connection has the same client id";
/// Sessions whose state is dropped at most when another's is kept.
const SWEPT_AT_ONCE: usize = 4;

/// A client id in its vhost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub vhost: Arc<str>,
    pub client_id: Arc<str>,
}

/// The answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The id is the asker's.
    Taken,
    /// Another connection has it, and was notified; the asker is signalled with [`CLAIM_KEY`].
    Waits,
}

struct Claimant {
    id: ConnectionId,
    outbox: Arc<Outbox>,
}

struct Holder {
    has: Claimant,
    /// The connection that gets the id next.
    next: Option<Claimant>,
}

/// State of a session whose client is away.
struct Kept {
    exchanges: Exchanges,
    /// Monotonic time at which the session ends, in nanoseconds.
    until: Nanos,
}

/// A session has ended while its client was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionOver;

/// The client ids of a node.
#[derive(Default)]
pub(crate) struct ClientIds {
    held: Mutex<FxHashMap<ClientKey, Holder>>,
    kept: Mutex<FxHashMap<ClientKey, Kept>>,
}

impl ClientIds {
    /// Claims an id for a connection.
    pub(crate) fn claim(&self, key: &ClientKey, id: ConnectionId, outbox: &Arc<Outbox>) -> Claim {
        let claimant = Claimant { id, outbox: outbox.clone() };
        let (claim, ended) = {
            let mut held = self.held.lock();
            match held.get_mut(key) {
                None => {
                    held.insert(key.clone(), Holder { has: claimant, next: None });
                    (Claim::Taken, None)
                }
                Some(holder) => {
                    let displaced = holder.next.replace(claimant);
                    let ended = displaced.map_or_else(|| holder.has.outbox.clone(), |displaced| displaced.outbox);
                    (Claim::Waits, Some(ended))
                }
            }
        };
        if let Some(outbox) = ended {
            outbox.send(Event::Close(TAKEN_OVER.into()));
        }
        claim
    }

    /// Whether the id is this connection's.
    pub(crate) fn has(&self, key: &ClientKey, id: ConnectionId) -> bool {
        self.held.lock().get(key).is_some_and(|holder| holder.has.id == id)
    }

    /// Gives up the id, or the claim to it. Who waits for it gets it.
    pub(crate) fn release(&self, key: &ClientKey, id: ConnectionId) {
        let mut held = self.held.lock();
        let Some(holder) = held.get_mut(key) else { return };
        if holder.has.id != id {
            holder.next.take_if(|next| next.id == id);
            return;
        }
        let next = match holder.next.take() {
            Some(next) => {
                let outbox = next.outbox.clone();
                holder.has = next;
                Some(outbox)
            }
            None => {
                held.remove(key);
                None
            }
        };
        drop(held);
        if let Some(outbox) = next {
            outbox.send(Event::Queue(Signal::Answered(CLAIM_KEY)));
        }
    }

    /// Keeps the state of a session until its client comes back, but no longer than until then. Returns some sessions that are over,
    /// whose state is dropped.
    #[must_use]
    pub(crate) fn keep(&self, key: &ClientKey, exchanges: Exchanges, until: Nanos, now: Nanos) -> Vec<ClientKey> {
        if exchanges.are_over() {
            return Vec::new();
        }
        let mut kept = self.kept.lock();
        let over: Vec<_> = kept
            .iter()
            .filter(|(_, session)| session.until <= now)
            .map(|(key, _)| key.clone())
            .take(SWEPT_AT_ONCE)
            .collect();
        over.iter().for_each(|key| drop(kept.remove(key)));
        kept.insert(key.clone(), Kept { exchanges, until });
        over
    }

    /// The state that was kept of a session; `Err` if the session is over, and had some.
    pub(crate) fn take(&self, key: &ClientKey, now: Nanos) -> Result<Exchanges, SessionOver> {
        match self.kept.lock().remove(key) {
            Some(session) if session.until <= now => Err(SessionOver),
            session => Ok(session.map(|session| session.exchanges).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_broker::outbox::Wake;

    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn outbox() -> Arc<Outbox> {
        Arc::new(Outbox::new(Arc::new(Nobody)))
    }

    fn events(outbox: &Outbox) -> Vec<Event> {
        let mut events = Vec::new();
        outbox.drain(&mut events);
        events
    }

    #[test]
    fn the_last_claimant_gets_the_id_and_the_others_end() {
        let ids = ClientIds::default();
        let key = ClientKey { vhost: "/".into(), client_id: "c".into() };
        let (one, two, three) = (outbox(), outbox(), outbox());
        let [first, second, third] = [1, 2, 3].map(ConnectionId);
        assert_eq!(ids.claim(&key, first, &one), Claim::Taken);
        assert_eq!(ids.claim(&key, second, &two), Claim::Waits);
        assert_eq!(events(&one), [Event::Close(TAKEN_OVER.into())]);
        assert_eq!(ids.claim(&key, third, &three), Claim::Waits);
        assert_eq!(events(&two), [Event::Close(TAKEN_OVER.into())], "it is displaced before it had the id");
        ids.release(&key, second);
        assert!(ids.has(&key, first) && events(&three).is_empty());
        ids.release(&key, first);
        assert_eq!(events(&three), [Event::Queue(Signal::Answered(CLAIM_KEY))]);
        assert!(ids.has(&key, third));
        ids.release(&key, third);
        assert_eq!(ids.claim(&key, first, &one), Claim::Taken);
    }

    #[test]
    fn kept_state_ends_with_its_session() {
        let ids = ClientIds::default();
        let key = ClientKey { vhost: "/".into(), client_id: "c".into() };
        let mut exchanges = Exchanges::default();
        exchanges.receive(7);
        assert!(ids.keep(&key, exchanges, 100, 0).is_empty());
        assert!(ids.take(&key, 99).expect("it lasts").has_received(7));
        assert!(ids.take(&key, 99).expect("it lasts").are_over(), "it is there once");
        let state = || {
            let mut exchanges = Exchanges::default();
            exchanges.receive(7);
            exchanges
        };
        assert!(ids.keep(&key, state(), 100, 0).is_empty());
        assert!(ids.take(&key, 100).is_err());
        assert!(ids.keep(&key, state(), 100, 0).is_empty());
        let other = ClientKey { client_id: "d".into(), ..key.clone() };
        assert_eq!(ids.keep(&other, state(), 200, 100), [key]);
    }
}
