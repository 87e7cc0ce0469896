//! Look-ups for a whole list of objects, most of which exist: a document that was imported before.

use std::iter::Peekable;
use std::sync::Arc;

use super::{Topology, Vhost};
use crate::{Arguments, Binding, Destination, Exchange, Queue};

/// Tells of each object of a list whether it exists. Neighbours are mostly of the same vhost and exchange, and in the order of an
/// export, so that most look-ups only compare one object.
pub struct KnownObjects<'a> {
    topology: &'a Topology,
    vhost: Option<VhostInOrder<'a>>,
}

/// A vhost, and its objects from the one behind the last that was asked for.
struct VhostInOrder<'a> {
    vhost: &'a Vhost,
    queues: InOrder<'a, Queue>,
    bindings: InOrder<'a, Binding>,
    /// The exchange of the last binding.
    source: Option<&'a Arc<Exchange>>,
}

struct InOrder<'a, T>(Peekable<Box<dyn Iterator<Item = &'a Arc<T>> + 'a>>);

impl<'a, T> InOrder<'a, T> {
    fn new(objects: impl Iterator<Item = &'a Arc<T>> + 'a) -> Self {
        let objects: Box<dyn Iterator<Item = &'a Arc<T>>> = Box::new(objects);
        Self(objects.peekable())
    }

    /// The next object if it is the one that is meant, or else what `find` finds.
    fn next_or(
        &mut self,
        is_meant: impl Fn(&T) -> bool,
        find: impl FnOnce() -> Option<&'a Arc<T>>,
    ) -> Option<&'a Arc<T>> {
        if let Some(next) = self.0.next_if(|next| is_meant(next)) {
            return Some(next);
        }
        let found = find()?;
        // The list may lack some objects that exist: two steps for one catch up with it.
        self.0.next();
        self.0.next();
        Some(found)
    }
}

impl Topology {
    /// Begins to look up a list of objects.
    pub fn known_objects(&self) -> KnownObjects<'_> {
        KnownObjects { topology: self, vhost: None }
    }
}

impl<'a> KnownObjects<'a> {
    fn vhost(&mut self, name: &str) -> Option<&mut VhostInOrder<'a>> {
        if self.vhost.as_ref().is_none_or(|known| *known.vhost.name != *name) {
            let vhost: &'a Vhost = self.topology.vhosts.get(name)?;
            self.vhost = Some(VhostInOrder {
                vhost,
                queues: InOrder::new(vhost.queues.values()),
                bindings: InOrder::new(vhost.bindings.iter()),
                source: None,
            });
        }
        self.vhost.as_mut()
    }

    /// Whether there is such a queue.
    pub fn has_queue(&mut self, vhost: &str, name: &str) -> bool {
        let Some(VhostInOrder { vhost, queues, .. }) = self.vhost(vhost) else { return false };
        queues.next_or(|queue| *queue.name == *name, || vhost.queues.get(name)).is_some()
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
        let Some(VhostInOrder { vhost, bindings, source: last, .. }) = self.vhost(vhost) else { return false };
        let vhost: &'a Vhost = vhost;
        let is_meant = |binding: &Binding| {
            let has_kind = matches!(binding.destination, Destination::Queue { .. }) == to_queue;
            *binding.routing_key == *routing_key.as_bytes()
                && **binding.destination.name() == *destination
                && has_kind
                && *binding.source == *source
                && binding.arguments == *arguments
        };
        let find = || {
            if last.is_none_or(|last| *last.name != *source) {
                *last = Some(vhost.exchanges.get(source)?);
            }
            let exchange = (*last)?;
            let (to, is_logged) = match to_queue {
                true => vhost.queues.get(destination).map(|queue| (queue.destination(), queue.is_logged()))?,
                false => vhost.exchanges.get(destination).map(|found| (found.destination(), found.durable))?,
            };
            let made = || Binding {
                vhost: vhost.name.clone(),
                source: exchange.name.clone(),
                destination: to.clone(),
                routing_key: routing_key.as_bytes().into(),
                arguments: arguments.clone(),
                source_id: exchange.id,
                logged: exchange.durable && is_logged,
            };
            vhost.bindings.between(source, &to, is_meant, made)
        };
        bindings.next_or(is_meant, find).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, Command, DeclareExchange, DeclareQueue, DestinationName, Model, Permit};

    fn model() -> Model {
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
        for at in 0..20 {
            let name: Arc<str> = format!("q{at:02}").into();
            submit(Command::DeclareQueue(DeclareQueue::durable("/".into(), name.clone(), Arguments::default())));
            for key in ["a", "b"] {
                submit(Command::Bind(bind(&name, key)));
            }
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
        let model = model();
        let arguments = Arguments::from_iter([("k", crate::Value::from(1_i64))]);
        let mut orders: Vec<Vec<usize>> = vec![(0..20).collect(), (0..20).rev().collect()];
        orders.push((0..20).filter(|at| at % 3 != 0).collect());
        orders.push((0..20).map(|at| (at * 7) % 20).collect());
        for order in orders {
            let mut known = model.topology().known_objects();
            for at in order {
                let queue = format!("q{at:02}");
                assert!(known.has_queue("/", &queue), "{queue}");
                assert!(!known.has_queue("/", &format!("{queue}-")) && !known.has_queue("v", &queue));
                for key in ["b", "a"] {
                    assert!(known.has_binding("/", "x", (true, &queue), key, &arguments), "{queue} {key}");
                    assert!(!known.has_binding("/", "x", (false, &queue), key, &arguments));
                    assert!(!known.has_binding("/", "x", (true, &queue), key, &Arguments::default()));
                    assert!(!known.has_binding("/", "amq.topic", (true, &queue), key, &arguments));
                    assert!(!known.has_binding("/", "none", (true, &queue), key, &arguments));
                }
                assert!(!known.has_binding("/", "x", (true, &queue), "c", &arguments));
            }
            assert!(known.has_exchange("/", "x") && !known.has_exchange("/", "y"));
        }
    }
}
