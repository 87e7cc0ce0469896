//! Limits on declared objects, and the counts behind them.

use leveret_model::{
    Arguments, Bind, Command, CommandOutcome, ConnectionId, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DestinationName, EnabledTypes, Limits, Model, Permit, Refused, RefusedKind,
};

fn submit(model: &mut Model, command: Command) -> Result<CommandOutcome, Refused> {
    let submitted = model.submit(Permit::system(), command)?;
    let topology = model.topology();
    let vhosts: Vec<_> = topology.vhosts().cloned().collect();
    let count = |of: &dyn Fn(&str) -> usize| vhosts.iter().map(|vhost| of(vhost)).sum::<usize>() as u64;
    assert_eq!(topology.exchange_count(), count(&|vhost| topology.exchanges(vhost).count()));
    assert_eq!(topology.binding_count(), count(&|vhost| topology.bindings(vhost).count()));
    assert_eq!(topology.queue_count() as u64, count(&|vhost| topology.queues(vhost).count()));
    Ok(submitted.outcome)
}

fn queue(vhost: &str, name: &str, exclusive: bool) -> Command {
    Command::DeclareQueue(DeclareQueue {
        vhost: vhost.into(),
        name: name.into(),
        server_named: false,
        durable: true,
        auto_delete: false,
        exclusive,
        connection: Some(ConnectionId(1)),
        arguments: Arguments::default(),
    })
}

fn delete_queue(vhost: &str, name: &str) -> Command {
    Command::DeleteQueue(DeleteQueue { vhost: vhost.into(), name: name.into(), connection: None, id: None })
}

fn exchange(vhost: &str, name: &str, auto_delete: bool) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: vhost.into(),
        name: name.into(),
        kind: "fanout".into(),
        durable: true,
        auto_delete,
        internal: false,
        arguments: Arguments::default(),
    })
}

fn bind(vhost: &str, source: &str, destination: DestinationName) -> Bind {
    Bind {
        vhost: vhost.into(),
        source: source.into(),
        destination,
        routing_key: b"k"[..].into(),
        arguments: Arguments::default(),
        connection: Some(ConnectionId(1)),
    }
}

fn to(queue: &str) -> DestinationName {
    DestinationName::Queue(queue.into())
}

#[test]
fn deleted_objects_are_no_longer_counted() {
    let mut model = Model::new();
    let mut done = |command| submit(&mut model, command).expect("nothing is at its limit");
    for vhost in ["/", "other"] {
        done(Command::CreateVhost { name: vhost.into() });
        done(queue(vhost, "first", false));
        done(queue(vhost, "second", true));
        done(exchange(vhost, "auto", true));
        done(exchange(vhost, "chained", true));
        for destination in [to("first"), to("second"), DestinationName::Exchange("auto".into())] {
            let command = bind(vhost, "auto", destination.clone());
            done(Command::Bind(command.clone()));
            done(Command::Bind(command));
            done(Command::Bind(bind(vhost, "chained", destination)));
        }
        done(Command::Unbind(bind(vhost, "chained", to("nobody"))));
        done(Command::Unbind(bind(vhost, "chained", to("first"))));
        done(Command::Unbind(bind(vhost, "chained", to("first"))));
    }
    done(delete_queue("/", "first"));
    done(delete_queue("/", "first"));
    done(delete_queue("/", "second"));
    let command = DeleteExchange { vhost: "/".into(), name: "auto".into(), if_unused: false };
    done(Command::DeleteExchange(command));
    let snapshot = model.snapshot();
    let restored = Model::restore(&snapshot).expect("it was just written");
    assert_eq!(restored.topology().binding_count(), 3, "those of the exclusive queue don't survive");
    submit(&mut model, Command::DeleteVhost { name: "other".into() }).expect("it is there");
    let left = model.topology();
    assert_eq!((left.exchange_count(), left.binding_count(), left.queue_count()), (7, 0, 0));
}

#[test]
fn a_limit_refuses_only_new_objects() {
    let mut model = Model::new();
    model.set_limits(Limits {
        vhosts: 2,
        queues_per_vhost: 2,
        exclusive_queues_per_connection: 1,
        bindings_per_vhost: 1,
        ..Limits::default()
    });
    let refused = |outcome: Result<CommandOutcome, Refused>| {
        let refused = outcome.expect_err("it is at its limit");
        assert_eq!(refused.kind, RefusedKind::LimitReached);
        refused.text
    };
    submit(&mut model, Command::CreateVhost { name: "other".into() }).expect("room");
    let text = refused(submit(&mut model, Command::CreateVhost { name: "third".into() }));
    assert_eq!(text, "cannot create vhost 'third': vhost limit of 2 is reached; raise vhost_max");
    submit(&mut model, Command::CreateVhost { name: "other".into() }).expect("it is there");
    submit(&mut model, queue("/", "mine", true)).expect("room");
    assert!(refused(submit(&mut model, queue("other", "mine", true))).contains("exclusive_queue_max_per_connection"));
    submit(&mut model, queue("/", "second", false)).expect("room");
    assert!(refused(submit(&mut model, queue("/", "third", false))).contains("in vhost '/' (2)"));
    submit(&mut model, queue("other", "third", false)).expect("room in another vhost");
    submit(&mut model, Command::Bind(bind("/", "amq.fanout", to("mine")))).expect("room");
    refused(submit(&mut model, Command::Bind(bind("/", "amq.fanout", to("second")))));
    submit(&mut model, Command::Bind(bind("/", "amq.fanout", to("mine")))).expect("it is there");
    submit(&mut model, delete_queue("/", "mine")).expect("it is there");
    submit(&mut model, Command::Bind(bind("/", "amq.fanout", to("second")))).expect("room again");
    submit(&mut model, queue("other", "mine", true)).expect("room again");
    submit(&mut model, Command::DeleteVhost { name: "other".into() }).expect("it is there");
    submit(&mut model, queue("/", "mine", true)).expect("its vhost took the other one along");
}

#[test]
fn only_new_queues_of_a_disabled_type_are_refused() {
    let mut model = Model::new();
    let typed = |name: &str, kind: &str| {
        let Command::DeclareQueue(declare) = queue("/", name, false) else { unreachable!("it declares a queue") };
        Command::DeclareQueue(DeclareQueue {
            arguments: declare.arguments.with("x-queue-type", kind.into()),
            ..declare
        })
    };
    submit(&mut model, typed("old", "quorum")).expect("both are enabled");
    let queue_types = EnabledTypes { quorum: false, ..EnabledTypes::default() };
    model.set_limits(Limits { queue_types, ..Limits::default() });
    assert_eq!(submit(&mut model, typed("old", "quorum")), Ok(CommandOutcome::Exists));
    let refused = submit(&mut model, typed("new", "quorum")).expect_err("the type is disabled");
    let text = "Cannot declare a queue 'queue 'new' in vhost '/'' of type 'rabbit_quorum_queue': such queues are switched off by \
                queue_types.quorum.enabled";
    assert_eq!((refused.kind, &*refused.text), (RefusedKind::InternalError, text));
    submit(&mut model, queue("/", "classic", false)).expect("the other type");
    let queue_types = EnabledTypes { classic: false, ..EnabledTypes::default() };
    model.set_limits(Limits { queue_types, ..Limits::default() });
    submit(&mut model, typed("new", "quorum")).expect("it is enabled again");
    for exclusive in [false, true] {
        assert!(
            submit(&mut model, queue("/", "mine", exclusive))
                .expect_err("the default")
                .text
                .contains("classic.enabled")
        );
    }
}
