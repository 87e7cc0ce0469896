//! Policies at the connections of clients, and how they reach very many queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::Status;
use leveret_broker::registry::ChangeRequests;
use leveret_model::{Arguments, Command, DeclareQueue, Permit, PolicyKind, SetPolicy};
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

use crate::stage::Stage;

fn max_length(pattern: &str, length: u64) -> Command {
    Command::SetPolicy(SetPolicy {
        kind: PolicyKind::User,
        vhost: "/".into(),
        name: "p".into(),
        pattern: pattern.into(),
        apply_to: Some("queues".into()),
        priority: None,
        definition: [("max-length", length)].into_iter().collect(),
    })
}

#[test]
fn a_policy_holds_for_messages_before_and_after_it() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    for _ in 0..5 {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    stage.settle();
    let ready = |stage: &Stage| {
        stage.broker.registry.snapshot().queue("/", "q").expect("it is there").look(Status).expect("it is there").ready
    };
    assert_eq!(ready(&stage), 5);
    stage.command(max_length("^q", 3));
    stage.settle();
    assert_eq!(ready(&stage), 3);
    stage.links[link].client.publish(1, Publication::to_queue(b"q", b"x"));
    stage.settle();
    assert_eq!(ready(&stage), 3);
    let clear = Command::ClearPolicy { kind: PolicyKind::User, vhost: "/".into(), name: "p".into() };
    stage.command(clear);
    stage.links[link].client.publish(1, Publication::to_queue(b"q", b"x"));
    stage.settle();
    assert_eq!(ready(&stage), 4);
}

/// Changes that come during a walk don't begin it anew, and each queue gets the last one.
#[test]
fn many_queues_get_a_policy_in_parts() {
    const QUEUES: usize = 2000;
    let mut stage = Stage::with(Settings { turn_work_max: 8000, ..Settings::default() });
    let declare = |n: usize| {
        Command::DeclareQueue(DeclareQueue {
            vhost: "/".into(),
            name: format!("q-{n}").into(),
            server_named: false,
            durable: false,
            auto_delete: false,
            exclusive: false,
            connection: None,
            arguments: Arguments::default(),
        })
    };
    let commands = (0..QUEUES).map(declare).collect();
    let requests = ChangeRequests { permit: Permit::system(), commands, is_new: false };
    let changed = stage.broker.registry.change_all(requests, stage.now.monotonic).now();
    assert!(changed.expect("at once").is_ok());
    stage.holds_answers = true;
    stage.settle();
    let with = |stage: &Stage, length: u64| {
        let snapshot = stage.broker.registry.snapshot_full();
        let queues = snapshot.queues.values();
        queues.filter(|queue| queue.effective().options(queue.info()).max_length == Some(length)).count()
    };
    stage.command(max_length("^q-", 7));
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    stage.broker.when_policies_apply(Box::new(move || over.store(true, Ordering::Relaxed)));
    let (mut parts, mut before) = (0, 0);
    while before < QUEUES / 2 {
        stage.broker.deferred_turn(0, stage.now);
        let now = with(&stage, 7);
        assert!(now > before && now - before <= 50, "{} queues in one part", now - before);
        (parts, before) = (parts + 1, now);
    }
    stage.command(max_length("^q-", 8));
    while stage.broker.has_deferred_work(0, stage.now) {
        stage.broker.deferred_turn(0, stage.now);
        parts += 1;
    }
    assert!(is_over.load(Ordering::Relaxed));
    assert_eq!(with(&stage, 8), QUEUES);
    assert!(parts <= 3 * QUEUES / 2, "{parts} parts for one and a half rounds: some did nothing");
}
