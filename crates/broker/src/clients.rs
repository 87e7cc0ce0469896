//! Who is connected, and how they are asked what they do.

use std::fmt;
use std::sync::{Arc, OnceLock};

use leveret_model::ConnectionId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::outbox::{Event, Outbox};
use crate::room;
use crate::views::ConnectionView;

/// An open connection, as far as others know it without asking.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its id.
    pub id: ConnectionId,
    /// RabbitMQ's name of it: addresses of both ends.
    pub name: Arc<str>,
    /// Who it belongs to.
    pub user: Arc<str>,
    /// The vhost that it is in.
    pub vhost: Arc<str>,
}

/// What is asked of a connection, and who is told.
#[derive(Clone)]
pub struct Inquiry {
    answer: Arc<dyn Fn(ConnectionView) + Send + Sync>,
    is_brief: bool,
}

impl Inquiry {
    /// `answer` is called on the connection's core, outside every lock; never if the connection ends first.
    pub fn new(answer: impl Fn(ConnectionView) + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), is_brief: false }
    }

    /// The same, where the answer leaves out what the client said of itself: that is most of what it costs, and
    /// thousands of connections are asked for their numbers at a time.
    pub fn brief(answer: impl Fn(ConnectionView) + Send + Sync + 'static) -> Self {
        Self { is_brief: true, ..Self::new(answer) }
    }

    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    pub(crate) fn answer(&self, view: ConnectionView) {
        (self.answer)(view);
    }
}

impl fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inquiry")
    }
}

impl PartialEq for Inquiry {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.answer, &other.answer)
    }
}

impl Eq for Inquiry {}

/// All connections of the node.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<FxHashMap<ConnectionId, Entry>>,
}

struct Entry {
    outbox: Arc<Outbox>,
    /// Once it is open.
    client: OnceLock<Arc<Client>>,
}

impl Clients {
    pub(crate) fn insert(&self, id: ConnectionId, outbox: Arc<Outbox>) {
        self.all.lock().insert(id, Entry { outbox, client: OnceLock::new() });
    }

    pub(crate) fn remove(&self, id: ConnectionId) {
        let mut all = self.all.lock();
        all.remove(&id);
        room::give_back(&mut all);
    }

    /// The connection is open: from here on it is listed.
    pub(crate) fn opened(&self, client: Client) {
        if let Some(entry) = self.all.lock().get(&client.id) {
            let _ = entry.client.set(Arc::new(client));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Those that are open, in the order in which they came.
    pub(crate) fn open(&self) -> Vec<Arc<Client>> {
        let mut open: Vec<_> = self.all.lock().values().filter_map(|entry| entry.client.get().cloned()).collect();
        open.sort_unstable_by_key(|client| client.id);
        open
    }

    pub(crate) fn outboxes(&self) -> Vec<Arc<Outbox>> {
        self.all.lock().values().map(|entry| entry.outbox.clone()).collect()
    }

    /// Leaves an event with one. False when it is gone.
    pub(crate) fn tell(&self, id: ConnectionId, event: Event) -> bool {
        let outbox = self.all.lock().get(&id).map(|entry| entry.outbox.clone());
        outbox.map(|outbox| outbox.send(event)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wake;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn many_that_leave_together_give_their_places_back() {
        let clients = Clients::default();
        let outbox = Arc::new(Outbox::new(Arc::new(Nobody)));
        (0..10_000).for_each(|id| clients.insert(ConnectionId(id), outbox.clone()));
        assert!(clients.all.lock().capacity() >= 10_000);
        (1..10_000).for_each(|id| clients.remove(ConnectionId(id)));
        assert!(clients.all.lock().capacity() <= room::ROOM_KEPT);
        assert_eq!(clients.outboxes().len(), 1);
    }
}
