//! Drives model and router with the same commands, and compares routes with a search through all bindings.

use std::collections::BTreeSet;

use leveret_model::{
    Arguments, Bind, Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, Destination, DestinationName,
    ExchangeType, Model, Permit, QueueId, Topology, Value,
};
use leveret_routing::{NoExchange, NoHeaders, RoutedBy, Router, Routes};
use proptest::prelude::*;

fn submit(model: &mut Model, router: &mut Router, command: Command) {
    if let Ok(submitted) = model.submit(Permit::system(), command) {
        router.apply_all(&submitted.changes);
    }
}

fn declare(name: &str, kind: &str, alternate: Option<&str>) -> Command {
    let pairs = alternate.map(|alternate| ("alternate-exchange", Value::from(alternate)));
    Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: name.into(),
        kind: kind.into(),
        durable: true,
        auto_delete: name.ends_with('d'),
        internal: false,
        arguments: Arguments::from_iter(pairs),
    })
}

fn queue(name: &str) -> Command {
    Command::DeclareQueue(DeclareQueue::durable("/".into(), name.into(), Arguments::default()))
}

fn bind(source: &str, destination: DestinationName, key: &str) -> Bind {
    Bind {
        vhost: "/".into(),
        source: source.into(),
        destination,
        routing_key: key.as_bytes().into(),
        arguments: Arguments::default(),
        connection: None,
    }
}

fn has(keys: &[&str], binding: &leveret_model::Binding) -> bool {
    keys.iter().any(|key| *binding.routing_key == *key.as_bytes())
}

/// The definition of routing: follow every binding of every exchange reached.
fn naive(topology: &Topology, exchange: &str, keys: &[&str]) -> Option<BTreeSet<QueueId>> {
    let mut queues = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut todo = vec![exchange.to_owned()];
    topology.exchange("/", exchange)?;
    while let Some(name) = todo.pop() {
        let Some(exchange) = topology.exchange("/", &name).filter(|_| seen.insert(name.clone())) else {
            continue;
        };
        if exchange.is_default() {
            queues.extend(keys.iter().filter_map(|key| topology.queue("/", key)).map(|queue| queue.id));
            continue;
        }
        let matching = topology.bindings_of_source("/", &name).filter(|binding| match exchange.kind {
            ExchangeType::Direct => has(keys, binding),
            ExchangeType::Topic => *binding.routing_key == *b"#" || has(keys, binding),
            ExchangeType::Fanout | ExchangeType::Headers => true,
            other => panic!("{other} picks one of its bindings"),
        });
        let mut found = false;
        for binding in matching {
            found = true;
            match &binding.destination {
                Destination::Queue { id, .. } => drop(queues.insert(*id)),
                Destination::Exchange { name, .. } => todo.push(name.to_string()),
            }
        }
        if !found {
            todo.extend(exchange.alternate().map(str::to_owned));
        }
    }
    Some(queues)
}

const EXCHANGES: [&str; 5] = ["x", "y", "zd", "amq.fanout", "amq.headers"];
const QUEUES: [&str; 4] = ["q", "r", "s", "k"];
const KEYS: [&str; 3] = ["k", "q", "#"];

fn command() -> impl Strategy<Value = Command> {
    let exchange = || prop::sample::select(&EXCHANGES[..]);
    let name = || prop::sample::select(&QUEUES[..]);
    let key = || prop::sample::select(&KEYS[..]);
    let destination = || {
        prop_oneof![
            3 => name().prop_map(|name| DestinationName::Queue(name.into())),
            1 => exchange().prop_map(|name| DestinationName::Exchange(name.into())),
        ]
    };
    let alternate = prop::option::of(prop::sample::select(&["x", "y", "zd", "amq.fanout", "none"][..]));
    let kind = prop::sample::select(&["direct", "fanout", "topic"][..]);
    prop_oneof![
        2 => (exchange(), kind, alternate).prop_map(|(name, kind, alternate)| declare(name, kind, alternate)),
        2 => name().prop_map(queue),
        6 => (exchange(), destination(), key()).prop_map(|(x, to, key)| Command::Bind(bind(x, to, key))),
        2 => (exchange(), destination(), key()).prop_map(|(x, to, key)| Command::Unbind(bind(x, to, key))),
        1 => name().prop_map(|name| Command::DeleteQueue(DeleteQueue {
            vhost: "/".into(), name: name.into(), connection: None, id: None,
        })),
        1 => exchange().prop_map(|name| Command::DeleteExchange(DeleteExchange {
            vhost: "/".into(), name: name.into(), if_unused: false,
        })),
    ]
}

fn routes(router: &Router, exchange: &str, key: &str) -> Option<BTreeSet<QueueId>> {
    routes_by(router, exchange, &[key])
}

fn routes_by(router: &Router, exchange: &str, keys: &[&str]) -> Option<BTreeSet<QueueId>> {
    let mut out = Routes::new();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    router.route_by("/", exchange, &keys, &NoHeaders, &mut out).ok()?;
    let set: BTreeSet<QueueId> = out.iter().copied().collect();
    assert_eq!(set.len(), out.len(), "a queue came twice");
    Some(set)
}

proptest! {
    #[test]
    fn routes_are_those_of_the_definition(commands in prop::collection::vec(command(), 1..60)) {
        let mut model = Model::new();
        let mut router = Router::new(model.topology());
        for command in commands {
            submit(&mut model, &mut router, command);
        }
        let topology = model.topology();
        let rebuilt = Router::new(topology);
        for exchange in ["x", "y", "zd", "amq.fanout", "amq.headers", "", "none"] {
            for keys in [&["k"][..], &["q"], &["#"], &["other"], &["k", "q"], &["other", "k", "#"]] {
                let expected = naive(topology, exchange, keys);
                prop_assert_eq!(&routes_by(&router, exchange, keys), &expected, "{} {:?}", exchange, keys);
                prop_assert_eq!(&routes_by(&rebuilt, exchange, keys), &expected, "rebuilt: {} {:?}", exchange, keys);
            }
        }
    }
}

#[test]
fn alternates_may_form_a_loop() {
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    for command in [
        declare("x", "direct", Some("y")),
        declare("y", "direct", Some("x")),
        queue("q"),
        Command::Bind(bind("y", DestinationName::Queue("q".into()), "k")),
    ] {
        submit(&mut model, &mut router, command);
    }
    assert_eq!(routes(&router, "x", "other"), Some(BTreeSet::new()));
    assert_eq!(routes(&router, "x", "k"), Some(BTreeSet::from([QueueId(1)])));
}

#[test]
fn a_clone_is_a_snapshot() {
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    submit(&mut model, &mut router, queue("q"));
    let before = router.clone();
    let delete = DeleteQueue { vhost: "/".into(), name: "q".into(), connection: None, id: None };
    submit(&mut model, &mut router, Command::DeleteQueue(delete));
    assert_eq!(routes(&before, "", "q"), Some(BTreeSet::from([QueueId(1)])));
    assert_eq!(routes(&router, "", "q"), Some(BTreeSet::new()));
}

#[test]
fn a_missing_exchange_or_vhost_is_an_error() {
    let router = Router::new(Model::new().topology());
    let mut out = Routes::new();
    assert_eq!(router.route("/", "none", b"", &NoHeaders, &mut out), Err(NoExchange));
    assert_eq!(router.route("none", "", b"", &NoHeaders, &mut out), Err(NoExchange));
}

/// Tells which routes a session may cache by key, and which it must ask for per message.
#[test]
fn headers_decide_only_behind_a_headers_exchange() {
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    let to_headers = || DestinationName::Exchange("amq.headers".into());
    for command in [
        declare("x", "direct", None),
        declare("y", "direct", Some("amq.headers")),
        queue("q"),
        Command::Bind(bind("x", DestinationName::Queue("q".into()), "k")),
        Command::Bind(bind("x", DestinationName::Exchange("y".into()), "through")),
        Command::Bind(bind("x", to_headers(), "headers")),
        Command::Bind(bind("y", DestinationName::Queue("q".into()), "k")),
    ] {
        submit(&mut model, &mut router, command);
    }
    for (exchange, key, expected) in [
        ("", "q", RoutedBy::Key),
        ("x", "k", RoutedBy::Key),
        ("x", "nowhere", RoutedBy::Key),
        ("x", "headers", RoutedBy::Headers),
        ("x", "through", RoutedBy::Headers),
        ("y", "k", RoutedBy::Key),
        ("y", "nowhere", RoutedBy::Headers),
        ("amq.headers", "k", RoutedBy::Headers),
    ] {
        let routed = router.route("/", exchange, key.as_bytes(), &NoHeaders, &mut Routes::new());
        assert_eq!(routed, Ok(expected), "{exchange} {key}");
    }
}

/// Creating or deleting a binding takes logarithmic time, however many there are.
#[test]
fn a_hundred_thousand_bindings_route_and_go_with_their_queue() {
    const BINDINGS: usize = 100_000;
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    let key = |at: usize| format!("region-{}.device-{at}.*", at % 100);
    for command in [declare("x", "topic", None), queue("q"), queue("stays")] {
        submit(&mut model, &mut router, command);
    }
    for at in 0..BINDINGS {
        submit(&mut model, &mut router, Command::Bind(bind("x", DestinationName::Queue("q".into()), &key(at))));
    }
    submit(&mut model, &mut router, Command::Bind(bind("x", DestinationName::Queue("stays".into()), &key(7))));
    let topology = model.topology().clone();
    let id = |name: &str| topology.queue("/", name).expect("was declared").id;
    let (q, stays) = (id("q"), id("stays"));
    assert_eq!(topology.bindings_of_source("/", "x").count(), BINDINGS + 1);
    assert_eq!(routes(&router, "x", "region-99.device-99999.up"), Some(BTreeSet::from([q])));
    assert_eq!(routes(&router, "x", "region-7.device-7.up"), Some(BTreeSet::from([q, stays])));
    assert_eq!(routes(&router, "x", "region-1.device-7.up"), Some(BTreeSet::new()));
    let delete = DeleteQueue { vhost: "/".into(), name: "q".into(), connection: None, id: None };
    submit(&mut model, &mut router, Command::DeleteQueue(delete));
    assert_eq!(model.topology().bindings_of_source("/", "x").count(), 1);
    assert_eq!(routes(&router, "x", "region-99.device-99999.up"), Some(BTreeSet::new()));
    assert_eq!(routes(&router, "x", "region-7.device-7.up"), Some(BTreeSet::from([stays])));
}

/// A queue and its bindings beside another one's, all with the same keys.
fn with_many_bindings(kind: &str, keys: u32) -> (Model, Router) {
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    submit(&mut model, &mut router, declare("other", "fanout", None));
    submit(&mut model, &mut router, declare("e", kind, Some("other")));
    for name in ["many", "few", "rest"] {
        submit(&mut model, &mut router, queue(name));
    }
    let to = |name: &str| DestinationName::Queue(name.into());
    for key in 0..keys {
        submit(&mut model, &mut router, Command::Bind(bind("e", to("many"), &format!("k{key}"))));
    }
    submit(&mut model, &mut router, Command::Bind(bind("e", to("few"), "k0")));
    submit(&mut model, &mut router, Command::Bind(bind("other", to("rest"), "")));
    (model, router)
}

fn delete(name: &str) -> Command {
    Command::DeleteQueue(DeleteQueue { vhost: "/".into(), name: name.into(), connection: None, id: None })
}

#[test]
fn bindings_of_a_deleted_queue_lead_nowhere_before_they_are_out() {
    for kind in ["direct", "topic"] {
        let (mut model, mut router) = with_many_bindings(kind, 5000);
        submit(&mut model, &mut router, delete("many"));
        assert!(!router.is_tidy(), "most of its bindings are left for later");
        let mut steps = 0;
        loop {
            for key in ["k0", "k1", "k2500", "k4999"] {
                let expected = naive(model.topology(), "e", &[key]);
                assert_eq!(
                    routes(&router, "e", key),
                    expected,
                    "a message that finds nobody goes to the alternate exchange"
                );
            }
            if router.is_tidy() {
                break;
            }
            router.tidy();
            steps += 1;
        }
        assert!((10..30).contains(&steps), "{steps} steps");
        // Only bindings of the other queue are left.
        submit(&mut model, &mut router, delete("few"));
        assert_eq!(routes(&router, "e", "k0"), naive(model.topology(), "e", &["k0"]));
    }
}

#[test]
fn a_queue_of_the_same_name_gets_what_it_is_bound_for_at_once() {
    let (mut model, mut router) = with_many_bindings("direct", 3000);
    submit(&mut model, &mut router, delete("many"));
    submit(&mut model, &mut router, queue("many"));
    submit(&mut model, &mut router, Command::Bind(bind("e", DestinationName::Queue("many".into()), "k2999")));
    let check = |router: &Router| {
        for key in ["k0", "k2998", "k2999"] {
            assert_eq!(routes(router, "e", key), naive(model.topology(), "e", &[key]));
        }
    };
    check(&router);
    while !router.is_tidy() {
        router.tidy();
        check(&router);
    }
}

#[test]
fn an_exchange_goes_with_what_was_left_in_it() {
    for name in ["e", "other"] {
        let (mut model, mut router) = with_many_bindings("direct", 3000);
        submit(&mut model, &mut router, delete("many"));
        let gone = DeleteExchange { vhost: "/".into(), name: "e".into(), if_unused: false };
        submit(&mut model, &mut router, Command::DeleteExchange(gone));
        submit(&mut model, &mut router, declare("e", "direct", None));
        submit(&mut model, &mut router, Command::Bind(bind("e", DestinationName::Queue("few".into()), "k1")));
        while !router.is_tidy() {
            router.tidy();
        }
        assert_eq!(routes(&router, name, "k1"), naive(model.topology(), name, &["k1"]));
    }
}

#[test]
fn one_key_leads_to_an_exchange_and_another_on_from_there() {
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    for command in [
        declare("x", "direct", None),
        declare("y", "direct", None),
        queue("q"),
        Command::Bind(bind("x", DestinationName::Exchange("y".into()), "one")),
        Command::Bind(bind("y", DestinationName::Queue("q".into()), "two")),
    ] {
        submit(&mut model, &mut router, command);
    }
    assert_eq!(routes_by(&router, "x", &["one", "two"]), Some(BTreeSet::from([QueueId(1)])));
    assert_eq!(routes_by(&router, "x", &["two"]), Some(BTreeSet::new()));
}

/// Exchanges that give a message to one binding: a deleted queue with many bindings gets no message that another one could have.
#[test]
fn a_message_is_not_lost_to_a_deleted_queue_with_many_bindings() {
    for kind in ["x-consistent-hash", "x-modulus-hash", "x-random"] {
        let mut model = Model::new();
        let mut router = Router::new(model.topology());
        for command in [declare("x", kind, None), queue("many"), queue("rest")] {
            submit(&mut model, &mut router, command);
        }
        let bind_many = |model: &mut Model, router: &mut Router, name: &str, count: i64| {
            for number in 0..count {
                let arguments = Arguments::from_iter([("number", Value::Int(number))]);
                let to = DestinationName::Queue(name.into());
                submit(model, router, Command::Bind(Bind { arguments, ..bind("x", to, "1") }));
            }
        };
        bind_many(&mut model, &mut router, "many", 600);
        bind_many(&mut model, &mut router, "rest", 1);
        let id = model.topology().queue("/", "rest").expect("it is there").id;
        submit(&mut model, &mut router, delete("many"));
        for key in 0..50 {
            assert_eq!(routes(&router, "x", &key.to_string()), Some(BTreeSet::from([id])), "{kind}");
        }
        submit(&mut model, &mut router, delete("rest"));
        assert_eq!(routes(&router, "x", "k"), Some(BTreeSet::new()), "{kind}");
    }
}

/// The number of messages of 10,000 with other keys that each of four queues gets.
fn shares(router: &Router, model: &Model) -> Vec<usize> {
    let mut shares = vec![0; 4];
    for key in 0..10_000 {
        let found = routes(router, "x", &key.to_string()).expect("it is there");
        let [id] = *found.into_iter().collect::<Vec<_>>() else { panic!("one queue gets it") };
        let at =
            (0..4).position(|at| model.topology().queue("/", &format!("q{at}")).is_some_and(|queue| queue.id == id));
        shares[at.expect("it is one of them")] += 1;
    }
    shares
}

#[test]
fn hashes_and_chance_spread_messages_over_all_bindings() {
    for kind in ["x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"] {
        let mut model = Model::new();
        let mut router = Router::new(model.topology());
        submit(&mut model, &mut router, declare("x", kind, None));
        let key = if kind == "x-local-random" { "" } else { "1" };
        for at in 0..4 {
            submit(&mut model, &mut router, queue(&format!("q{at}")));
            let to = DestinationName::Queue(format!("q{at}").into());
            submit(&mut model, &mut router, Command::Bind(bind("x", to, key)));
        }
        let spread = shares(&router, &model);
        assert!(spread.iter().all(|share| share.abs_diff(2500) < 200), "{kind}: {spread:?}");
        let rebuilt = Router::new(model.topology());
        match kind {
            "x-random" | "x-local-random" => assert_ne!(shares(&router, &model), spread, "{kind}"),
            _ => {
                let same = |key: u32| routes(&router, "x", &key.to_string()) == routes(&rebuilt, "x", &key.to_string());
                assert!((0..1000).all(same), "{kind} routes in the same way after a restart");
            }
        }
    }
}

#[test]
fn one_binding_gets_a_message_or_the_alternate_exchange_does() {
    for kind in ["x-consistent-hash", "x-modulus-hash", "x-random"] {
        let mut model = Model::new();
        let mut router = Router::new(model.topology());
        for command in [
            declare("x", kind, Some("amq.fanout")),
            declare("next", "fanout", None),
            queue("q"),
            queue("other"),
            Command::Bind(bind("amq.fanout", DestinationName::Queue("other".into()), "")),
            Command::Bind(bind("next", DestinationName::Queue("q".into()), "")),
        ] {
            submit(&mut model, &mut router, command);
        }
        let id = |name: &str| model.topology().queue("/", name).expect("it is there").id;
        let (q, other) = (id("q"), id("other"));
        assert_eq!(routes(&router, "x", "k"), Some(BTreeSet::from([other])), "{kind}");
        // An exchange may be the destination. Only the first of several keys counts.
        let through = bind("x", DestinationName::Exchange("next".into()), "1");
        submit(&mut model, &mut router, Command::Bind(through.clone()));
        assert_eq!(routes_by(&router, "x", &["k", "j"]), Some(BTreeSet::from([q])), "{kind}");
        submit(&mut model, &mut router, Command::Unbind(through));
        assert_eq!(routes(&router, "x", "k"), Some(BTreeSet::from([other])), "{kind}");
    }
}

/// The parts of a message that decide whether a session may keep its route.
#[test]
fn keys_headers_or_nothing_tell_the_next_route() {
    let mut model = Model::new();
    let mut router = Router::new(model.topology());
    let hashing = |name: &str, argument: Option<(&'static str, &'static str)>| {
        let Command::DeclareExchange(declare) = declare(name, "x-consistent-hash", None) else { unreachable!() };
        let arguments = argument.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
        Command::DeclareExchange(DeclareExchange { arguments, ..declare })
    };
    for command in [
        hashing("key", None),
        hashing("header", Some(("hash-header", "h"))),
        hashing("property", Some(("hash-property", "message_id"))),
        declare("modulus", "x-modulus-hash", None),
        declare("random", "x-random", None),
        declare("local", "x-local-random", None),
    ] {
        submit(&mut model, &mut router, command);
    }
    for (exchange, expected) in [
        ("key", RoutedBy::Key),
        ("header", RoutedBy::Headers),
        ("property", RoutedBy::Message),
        ("modulus", RoutedBy::Key),
        ("random", RoutedBy::Message),
        ("local", RoutedBy::Message),
    ] {
        assert_eq!(router.route("/", exchange, b"k", &NoHeaders, &mut Routes::new()), Ok(expected), "{exchange}");
    }
}
