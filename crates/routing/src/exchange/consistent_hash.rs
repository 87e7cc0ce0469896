//! Consistent hashing: each message goes to one destination, which stays the same for all messages with the same value, and
//! which gets a share of the values by its weight.
//!
//! Weighted rendezvous hashing: of every destination, a number is computed from the value, the name and the weight, and the
//! lowest one wins. So a new destination takes its share from all others, a destination that is unbound leaves its share to
//! all others, and no other value moves. That takes a step for each destination and message; in return nothing has to be kept
//! in memory but the bindings, whatever their weights, and the result depends on the present bindings alone.

use imbl::OrdMap;
use leveret_model::{Arguments, Binding, HashOn, Value, hash_weight};

use super::member::Member;
use crate::hash;
use crate::headers::{Header, Headers};
use crate::router::RoutedBy;
use crate::targets::RouteTarget;

/// The bindings of a consistent hash exchange.
#[derive(Clone, Debug)]
pub(crate) struct ConsistentHash {
    on: HashOn,
    members: OrdMap<Member, Share>,
}

#[derive(Clone, Debug)]
struct Share {
    /// The hash of the destination.
    hash: u64,
    /// The sum of the weights of its bindings.
    weight: u64,
    target: RouteTarget,
}

impl ConsistentHash {
    pub(crate) fn new(arguments: &Arguments) -> Self {
        // The model has refused other arguments.
        Self { on: HashOn::of(arguments).unwrap_or_default(), members: OrdMap::new() }
    }

    pub(crate) fn emptied(&self) -> Self {
        Self { on: self.on.clone(), members: OrdMap::new() }
    }

    pub(crate) fn bind(&mut self, binding: &Binding) {
        let member = Member::of(binding);
        let (hash, target) = (hash::of(&member.bytes()), member.target.clone());
        let share = self.members.entry(member).or_insert(Share { hash, weight: 0, target });
        share.target = RouteTarget::from(binding);
        share.weight = share.weight.saturating_add(weight_of(binding));
    }

    pub(crate) fn unbind(&mut self, binding: &Binding) {
        let member = Member::of(binding);
        let Some(share) = self.members.get_mut(&member) else { return };
        share.weight = share.weight.saturating_sub(weight_of(binding));
        if share.weight == 0 {
            self.members.remove(&member);
        }
    }

    /// Removes all bindings to the destination of this one.
    pub(crate) fn forget(&mut self, binding: &Binding) {
        self.members.remove(&Member::of(binding));
    }

    /// The parts of a message that determine its destination.
    pub(crate) fn routed_by(&self) -> RoutedBy {
        match self.on {
            HashOn::RoutingKey => RoutedBy::Key,
            HashOn::Header(_) => RoutedBy::Headers,
            HashOn::Property(_) => RoutedBy::Message,
        }
    }

    pub(crate) fn destination(&self, key: &[u8], headers: &dyn Headers) -> Option<&RouteTarget> {
        let value = match &self.on {
            HashOn::RoutingKey => hash::of(key),
            HashOn::Header(name) => hash_of(headers.lookup(name)),
            HashOn::Property(property) => hash_of(headers.property(*property)),
        };
        let mut best: Option<(f64, &RouteTarget)> = None;
        for share in self.members.values() {
            // The time of the first event of a process with this rate: the first one of all of them is one of this destination as
            // often as its weight is part of all weights.
            let time = -hash::between_0_and_1(hash::mixed(value ^ share.hash)).ln() / share.weight as f64;
            if best.is_none_or(|(first, _)| time < first) {
                best = Some((time, &share.target));
            }
        }
        best.map(|(_, target)| target)
    }
}

/// The weight of a binding. The model has refused other keys.
fn weight_of(binding: &Binding) -> u64 {
    hash_weight(&binding.routing_key).unwrap_or(1)
}

/// The hash of a header or property. Messages without one have the same hash. Numbers are hashed as text, because a
/// message-id of AMQP 1.0 may be a number, which AMQP 0-9-1 transfers as text.
fn hash_of(header: Option<Header<'_>>) -> u64 {
    match header {
        None => hash::of(&[]),
        Some(Header::String(bytes)) => hash::of(bytes),
        Some(Header::Time { time_ms }) => hash::of(time_ms.to_string().as_bytes()),
        Some(Header::Value(Value::String(bytes) | Value::Bytes(bytes))) => hash::of(&bytes),
        Some(Header::Value(value)) => hash::of(value.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use leveret_model::{Destination, ExchangeId, HashProperty, QueueId};

    use super::*;
    use crate::headers::NoHeaders;

    fn binding(queue: u64, weight: &str) -> Binding {
        Binding {
            vhost: "/".into(),
            source: "x".into(),
            destination: Destination::Queue { name: format!("queue-{queue}").into(), id: QueueId(queue) },
            routing_key: weight.as_bytes().into(),
            arguments: Arguments::default(),
            source_id: ExchangeId(1),
            logged: true,
        }
    }

    fn table(weights: &[(u64, &str)]) -> ConsistentHash {
        let mut table = ConsistentHash::new(&Arguments::default());
        weights.iter().for_each(|(queue, weight)| table.bind(&binding(*queue, weight)));
        table
    }

    /// The queues of the keys `0` to `9999`.
    fn routes(table: &ConsistentHash) -> Vec<u64> {
        let route = |key: u32| match table.destination(key.to_string().as_bytes(), &NoHeaders) {
            Some(RouteTarget::Queue(id)) => id.0,
            other => panic!("{other:?}"),
        };
        (0..10_000).map(route).collect()
    }

    fn shares(routes: &[u64]) -> BTreeMap<u64, usize> {
        let mut shares = BTreeMap::new();
        routes.iter().for_each(|queue| *shares.entry(*queue).or_default() += 1);
        shares
    }

    #[test]
    fn shares_follow_the_weights() {
        let shares = shares(&routes(&table(&[(1, "1"), (2, "2"), (3, "7")])));
        for (queue, expected) in [(1, 1000), (2, 2000), (3, 7000_usize)] {
            // Four standard deviations at most.
            assert!(shares[&queue].abs_diff(expected) < 190, "{shares:?}");
        }
    }

    #[test]
    fn a_new_destination_takes_its_share_and_nothing_else_moves() {
        let mut changed = table(&[(1, "1"), (2, "1"), (3, "2")]);
        let before = routes(&changed);
        changed.bind(&binding(4, "2"));
        let after = routes(&changed);
        let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        assert!(moved.iter().all(|(_, after)| **after == 4));
        assert!(moved.len().abs_diff(3333) < 190, "{} of 10,000", moved.len());
        changed.unbind(&binding(4, "2"));
        assert_eq!(routes(&changed), before);
    }

    #[test]
    fn a_destination_that_leaves_gives_its_share_to_the_others() {
        let mut changed = table(&[(1, "1"), (2, "1"), (3, "1")]);
        let before = routes(&changed);
        changed.unbind(&binding(2, "1"));
        let after = routes(&changed);
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 2));
        assert!(shares(&after).values().all(|share| share.abs_diff(5000) < 200));
    }

    #[test]
    fn a_higher_weight_only_takes_from_others() {
        let mut changed = table(&[(1, "1"), (2, "1")]);
        let before = routes(&changed);
        changed.bind(&binding(2, "2"));
        let after = routes(&changed);
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == 2));
        assert!(shares(&after)[&2].abs_diff(7500) < 180);
        changed.unbind(&binding(2, "2"));
        assert_eq!(routes(&changed), before);
    }

    #[test]
    fn routes_depend_on_the_bindings_and_not_on_their_history() {
        let weights = [(1, "3"), (2, "1"), (3, "2")];
        let mut reversed = weights;
        reversed.reverse();
        assert_eq!(routes(&table(&weights)), routes(&table(&reversed)));
        // The same queue, declared again: its name counts, and not its id.
        let mut again = table(&weights);
        again.forget(&binding(1, "3"));
        let mut renewed = binding(1, "3");
        renewed.destination = Destination::Queue { name: "queue-1".into(), id: QueueId(9) };
        again.bind(&renewed);
        let expected: Vec<_> =
            routes(&table(&weights)).iter().map(|queue| if *queue == 1 { 9 } else { *queue }).collect();
        assert_eq!(routes(&again), expected);
    }

    struct Message(Option<Header<'static>>);

    impl Headers for Message {
        fn lookup(&self, name: &str) -> Option<Header<'_>> {
            self.0.clone().filter(|_| name == "h")
        }

        fn is_empty(&self) -> bool {
            self.0.is_none()
        }

        fn property(&self, property: HashProperty) -> Option<Header<'_>> {
            self.0.clone().filter(|_| property == HashProperty::MessageId)
        }
    }

    #[test]
    fn a_header_or_property_decides_if_the_exchange_says_so() {
        let on = |key: &'static str, value: &'static str| {
            let mut table = ConsistentHash::new(&Arguments::from_iter([(key, Value::from(value))]));
            (1..9).for_each(|queue| table.bind(&binding(queue, "1")));
            table
        };
        let by_key = table(&[1, 2, 3, 4, 5, 6, 7, 8].map(|queue| (queue, "1")));
        for hashed in [on("hash-header", "h"), on("hash-property", "message_id")] {
            for value in ["a", "b", "c", "17"] {
                let expected = by_key.destination(value.as_bytes(), &NoHeaders);
                let message = Message(Some(Header::String(value.as_bytes())));
                assert_eq!(hashed.destination(b"whatever", &message), expected);
                assert_eq!(hashed.destination(b"key", &message), expected);
            }
            let number = Message(Some(Header::Value(Value::Int(17))));
            assert_eq!(hashed.destination(b"", &number), by_key.destination(b"17", &NoHeaders));
            // Without a value all go the same way.
            assert_eq!(hashed.destination(b"a", &Message(None)), hashed.destination(b"b", &Message(None)));
        }
        let other = Message(Some(Header::String(b"a")));
        let by_correlation = on("hash-property", "correlation_id");
        assert_eq!(by_correlation.destination(b"k", &other), by_correlation.destination(b"k", &NoHeaders));
    }
}
