//! A shared budget of bytes for all sockets that haven't logged in.
//!
//! Without it, a client could open many connections and hold a partial frame on each. Bytes are counted rather than sockets, so
//! that clients that all reconnect after an outage aren't affected. Above the budget, sockets that hold bytes are closed, the
//! oldest first: a legitimate client has logged in long before them.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_model::ConnectionId;
use parking_lot::Mutex;

use crate::outbox::{Event, Outbox, Wake};

/// The byte budget of all sockets that haven't logged in.
pub struct Unauthenticated {
    bytes_max: u64,
    /// Sockets that hold bytes, by age: ids only grow.
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    bytes: u64,
    /// Number of connections that were closed for this, since the start.
    shed: u64,
    by_age: BTreeMap<ConnectionId, Holder>,
}

struct Holder {
    bytes: u64,
    outbox: Arc<Outbox>,
}

impl Unauthenticated {
    /// A budget of `bytes_max` for all of them.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, holders: Mutex::default() }
    }

    /// Bytes that they hold at the moment.
    pub fn bytes(&self) -> u64 {
        self.holders.lock().bytes
    }

    /// Number of connections that were closed for this, since the start.
    pub fn shed(&self) -> u64 {
        self.holders.lock().shed
    }

    /// Sets the bytes that a connection holds. Connections that have to close because of it are notified.
    fn set(&self, id: ConnectionId, outbox: &Arc<Outbox>, held: u64, bytes: u64) {
        let mut told = Vec::new();
        {
            let mut holders = self.holders.lock();
            match holders.by_age.remove(&id) {
                Some(holder) => holders.bytes -= holder.bytes,
                // It was told to close and isn't counted any more.
                None if held > 0 => return,
                None => {}
            }
            if bytes == 0 {
                return;
            }
            holders.bytes += bytes;
            holders.by_age.insert(id, Holder { bytes, outbox: outbox.clone() });
            while holders.bytes > self.bytes_max
                && let Some((_, oldest)) = holders.by_age.pop_first()
            {
                holders.bytes -= oldest.bytes;
                holders.shed += 1;
                told.push(oldest);
            }
        }
        for holder in told {
            let reason = format!(
                "unauthenticated_bytes_max_per_node ({}) is exceeded by connections that haven't logged in; this is \
                 the oldest of them and held {} bytes",
                self.bytes_max, holder.bytes
            );
            holder.outbox.send(Event::Shed(reason.into()));
        }
    }
}

/// The share of one connection, returned when dropped.
pub(crate) struct Part {
    all: Arc<Unauthenticated>,
    id: ConnectionId,
    outbox: Arc<Outbox>,
    bytes: u64,
}

impl Part {
    pub(crate) fn new(all: Arc<Unauthenticated>, id: ConnectionId, outbox: Arc<Outbox>) -> Self {
        Self { all, id, outbox, bytes: 0 }
    }

    /// Sets the bytes that the connection holds.
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes != self.bytes {
            self.all.set(self.id, &self.outbox, self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The share of a socket without a connection yet: during its TLS handshake.
pub struct Handshake {
    part: Part,
    outbox: Arc<Outbox>,
}

impl Handshake {
    pub(crate) fn new(all: Arc<Unauthenticated>, id: ConnectionId, wake: Arc<dyn Wake>) -> Self {
        let outbox = Arc::new(Outbox::new(wake));
        Self { part: Part::new(all, id, outbox.clone()), outbox }
    }

    /// Sets the bytes that it holds.
    pub fn holds(&mut self, bytes: usize) {
        self.part.set(bytes);
    }

    /// The reason why it has to close, once it has been woken for that.
    pub fn shed(&self) -> Option<Arc<str>> {
        let mut events = Vec::new();
        self.outbox.drain(&mut events);
        events.into_iter().find_map(|event| match event {
            Event::Shed(reason) => Some(reason),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn connection(all: &Arc<Unauthenticated>, id: u64) -> (Part, Arc<Outbox>) {
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        (Part::new(all.clone(), ConnectionId(id), outbox.clone()), outbox)
    }

    fn told(outbox: &Outbox) -> bool {
        let mut events = Vec::new();
        outbox.drain(&mut events);
        events.iter().any(|event| matches!(event, Event::Shed(_)))
    }

    #[test]
    fn the_oldest_holders_are_closed_and_no_more_than_needed() {
        let all = Arc::new(Unauthenticated::new(100));
        let (_idle, idle) = connection(&all, 1);
        let (mut second, second_outbox) = connection(&all, 2);
        let (mut third, third_outbox) = connection(&all, 3);
        let (mut fourth, fourth_outbox) = connection(&all, 4);
        // The third was the first to hold bytes, but the second is older.
        third.set(40);
        second.set(40);
        fourth.set(20);
        assert_eq!(all.bytes(), 100);
        fourth.set(30);
        assert_eq!((all.bytes(), all.shed()), (70, 1));
        assert!(told(&second_outbox) && !told(&third_outbox) && !told(&fourth_outbox) && !told(&idle));
        // It isn't counted any more, whatever it still does.
        second.set(90);
        assert_eq!(all.bytes(), 70);
        drop(second);
        assert_eq!(all.bytes(), 70);
        drop((third, fourth));
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn handshakes_count_and_are_notified() {
        let all = Arc::new(Unauthenticated::new(100));
        let mut shakes = [1, 2].map(|id| Handshake::new(all.clone(), ConnectionId(id), Arc::new(Nobody)));
        shakes[0].holds(60);
        assert_eq!((all.bytes(), shakes[0].shed()), (60, None));
        shakes[1].holds(60);
        assert!(shakes[0].shed().is_some_and(|reason| reason.contains("unauthenticated_bytes_max_per_node (100)")));
        assert_eq!((all.bytes(), shakes[1].shed()), (60, None));
        drop(shakes);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn a_connection_above_the_whole_budget_is_closed() {
        let all = Arc::new(Unauthenticated::new(100));
        let (mut only, outbox) = connection(&all, 1);
        only.set(100);
        assert!(!told(&outbox));
        only.set(101);
        assert!(told(&outbox));
        assert_eq!(all.bytes(), 0);
    }
}
