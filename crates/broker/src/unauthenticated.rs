//! What sockets hold that haven't logged in: a budget for all of them together.
//!
//! A connection that hasn't logged in is owed nothing, and whoever opens many of them may hold a partial frame on each.
//! Bytes are counted and not sockets, so that clients who come back all at once after an outage are left alone. Above
//! the budget those go that hold bytes, the oldest first: a client that means it has logged in long before them.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_model::ConnectionId;
use parking_lot::Mutex;

use crate::outbox::{Event, Outbox, Wake};

/// See the module.
pub struct Unauthenticated {
    bytes_max: u64,
    /// Those that hold bytes, by age: ids only grow.
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    bytes: u64,
    /// Connections that were told to go, since the start.
    shed: u64,
    by_age: BTreeMap<ConnectionId, Holder>,
}

struct Holder {
    bytes: u64,
    outbox: Arc<Outbox>,
}

impl Unauthenticated {
    /// At most so many bytes for all of them.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, holders: Mutex::default() }
    }

    /// What they hold at the moment, in bytes.
    pub fn bytes(&self) -> u64 {
        self.holders.lock().bytes
    }

    /// How many connections were told to go for it since the start.
    pub fn shed(&self) -> u64 {
        self.holders.lock().shed
    }

    /// The connection holds so many bytes now. Whoever has to go for it is told so.
    fn set(&self, id: ConnectionId, outbox: &Arc<Outbox>, held: u64, bytes: u64) {
        let mut told = Vec::new();
        {
            let mut holders = self.holders.lock();
            match holders.by_age.remove(&id) {
                Some(holder) => holders.bytes -= holder.bytes,
                // It was told to go and isn't counted any more.
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

/// One connection's part of it, given back when dropped.
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

    /// The connection holds so many bytes now.
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

/// What a socket holds before there is a connection on it: while its TLS handshake is made.
pub struct Handshake {
    part: Part,
    outbox: Arc<Outbox>,
}

impl Handshake {
    pub(crate) fn new(all: Arc<Unauthenticated>, id: ConnectionId, wake: Arc<dyn Wake>) -> Self {
        let outbox = Arc::new(Outbox::new(wake));
        Self { part: Part::new(all, id, outbox.clone()), outbox }
    }

    /// It holds so many bytes now.
    pub fn holds(&mut self, bytes: usize) {
        self.part.set(bytes);
    }

    /// Why it has to go, once it has been woken for that.
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
    fn the_oldest_that_hold_bytes_go_and_no_more_than_needed() {
        let all = Arc::new(Unauthenticated::new(100));
        let (_idle, idle) = connection(&all, 1);
        let (mut second, second_outbox) = connection(&all, 2);
        let (mut third, third_outbox) = connection(&all, 3);
        let (mut fourth, fourth_outbox) = connection(&all, 4);
        // The third came first with its bytes, but the second is older.
        third.set(40);
        second.set(40);
        fourth.set(20);
        assert_eq!(all.bytes(), 100);
        fourth.set(30);
        assert_eq!((all.bytes(), all.shed()), (70, 1));
        assert!(told(&second_outbox) && !told(&third_outbox) && !told(&fourth_outbox) && !told(&idle));
        // It counts no more, whatever it still does.
        second.set(90);
        assert_eq!(all.bytes(), 70);
        drop(second);
        assert_eq!(all.bytes(), 70);
        drop((third, fourth));
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn handshakes_count_and_are_told() {
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
    fn one_that_holds_more_than_all_may_goes_alone() {
        let all = Arc::new(Unauthenticated::new(100));
        let (mut only, outbox) = connection(&all, 1);
        only.set(100);
        assert!(!told(&outbox));
        only.set(101);
        assert!(told(&outbox));
        assert_eq!(all.bytes(), 0);
    }
}
