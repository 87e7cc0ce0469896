//! Look-ups for a whole list of objects, most of which exist: a document that was imported before.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::sync::Arc;

use super::bindings::BindingsByName;
use super::{Topology, Vhost};
use crate::{Arguments, Binding, Destination, Exchange, Queue};

/// An index is built after look-ups in trees for one in so many of its objects. It costs about as much as these.
const INDEXED_FROM: usize = 32;
/// Look-ups in trees before any index is built.
const TREES_MIN: usize = 64;

/// Tells of each object of a list whether it exists. Neighbours are mostly of the same vhost and exchange. In the order of an export,
/// most look-ups only compare one object; in any other order, objects are indexed by name.
pub struct KnownObjects<'a> {
    topology: &'a Topology,
    vhost: Option<KnownVhost<'a>>,
}

/// A vhost, and what was learnt of it.
struct KnownVhost<'a> {
    vhost: &'a Vhost,
    queues: InOrder<'a, Queue>,
    /// Names of all queues.
    queue_names: Option<HashSet<&'a str>>,
    bindings: InOrder<'a, Binding>,
    /// The exchange of the last binding.
    source: Option<&'a Arc<Exchange>>,
    /// Bindings of that exchange.
    by_name: Option<BindingsByName<'a>>,
    /// Indexes of other exchanges, for lists that alternate between them.
    others: HashMap<&'a str, BindingsByName<'a>>,
}

/// Objects from the one behind the last that was asked for.
struct InOrder<'a, T> {
    rest: Peekable<Box<dyn Iterator<Item = &'a Arc<T>> + 'a>>,
    /// Look-ups of objects that weren't next.
    misses: usize,
}

impl<'a, T> InOrder<'a, T> {
    fn new(objects: impl Iterator<Item = &'a Arc<T>> + 'a) -> Self {
        let objects: Box<dyn Iterator<Item = &'a Arc<T>>> = Box::new(objects);
        Self { rest: objects.peekable(), misses: 0 }
    }

    /// Whether the next object is the one that is meant, which is then taken.
    fn is_next(&mut self, is_meant: impl Fn(&T) -> bool) -> bool {
        self.rest.next_if(|next| is_meant(next)).is_some()
    }

    /// Counts a look-up that wasn't for the next object. The list may lack some objects that exist: two steps for one catch up with it.
    fn missed(&mut self, exists: bool) {
        self.misses += 1;
        if exists {
            self.rest.next();
            self.rest.next();
        }
    }

    /// Whether an index of so many objects costs less than looking up the others.
    fn wants_index(&self, objects: usize) -> bool {
        self.misses >= TREES_MIN && self.misses * INDEXED_FROM >= objects
    }
}

impl Topology {
    /// Begins to look up a list of objects.
    pub fn known_objects(&self) -> KnownObjects<'_> {
        KnownObjects { topology: self, vhost: None }
    }
}

impl<'a> KnownObjects<'a> {
    fn vhost(&mut self, name: &str) -> Option<&mut KnownVhost<'a>> {
        if self.vhost.as_ref().is_none_or(|known| *known.vhost.name != *name) {
            let vhost: &'a Vhost = self.topology.vhosts.get(name)?;
            self.vhost = Some(KnownVhost {
                vhost,
                queues: InOrder::new(vhost.queues.values()),
                queue_names: None,
                bindings: InOrder::new(vhost.bindings.iter()),
                source: None,
                by_name: None,
                others: HashMap::new(),
            });
        }
        self.vhost.as_mut()
    }

    /// Whether there is such a queue.
    pub fn has_queue(&mut self, vhost: &str, name: &str) -> bool {
        let Some(KnownVhost { vhost, queues, queue_names, .. }) = self.vhost(vhost) else { return false };
        if let Some(names) = queue_names {
            return names.contains(name);
        }
        if queues.is_next(|queue| *queue.name == *name) {
            return true;
        }
        let exists = vhost.queues.contains_key(name);
        queues.missed(exists);
        if queues.wants_index(vhost.queues.len()) {
            *queue_names = Some(vhost.queues.keys().map(|name| &**name).collect());
        }
        exists
    }

    /// Whether there is such an exchange.
    pub fn has_exchange(&mut self, vhost: &str, name: &str) -> bool {
        self.vhost(vhost).is_some_and(|known| known.vhost.exchanges.contains_key(name))
    }

    /// Whether there is such a binding, to a queue or else to an exchange.
    pub fn has_binding(
        &mut self,
        vhost: &str,
        source: &str,
        (to_queue, destination): (bool, &str),
        routing_key: &str,
        arguments: &Arguments,
    ) -> bool {
        let Some(known) = self.vhost(vhost) else { return false };
        let is_meant = |binding: &Binding| {
            let has_kind = matches!(binding.destination, Destination::Queue { .. }) == to_queue;
            *binding.routing_key == *routing_key.as_bytes()
                && **binding.destination.name() == *destination
                && has_kind
                && *binding.source == *source
                && binding.arguments == *arguments
        };
        if known.by_name.is_none() && known.bindings.is_next(is_meant) {
            return true;
        }
        let Some(exchange) = known.source(source) else { return false };
        let vhost = known.vhost;
        // Needed only to look among several between the same ends.
        let made = || {
            let (to, is_logged) = match to_queue {
                true => vhost.queues.get(destination).map(|queue| (queue.destination(), queue.is_logged()))?,
                false => vhost.exchanges.get(destination).map(|found| (found.destination(), found.durable))?,
            };
            Some(Binding {
                vhost: vhost.name.clone(),
                source: exchange.name.clone(),
                destination: to,
                routing_key: routing_key.as_bytes().into(),
                arguments: arguments.clone(),
                source_id: exchange.id,
                logged: exchange.durable && is_logged,
            })
        };
        if let Some(index) = &known.by_name {
            return index.find((to_queue, destination), is_meant, made).is_some();
        }
        let to = match to_queue {
            true => vhost.queues.get(destination).map(|queue| queue.destination()),
            false => vhost.exchanges.get(destination).map(|found| found.destination()),
        };
        let exists = to.is_some_and(|to| vhost.bindings.between(source, &to, is_meant, made).is_some());
        known.bindings.missed(exists);
        if known.bindings.wants_index(vhost.bindings.destinations_of(source)) {
            known.by_name = vhost.bindings.by_name(source);
        }
        exists
    }
}

impl<'a> KnownVhost<'a> {
    /// The exchange with this name, with its index if there is one.
    fn source(&mut self, name: &str) -> Option<&'a Arc<Exchange>> {
        if let Some(last) = self.source.filter(|last| *last.name == *name) {
            return Some(last);
        }
        let exchange = self.vhost.exchanges.get(name)?;
        if let (Some(last), Some(index)) = (self.source.replace(exchange), self.by_name.take()) {
            self.others.insert(&last.name, index);
        }
        self.by_name = self.others.remove(name);
        Some(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, Command, DeclareExchange, DeclareQueue, DestinationName, Model, Permit};

    fn model(objects: usize) -> Model {
        let mut model = Model::new();
        let mut submit = |command| drop(model.submit(Permit::system(), command).expect("it is valid"));
        submit(Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: "x".into(),
            kind: "topic".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::default(),
        }));
        for at in 0..objects {
            let name: Arc<str> = format!("q{at:02}").into();
            submit(Command::DeclareQueue(DeclareQueue::durable("/".into(), name.clone(), Arguments::default())));
            for key in ["a", "b"] {
                submit(Command::Bind(bind(&name, key)));
            }
            let one = Bind { source: "amq.direct".into(), arguments: Arguments::default(), ..bind(&name, "only") };
            submit(Command::Bind(one));
        }
        model
    }

    fn bind(queue: &str, key: &str) -> Bind {
        Bind {
            vhost: "/".into(),
            source: "x".into(),
            destination: DestinationName::Queue(queue.into()),
            routing_key: key.as_bytes().into(),
            arguments: Arguments::from_iter([("k", crate::Value::from(1_i64))]),
            connection: None,
        }
    }

    #[test]
    fn objects_are_found_in_any_order_and_others_are_not() {
        let arguments = Arguments::from_iter([("k", crate::Value::from(1_i64))]);
        // Few objects are looked up in trees, and most of many in indexes.
        for objects in [20, 500] {
            let model = model(objects);
            let mut orders: Vec<Vec<usize>> = vec![(0..objects).collect(), (0..objects).rev().collect()];
            orders.push((0..objects).filter(|at| at % 3 != 0).collect());
            orders.push((0..objects).map(|at| (at * 7) % objects).collect());
            for order in orders {
                let mut known = model.topology().known_objects();
                for at in order {
                    let queue = format!("q{at:02}");
                    assert!(known.has_queue("/", &queue), "{queue}");
                    assert!(!known.has_queue("/", &format!("{queue}-")));
                    for key in ["b", "a"] {
                        assert!(known.has_binding("/", "x", (true, &queue), key, &arguments), "{queue} {key}");
                        assert!(!known.has_binding("/", "x", (false, &queue), key, &arguments));
                        assert!(!known.has_binding("/", "x", (true, &queue), key, &Arguments::default()));
                        assert!(!known.has_binding("/", "amq.topic", (true, &queue), key, &arguments));
                        assert!(!known.has_binding("/", "none", (true, &queue), key, &arguments));
                    }
                    assert!(!known.has_binding("/", "x", (true, &queue), "c", &arguments));
                    assert!(known.has_binding("/", "amq.direct", (true, &queue), "only", &Arguments::default()));
                    assert!(!known.has_binding("/", "amq.direct", (true, &queue), "a", &Arguments::default()));
                }
                assert!(known.has_exchange("/", "x") && !known.has_exchange("/", "y"));
                assert!(!known.has_queue("v", "q01") && !known.has_binding("v", "x", (true, "q01"), "a", &arguments));
                assert!(known.has_queue("/", "q01"));
            }
        }
    }
}
