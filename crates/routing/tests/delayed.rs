//! Delayed exchanges: a message that asks for a delay goes to the queue in which it waits, others are routed at once.

mod world;

use std::collections::BTreeMap;

use leveret_model::{DestinationName, HashProperty, Value};
use leveret_routing::{Header, Headers, NoHeaders, RoutedBy, Router, delay_ms};
use world::{World, routed};

struct One(BTreeMap<&'static str, Header<'static>>);

impl Headers for One {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        self.0.get(name).cloned()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn property(&self, _: HashProperty) -> Option<Header<'_>> {
        None
    }
}

fn delay(value: Header<'static>) -> One {
    One(BTreeMap::from([("x-delay", value)]))
}

fn int(ms: i64) -> Header<'static> {
    Header::Value(Value::Int(ms))
}

#[test]
fn a_delay_is_a_positive_number_of_32_bits() {
    let of = |value| delay_ms(&delay(value));
    assert_eq!(delay_ms(&NoHeaders), None);
    for (value, expected) in [
        (int(1), Some(1)),
        (int(4_294_967_295), Some(u32::MAX)),
        (int(4_294_967_296), None),
        (int(0), None),
        (int(-5), None),
        (Header::Value(Value::Double(1500.9)), Some(1500)),
        (Header::Value(Value::Double(0.9)), None),
        (Header::Value(Value::Double(f64::NAN)), None),
        (Header::String(b"1500"), Some(1500)),
        (Header::String(b"-1500"), None),
        (Header::String(b"soon"), None),
        (Header::Value(Value::Bool(true)), None),
        (Header::Value(Value::Void), None),
        (Header::Time { time_ms: 1500 }, None),
    ] {
        assert_eq!(of(value.clone()), expected, "{value:?}");
    }
}

#[test]
fn messages_with_a_delay_go_to_the_queue_of_the_exchange() {
    let mut world = World::new();
    world.exchange("other", "fanout", vec![]);
    let arguments = vec![("x-delayed-type", "topic".into()), ("alternate-exchange", "other".into())];
    world.exchange("x", "x-delayed-message", arguments);
    for name in ["q", "left"] {
        world.queue(name);
    }
    world.bind("x", DestinationName::Queue("q".into()), "a.#");
    world.bind("other", DestinationName::Queue("left".into()), "");
    world.exchange("before", "fanout", vec![]);
    world.bind("before", DestinationName::Exchange("x".into()), "");
    let topology = world.model.topology();
    let named = |name: &str| topology.queue("/", name).expect("it is there").id;
    let fresh = Router::new(topology);
    for router in [&world.router, &fresh] {
        let route = |exchange: &str, key: &str, headers: &dyn Headers| routed(router, exchange, key, headers);
        for exchange in ["x", "before"] {
            assert_eq!(route(exchange, "a.b", &NoHeaders), (vec![named("q")], RoutedBy::Headers));
            let waits = (vec![named("amq.delayed.x")], RoutedBy::Headers);
            assert_eq!(route(exchange, "a.b", &delay(int(5))), waits);
            assert_eq!(route(exchange, "none", &delay(int(5))), waits, "bindings count when it is due");
            assert_eq!(route(exchange, "a.b", &delay(int(-5))).0, [named("q")]);
            assert_eq!(route(exchange, "none", &NoHeaders).0, [named("left")]);
        }
        assert_eq!(route("", "amq.delayed.x", &NoHeaders).0, [], "it has no name for publishers");
    }
}
