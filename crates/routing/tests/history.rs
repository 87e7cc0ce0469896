//! Recent history exchanges: all bindings, and the queue with the last messages.

mod world;

use leveret_model::{DestinationName, HashProperty, Value};
use leveret_routing::{Header, Headers, NoHeaders, RoutedBy, Router};
use world::{World, routed};

struct NoStore(Value);

impl Headers for NoStore {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        (name == "x-recent-history-no-store").then(|| Header::Value(self.0.clone()))
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn property(&self, _: HashProperty) -> Option<Header<'_>> {
        None
    }
}

#[test]
fn messages_go_to_all_bindings_and_to_the_queue_of_the_exchange() {
    let mut world = World::new();
    world.exchange("other", "fanout", vec![]);
    world.exchange("x", "x-recent-history", vec![]);
    world.exchange("unbound", "x-recent-history", vec![("alternate-exchange", "other".into())]);
    for name in ["q", "r", "left"] {
        world.queue(name);
    }
    world.bind("x", DestinationName::Queue("q".into()), "a");
    world.bind("x", DestinationName::Queue("r".into()), "b");
    world.bind("x", DestinationName::Queue("r".into()), "c");
    world.bind("other", DestinationName::Queue("left".into()), "");
    world.exchange("before", "direct", vec![]);
    world.bind("before", DestinationName::Exchange("x".into()), "k");
    let topology = world.model.topology();
    let named = |name: &str| topology.queue("/", name).expect("it is there").id;
    for router in [&world.router, &Router::new(topology)] {
        let route = |exchange: &str, headers: &dyn Headers| routed(router, exchange, "k", headers);
        for exchange in ["x", "before"] {
            let all = vec![named("amq.history.x"), named("q"), named("r")];
            assert_eq!(route(exchange, &NoHeaders), (all.clone(), RoutedBy::Headers));
            assert_eq!(route(exchange, &NoStore(Value::Bool(true))).0, all[1..]);
            for kept in [Value::Bool(false), Value::Int(1), Value::from("true")] {
                assert_eq!(route(exchange, &NoStore(kept.clone())).0, all, "{kept:?}");
            }
        }
        let alternate = vec![named("amq.history.unbound"), named("left")];
        let mut routed = route("unbound", &NoHeaders).0;
        routed.sort();
        let mut expected = alternate;
        expected.sort();
        assert_eq!(routed, expected, "to keep a message isn't to route it");
        assert_eq!(route("", &NoHeaders).0, [], "it has no name for publishers");
    }
}
