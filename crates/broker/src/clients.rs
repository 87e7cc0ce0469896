//! The connections of a node, and inquiries about their state.

use std::sync::Arc;

use leveret_model::ConnectionId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::outbox::{Event, Outbox};
use crate::spare_capacity;
use crate::views::Client;

/// All connections of the node.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    entries: FxHashMap<ConnectionId, Entry>,
    /// Open connections by name: looking one up doesn't scan thousands.
    names: FxHashMap<Arc<str>, ConnectionId>,
}

struct Entry {
    outbox: Arc<Outbox>,
    /// Set once it is open.
    client: Option<Arc<Client>>,
}

impl Clients {
    pub(crate) fn insert(&self, id: ConnectionId, outbox: Arc<Outbox>) {
        self.all.lock().entries.insert(id, Entry { outbox, client: None });
    }

    pub(crate) fn remove(&self, id: ConnectionId) {
        let All { entries, names } = &mut *self.all.lock();
        let client = entries.remove(&id).and_then(|entry| entry.client);
        // Its port may have a new client already, before we learn that the old one is gone.
        if let Some(client) = client
            && names.get(&client.name) == Some(&id)
        {
            names.remove(&client.name);
        }
        spare_capacity::give_back(entries);
        spare_capacity::give_back(names);
    }

    /// Lists a connection from now on: it is open.
    pub(crate) fn opened(&self, client: Client) {
        let All { entries, names } = &mut *self.all.lock();
        if let Some(entry) = entries.get_mut(&client.id) {
            names.insert(client.name.clone(), client.id);
            entry.client = Some(Arc::new(client));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.lock().entries.len()
    }

    /// Open connections, oldest first.
    pub(crate) fn open(&self) -> Vec<Arc<Client>> {
        let mut open: Vec<_> = self.all.lock().entries.values().filter_map(|entry| entry.client.clone()).collect();
        open.sort_unstable_by_key(|client| client.id);
        open
    }

    /// The open connection of this name; the latest one if there were several.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Client>> {
        let all = self.all.lock();
        all.entries.get(all.names.get(name)?)?.client.clone()
    }

    pub(crate) fn outboxes(&self) -> Vec<Arc<Outbox>> {
        self.all.lock().entries.values().map(|entry| entry.outbox.clone()).collect()
    }

    /// Sends an event to a connection. Returns false if the connection is gone.
    pub(crate) fn kill(&self, id: ConnectionId) -> bool {
        let outbox = self.all.lock().entries.get(&id).map(|entry| entry.outbox.clone());
        outbox.map(|outbox| outbox.kill()).is_some()
    }

    pub(crate) fn tell(&self, id: ConnectionId, event: Event) -> bool {
        let outbox = self.all.lock().entries.get(&id).map(|entry| entry.outbox.clone());
        outbox.map(|outbox| outbox.send(event)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wake;
    use crate::protocol_info::ProtocolInfo;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn open(clients: &Clients, id: u64, name: &str) {
        let id = ConnectionId(id);
        clients.insert(id, Arc::new(Outbox::new(Arc::new(Nobody))));
        let protocol = &ProtocolInfo { label: "test", name: "test", has_channels: false };
        clients.opened(Client { id, name: name.into(), user: "guest".into(), vhost: "/".into(), protocol });
    }

    #[test]
    fn tables_shrink_after_many_connections_have_left() {
        let clients = Clients::default();
        (0..10_000).for_each(|id| open(&clients, id, &id.to_string()));
        let room = || {
            let all = clients.all.lock();
            all.entries.capacity().min(all.names.capacity())..=all.entries.capacity().max(all.names.capacity())
        };
        assert!(*room().start() >= 10_000);
        (1..10_000).for_each(|id| clients.remove(ConnectionId(id)));
        assert!(*room().end() <= spare_capacity::ROOM_KEPT);
        assert_eq!(clients.outboxes().len(), 1);
    }

    #[test]
    fn a_name_belongs_to_the_last_connection_that_took_it() {
        let clients = Clients::default();
        let named = |name: &str| clients.named(name).map(|client| client.id.0);
        open(&clients, 1, "a:1 -> b:2");
        assert_eq!((named("a:1 -> b:2"), named("a:3 -> b:2")), (Some(1), None));
        open(&clients, 2, "a:1 -> b:2");
        assert_eq!(named("a:1 -> b:2"), Some(2));
        clients.remove(ConnectionId(1));
        assert_eq!(named("a:1 -> b:2"), Some(2));
        clients.remove(ConnectionId(2));
        assert_eq!(named("a:1 -> b:2"), None);
        assert!(clients.all.lock().names.is_empty());
    }
}
