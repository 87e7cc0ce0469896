//! Recent history exchanges: all bindings, and the queue with the last messages.

use leveret_model::{
    Arguments, Bind, Command, DeclareExchange, DeclareQueue, DestinationName, HashProperty, Model, Permit, Value,
};
use leveret_routing::{Header, Headers, NoHeaders, RoutedBy, Router, Routes};

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
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    let mut submit = |command| {
        let changes = model.submit(Permit::system(), command).expect("it is accepted").changes;
        router.apply_all(&changes);
    };
    let exchange = |name: &str, kind: &'static str, arguments: Vec<(&'static str, Value)>| {
        Command::DeclareExchange(DeclareExchange {
            vhost: "/".into(),
            name: name.into(),
            kind: kind.into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments.into_iter().collect(),
        })
    };
    let bind = |source: &str, destination, key: &str| {
        Command::Bind(Bind {
            vhost: "/".into(),
            source: source.into(),
            destination,
            routing_key: key.as_bytes().into(),
            arguments: Arguments::default(),
            connection: None,
        })
    };
    submit(exchange("other", "fanout", vec![]));
    submit(exchange("x", "x-recent-history", vec![]));
    submit(exchange("unbound", "x-recent-history", vec![("alternate-exchange", "other".into())]));
    for name in ["q", "r", "left"] {
        submit(Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), Arguments::default())));
    }
    submit(bind("x", DestinationName::Queue("q".into()), "a"));
    submit(bind("x", DestinationName::Queue("r".into()), "b"));
    submit(bind("x", DestinationName::Queue("r".into()), "c"));
    submit(bind("other", DestinationName::Queue("left".into()), ""));
    submit(exchange("before", "direct", vec![]));
    submit(bind("before", DestinationName::Exchange("x".into()), "k"));
    let topology = model.topology();
    let named = |name: &str| topology.queue("/", name).expect("it is there").id;
    for router in [&router, &Router::new(topology)] {
        let route = |exchange: &str, headers: &dyn Headers| {
            let mut routes = Routes::new();
            let by = router.route("/", exchange, b"k", headers, &mut routes).expect("it is there");
            (routes.to_vec(), by)
        };
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
