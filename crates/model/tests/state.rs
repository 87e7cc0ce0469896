//! The changes that commands make, their records, and the replay of these.

use leveret_model::{
    Action, Arguments, Bind, Binding, Change, Command, CommandOutcome, ConnectionId, DeclareExchange, DeclareQueue,
    DeleteExchange, DeleteQueue, DestinationName, Identity, JoinedRecords, Model, Permit, PutUser, QueueId,
    RefusedKind, Resource, SetPermissions, Submitted, Topology, Value, authorize,
};

fn submit(model: &mut Model, command: Command) -> Submitted {
    model.submit(Permit::system(), command).unwrap()
}

fn queue(name: &str, durable: bool) -> DeclareQueue {
    DeclareQueue {
        vhost: "/".into(),
        name: name.into(),
        server_named: false,
        durable,
        auto_delete: false,
        exclusive: false,
        connection: Some(ConnectionId(1)),
        arguments: Arguments::default(),
    }
}

fn exchange(name: &str, durable: bool, auto_delete: bool) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: name.into(),
        kind: "direct".into(),
        durable,
        auto_delete,
        internal: false,
        arguments: Arguments::default(),
    })
}

fn bind(source: &str, destination: DestinationName) -> Bind {
    Bind {
        vhost: "/".into(),
        source: source.into(),
        destination,
        routing_key: b"k"[..].into(),
        arguments: Arguments::default(),
        connection: Some(ConnectionId(1)),
    }
}

fn to_queue(name: &str) -> DestinationName {
    DestinationName::Queue(name.into())
}

fn to_exchange(name: &str) -> DestinationName {
    DestinationName::Exchange(name.into())
}

fn delete_queue(name: &str) -> Command {
    Command::DeleteQueue(DeleteQueue { vhost: "/".into(), name: name.into(), connection: None, id: None })
}

/// All objects of a topology, as text.
fn listed(topology: &Topology) -> Vec<String> {
    let mut lines = Vec::new();
    for vhost in topology.vhosts() {
        lines.extend(topology.exchanges(vhost).map(|exchange| format!("{exchange:?}")));
        lines.extend(topology.queues(vhost).map(|queue| format!("{queue:?}")));
        lines.extend(topology.bindings(vhost).map(|binding| format!("{binding:?}")));
    }
    lines.extend(topology.users().map(|user| format!("{user:?}")));
    lines.extend(topology.permissions().map(|permission| format!("{permission:?}")));
    lines
}

fn kinds(submitted: &Submitted) -> Vec<String> {
    let name = |change: &Change| {
        vec![match change {
            Change::QueueDeclared(queue) => format!("queue {}", queue.name),
            Change::QueueDeleted(queue) => format!("-queue {}", queue.name),
            Change::ExchangeDeclared(exchange) => format!("exchange {}", exchange.name),
            Change::ExchangeDeleted(exchange) => format!("-exchange {}", exchange.name),
            Change::Bound(binding) => ends("", binding),
            Change::SourceUnbound(gone) => return gone.iter().map(|binding| ends("-", binding)).collect(),
            Change::Unbound(gone) => return gone.iter().map(|binding| ends("-", binding)).collect(),
            other => format!("{other:?}"),
        }]
    };
    submitted.changes.iter().flat_map(name).collect()
}

fn ends(sign: &str, binding: &Binding) -> String {
    format!("{sign}{} -> {}", binding.source, binding.destination.name())
}

#[test]
fn an_equal_redeclaration_changes_and_logs_nothing() {
    let mut model = Model::new();
    let first = submit(&mut model, Command::DeclareQueue(queue("q", true)));
    assert_eq!(first.outcome, CommandOutcome::Created);
    assert!(first.record.is_some());
    let generation = model.topology().generation();
    let again = submit(&mut model, Command::DeclareQueue(queue("q", true)));
    assert_eq!((again.outcome, again.changes.len(), again.record), (CommandOutcome::Exists, 0, None));
    assert_eq!(model.topology().generation(), generation);
}

#[test]
fn only_durable_objects_that_are_not_exclusive_are_logged() {
    let mut model = Model::new();
    assert!(submit(&mut model, Command::DeclareQueue(queue("transient", false))).record.is_none());
    let exclusive = DeclareQueue { exclusive: true, ..queue("mine", true) };
    assert!(submit(&mut model, Command::DeclareQueue(exclusive)).record.is_none());
    assert!(submit(&mut model, exchange("x", false, false)).record.is_none());
    assert!(submit(&mut model, Command::Bind(bind("amq.direct", to_queue("transient")))).record.is_none());
    assert!(submit(&mut model, delete_queue("transient")).record.is_none());
    let restored = Model::restore(&model.snapshot()).unwrap();
    assert_eq!(listed(restored.topology()), listed(Model::new().topology()));
}

#[test]
fn replay_and_snapshot_give_the_logged_state() {
    let mut model = Model::new();
    let mut records = Vec::new();
    let arguments = Arguments::from_iter([("x-max-length", Value::Int(5)), ("other", Value::string([0xff]))]);
    let commands = [
        Command::CreateVhost { name: "v".into() },
        Command::PutUser(PutUser {
            name: "u".into(),
            password_hash: Some("hash".into()),
            hashing_algorithm: "rabbit_password_hashing_sha256".into(),
            tags: vec!["administrator".into()],
        }),
        Command::SetPermissions(SetPermissions {
            user: "u".into(),
            vhost: "v".into(),
            configure: "".into(),
            write: "^a".into(),
            read: ".*".into(),
        }),
        Command::DeclareQueue(DeclareQueue { arguments, ..queue("q", true) }),
        Command::DeclareQueue(queue("transient", false)),
        Command::DeclareQueue(queue("gone", true)),
        exchange("x", true, false),
        Command::Bind(bind("x", to_queue("q"))),
        Command::Bind(bind("x", to_queue("gone"))),
        Command::Bind(bind("amq.fanout", to_exchange("x"))),
        Command::Unbind(bind("amq.fanout", to_exchange("x"))),
        delete_queue("gone"),
        delete_queue("transient"),
        Command::CreateVhost { name: "w".into() },
        Command::DeleteVhost { name: "w".into() },
    ];
    for command in commands {
        records.extend(submit(&mut model, command).record);
    }
    let expected = listed(model.topology());
    assert!(expected.iter().any(|line| line.contains("max_length: Some(5)")));

    let mut replayed = Model::new();
    for record in &records {
        replayed.replay(record).unwrap();
    }
    assert_eq!(listed(replayed.topology()), expected);
    let mut joined = JoinedRecords::default();
    records.iter().for_each(|record| joined.add(record));
    let mut replayed_at_once = Model::new();
    replayed_at_once.replay(&joined.finish().expect("there were records")).unwrap();
    assert_eq!(listed(replayed_at_once.topology()), expected);
    assert_eq!(JoinedRecords::default().finish(), None);
    let mut restored = Model::restore(&model.snapshot()).unwrap();
    assert_eq!(listed(restored.topology()), expected);

    // The id of the deleted queue isn't reused, neither after a replay nor after a snapshot.
    let next =
        |model: &mut Model| submit(model, Command::DeclareQueue(queue("new", true))).queue_declared().unwrap().id;
    let expected = next(&mut model);
    assert_eq!(expected, QueueId(4));
    assert_eq!(next(&mut replayed), expected);
    assert_eq!(next(&mut restored), expected);
}

#[test]
fn damaged_and_newer_records_are_refused() {
    let mut model = Model::new();
    assert!(model.replay(b"").is_err());
    assert!(model.replay(&[2]).unwrap_err().to_string().contains("version 2"));
    assert!(model.replay(b"\x01[{").is_err());
    assert!(Model::restore(b"\x01null").is_err());
}

#[test]
fn deletion_of_auto_delete_exchanges_cascades() {
    let mut model = Model::new();
    for name in ["a", "b"] {
        let _ = submit(&mut model, exchange(name, true, true));
    }
    let _ = submit(&mut model, exchange("kept", true, false));
    for name in ["q", "r"] {
        let _ = submit(&mut model, Command::DeclareQueue(queue(name, true)));
        let _ = submit(&mut model, Command::Bind(bind("b", to_queue(name))));
    }
    let _ = submit(&mut model, Command::Bind(bind("a", to_exchange("b"))));
    let _ = submit(&mut model, Command::Bind(bind("kept", to_exchange("a"))));
    let first = submit(&mut model, delete_queue("q"));
    assert_eq!(kinds(&first), ["-b -> q", "-queue q"]);
    let last = submit(&mut model, delete_queue("r"));
    assert_eq!(kinds(&last), ["-b -> r", "-queue r", "-a -> b", "-exchange b", "-kept -> a", "-exchange a"]);
    let unbound = Command::Unbind(bind("kept", to_exchange("a")));
    assert_eq!(submit(&mut model, unbound).outcome, CommandOutcome::Absent);
    assert!(model.topology().exchange("/", "kept").is_some());
}

#[test]
fn deleting_an_exchange_kept_by_a_transient_binding_is_logged() {
    let mut model = Model::new();
    let mut records = Vec::new();
    records.extend(submit(&mut model, exchange("a", true, true)).record);
    let _ = submit(&mut model, Command::DeclareQueue(queue("t", false)));
    let _ = submit(&mut model, Command::Bind(bind("a", to_queue("t"))));
    records.extend(submit(&mut model, delete_queue("t")).record);
    let mut replayed = Model::new();
    for record in &records {
        replayed.replay(record).unwrap();
    }
    assert_eq!(replayed.topology().exchange("/", "a"), None);
}

#[test]
fn deleting_an_exchange_unbinds_both_its_sides_first() {
    let mut model = Model::new();
    let _ = submit(&mut model, exchange("x", true, false));
    let _ = submit(&mut model, Command::DeclareQueue(queue("q", true)));
    let _ = submit(&mut model, Command::Bind(bind("x", to_queue("q"))));
    let _ = submit(&mut model, Command::Bind(bind("amq.direct", to_exchange("x"))));
    let delete = DeleteExchange { vhost: "/".into(), name: "x".into(), if_unused: false };
    let deleted = submit(&mut model, Command::DeleteExchange(delete));
    assert_eq!(kinds(&deleted), ["-x -> q", "-amq.direct -> x", "-exchange x"]);
    let topology = model.topology();
    assert_eq!(topology.bindings("/").count(), 0);
    let q = topology.queue("/", "q").unwrap();
    assert_eq!(topology.bindings_of_destination("/", &q.destination()).count(), 0);
}

#[test]
fn a_snapshot_does_not_change_with_the_model() {
    let mut model = Model::new();
    let _ = submit(&mut model, Command::DeclareQueue(queue("q", true)));
    let before = model.topology().clone();
    let _ = submit(&mut model, delete_queue("q"));
    assert!(before.queue("/", "q").is_some());
    assert!(model.topology().queue("/", "q").is_none());
    assert!(before.generation() < model.topology().generation());
}

fn user(tags: &[&str]) -> Command {
    Command::PutUser(PutUser {
        name: "u".into(),
        password_hash: None,
        hashing_algorithm: "rabbit_password_hashing_sha256".into(),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
    })
}

#[test]
fn a_permit_of_another_vhost_or_without_the_tag_is_refused() {
    let mut model = Model::new();
    let _ = submit(&mut model, Command::CreateVhost { name: "v".into() });
    let _ = submit(&mut model, user(&["management"]));
    let _ = submit(
        &mut model,
        Command::SetPermissions(SetPermissions {
            user: "u".into(),
            vhost: "v".into(),
            configure: ".*".into(),
            write: ".*".into(),
            read: ".*".into(),
        }),
    );
    let topology = model.topology().clone();
    let permit = authorize(&topology, &Identity::of_model("u"), "v", Action::DeleteQueue("q")).unwrap();
    let elsewhere = model.submit(permit.clone(), Command::DeclareQueue(queue("q", true))).unwrap_err();
    assert_eq!(elsewhere.kind, RefusedKind::NotAllowed);
    let admin = model.submit(permit, Command::CreateVhost { name: "w".into() }).unwrap_err();
    assert_eq!(admin.kind, RefusedKind::AccessRefused);
    assert!(authorize(&topology, &Identity::of_model("u"), "/", Action::Administer).is_err());
    let _ = submit(&mut model, user(&["administrator"]));
    let permit = authorize(model.topology(), &Identity::of_model("u"), "/", Action::Administer).unwrap();
    assert!(model.submit(permit, Command::CreateVhost { name: "w".into() }).is_ok());
    let elsewhere = authorize(model.topology(), &Identity::of_model("u"), "/", Action::Enter).unwrap_err();
    assert_eq!(elsewhere.reply_text(), "NOT_ALLOWED - access to vhost '/' refused for user 'u'");
    let missing = authorize(model.topology(), &Identity::of_model("u"), "none", Action::Enter).unwrap_err();
    assert_eq!(missing.reply_text(), "NOT_ALLOWED - vhost none not found");
}

#[test]
fn any_permission_is_enough_to_inspect_an_object() {
    let mut model = Model::new();
    let _ = submit(&mut model, Command::CreateVhost { name: "v".into() });
    let _ = submit(&mut model, user(&[]));
    let look = |model: &Model, name| {
        authorize(model.topology(), &Identity::of_model("u"), "v", Action::Inspect(Resource::Queue(name)))
    };
    for (configure, write, read) in [("q", "", ""), ("", "q", ""), ("", "", "q")] {
        let [configure, write, read] = [configure, write, read].map(|pattern| format!("^{pattern}$"));
        let permissions = SetPermissions { user: "u".into(), vhost: "v".into(), configure, write, read };
        let _ = submit(&mut model, Command::SetPermissions(permissions));
        assert!(look(&model, "q").is_ok());
        let refused = look(&model, "other").unwrap_err();
        assert_eq!(refused.text, "configure access to queue 'other' in vhost 'v' refused for user 'u'");
    }
}

#[test]
fn ids_of_logged_and_other_queues_come_from_one_counter() {
    let mut model = Model::new();
    let mut declare =
        |name, durable| submit(&mut model, Command::DeclareQueue(queue(name, durable))).queue_declared().unwrap().id;
    let ids = [("t", false), ("q", true), ("u", false), ("v", false)].map(|(name, durable)| declare(name, durable));
    assert_eq!(ids, [1, 2, 3, 4].map(QueueId));
    let again = Model::restore(&model.snapshot()).unwrap();
    assert!(again.has_given(QueueId(4)) && !again.has_given(QueueId(5)));
    assert_eq!(again.topology().queue("/", "t").map(|queue| queue.id), None, "it isn't logged");
}

#[test]
fn a_double_is_not_equivalent_to_the_integer_of_an_argument() {
    let mut model = Model::new();
    let declare = |value: Value| {
        Command::DeclareQueue(DeclareQueue::durable(
            "/".into(),
            "q".into(),
            Arguments::from_iter([("x-max-length", value)]),
        ))
    };
    let _ = submit(&mut model, declare(Value::Int(5)));
    assert!(model.submit(Permit::system(), declare(Value::UInt(5))).is_ok());
    let refused = model.submit(Permit::system(), declare(Value::Double(5.0))).unwrap_err();
    assert_eq!(refused.kind, RefusedKind::PreconditionFailed);
    let words = "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '5.0' but current is '5'";
    assert_eq!(refused.text, words);
}
