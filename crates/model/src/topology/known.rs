//! Look-ups for a whole list of objects, most of which exist: a document that was imported before.

use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;

use super::{ByName, Topology, Vhost};
use crate::digests::Digests;
use crate::{Arguments, Binding, Destination, Exchange, Queue};

/// An index is built after look-ups in trees for one in so many of its objects. It costs about as much as these.
const INDEXED_FROM: usize = 64;
/// Look-ups in trees before any index is built.
const TREES_MIN: usize = 64;

/// Tells of each object of a list whether it exists. In the order of an export, most look-ups only compare one object; in any other
/// order, objects are indexed by digests.
pub struct KnownObjects<'a> {
    topology: &'a Topology,
    /// The vhost of the last look-up: neighbours are mostly of the same one.
    vhost: Option<KnownVhost<'a>>,
    /// Vhosts of earlier look-ups, for lists that alternate between them.
    others: HashMap<&'a str, KnownVhost<'a>>,
}

/// A vhost, and what was learnt of it.
struct KnownVhost<'a> {
    vhost: &'a Vhost,
    queues: InOrder<'a, Queue>,
    exchanges: InOrder<'a, Exchange>,
    bindings: InOrder<'a, Binding>,
}

/// Objects from the one behind the last that was asked for.
struct InOrder<'a, T> {
    rest: Peekable<Box<dyn Iterator<Item = &'a Arc<T>> + 'a>>,
    /// Look-ups of objects that weren't next.
    misses: usize,
    /// All of them, once there were many misses.
    index: Option<Digests>,
}

impl<'a, T> InOrder<'a, T> {
    fn new(objects: impl Iterator<Item = &'a Arc<T>> + 'a) -> Self {
        let objects: Box<dyn Iterator<Item = &'a Arc<T>>> = Box::new(objects);
        Self { rest: objects.peekable(), misses: 0, index: None }
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

    /// Whether `all`, which these objects are, has one with this name.
    fn has_name(&mut self, name: &str, name_of: impl Fn(&T) -> &str, all: &ByName<Arc<T>>) -> bool {
        let none = Arguments::default();
        if let Some(index) = &mut self.index {
            return index.has([name.as_bytes()], &none);
        }
        if self.is_next(|next| name_of(next) == name) {
            return true;
        }
        let exists = all.contains_key(name);
        self.missed(exists);
        if self.wants_index(all.len()) {
            let mut index = Digests::with_room_for(all.len());
            all.keys().for_each(|name| index.add([name.as_bytes()], &none));
            self.index = Some(index);
        }
        exists
    }
}

impl Topology {
    /// Begins to look up a list of objects.
    pub fn known_objects(&self) -> KnownObjects<'_> {
        KnownObjects { topology: self, vhost: None, others: HashMap::new() }
    }
}

impl<'a> KnownObjects<'a> {
    fn vhost(&mut self, name: &str) -> Option<&mut KnownVhost<'a>> {
        if self.vhost.as_ref().is_none_or(|known| *known.vhost.name != *name) {
            let vhost: &'a Vhost = self.topology.vhosts.get(name)?;
            let known = self.others.remove(name).unwrap_or_else(|| KnownVhost {
                vhost,
                queues: InOrder::new(vhost.queues.values()),
                exchanges: InOrder::new(vhost.exchanges.values()),
                bindings: InOrder::new(vhost.bindings.iter()),
            });
            if let Some(last) = self.vhost.replace(known) {
                self.others.insert(&last.vhost.name, last);
            }
        }
        self.vhost.as_mut()
    }

    /// Whether there is such a queue.
    pub fn has_queue(&mut self, vhost: &str, name: &str) -> bool {
        let known = self.vhost(vhost);
        known.is_some_and(|known| known.queues.has_name(name, |queue| &queue.name, &known.vhost.queues))
    }

    /// Whether there is such an exchange.
    pub fn has_exchange(&mut self, vhost: &str, name: &str) -> bool {
        let known = self.vhost(vhost);
        known.is_some_and(|known| known.exchanges.has_name(name, |exchange| &exchange.name, &known.vhost.exchanges))
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
        let Some(KnownVhost { vhost, bindings, .. }) = self.vhost(vhost) else { return false };
        if let Some(index) = &mut bindings.index {
            return index.has(parts(source, to_queue, destination, routing_key.as_bytes()), arguments);
        }
        let is_meant = |binding: &Binding| {
            *binding.routing_key == *routing_key.as_bytes()
                && **binding.destination.name() == *destination
                && is_queue(&binding.destination) == to_queue
                && *binding.source == *source
                && binding.arguments == *arguments
        };
        if bindings.is_next(is_meant) {
            return true;
        }
        let exists = vhost.has_binding(source, (to_queue, destination), is_meant, |exchange, to, is_logged| Binding {
            vhost: vhost.name.clone(),
            source: exchange.name.clone(),
            destination: to,
            routing_key: routing_key.as_bytes().into(),
            arguments: arguments.clone(),
            source_id: exchange.id,
            logged: exchange.durable && is_logged,
        });
        bindings.missed(exists);
        let objects = vhost.bindings.len() as usize;
        if bindings.wants_index(objects) {
            let mut index = Digests::with_room_for(objects);
            for binding in vhost.bindings.iter() {
                let to = &binding.destination;
                index.add(parts(&binding.source, is_queue(to), to.name(), &binding.routing_key), &binding.arguments);
            }
            bindings.index = Some(index);
        }
        exists
    }
}

fn is_queue(destination: &Destination) -> bool {
    matches!(destination, Destination::Queue { .. })
}

/// The parts of a binding's digest.
fn parts<'a>(source: &'a str, to_queue: bool, destination: &'a str, routing_key: &'a [u8]) -> [&'a [u8]; 4] {
    let kind: &[u8] = if to_queue { b"q" } else { b"e" };
    [source.as_bytes(), kind, destination.as_bytes(), routing_key]
}

impl Vhost {
    /// Whether there is a binding between these ends that `is_meant`. `made` makes it, which is needed only to look among several
    /// between the same ends.
    fn has_binding(
        &self,
        source: &str,
        (to_queue, destination): (bool, &str),
        is_meant: impl Fn(&Binding) -> bool,
        made: impl FnOnce(&Exchange, Destination, bool) -> Binding,
    ) -> bool {
        let Some(exchange) = self.exchanges.get(source) else { return false };
        let to = match to_queue {
            true => self.queues.get(destination).map(|queue| (queue.destination(), queue.is_logged())),
            false => self.exchanges.get(destination).map(|found| (found.destination(), found.durable)),
        };
        let Some((to, is_logged)) = to else { return false };
        self.bindings.between(source, &to, is_meant, || made(exchange, to.clone(), is_logged)).is_some()
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

    #[test]
    fn a_list_may_alternate_between_vhosts() {
        let mut model = model(300);
        let mut submit = |command| drop(model.submit(Permit::system(), command).expect("it is valid"));
        submit(Command::CreateVhost { name: "v".into() });
        for at in 0..300 {
            let name = format!("other-{at:02}");
            submit(Command::DeclareExchange(DeclareExchange {
                vhost: "v".into(),
                name: name.clone().into(),
                kind: "fanout".to_owned(),
                durable: true,
                auto_delete: false,
                internal: false,
                arguments: Arguments::default(),
            }));
            submit(Command::Bind(Bind {
                vhost: "v".into(),
                source: name.into(),
                destination: DestinationName::Exchange("amq.direct".into()),
                arguments: Arguments::default(),
                ..bind("", "")
            }));
        }
        let none = Arguments::default();
        let mut known = model.topology().known_objects();
        for at in (0..300).rev() {
            let (queue, exchange) = (format!("q{at:02}"), format!("other-{at:02}"));
            assert!(known.has_queue("/", &queue) && !known.has_queue("v", &queue));
            assert!(known.has_exchange("v", &exchange) && !known.has_exchange("/", &exchange));
            assert!(known.has_binding("v", &exchange, (false, "amq.direct"), "", &none));
            assert!(!known.has_binding("/", &exchange, (false, "amq.direct"), "", &none));
            assert!(known.has_binding("/", "amq.direct", (true, &queue), "only", &none));
        }
        assert!(known.others.contains_key("v"), "what was learnt of a vhost is kept");
    }
}
