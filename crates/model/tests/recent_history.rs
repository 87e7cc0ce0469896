//! Recent history exchanges: what is declared and refused, and the queue that each of them has.

use std::sync::Arc;

use leveret_model::{
    Change, Command, CommandOutcome, DeclareExchange, DeleteExchange, ExchangeType, Model, Permit, Queue, Value,
};

const VHOST: &str = "/";
const QUEUE: &str = "amq.history.x";

fn declare_with(name: &str, durable: bool, length: Option<Value>) -> Command {
    Command::DeclareExchange(DeclareExchange {
        vhost: VHOST.into(),
        name: name.into(),
        kind: "x-recent-history".into(),
        durable,
        auto_delete: false,
        internal: false,
        arguments: length.map(|length| ("x-recent-history-length", length)).into_iter().collect(),
    })
}

fn submit(model: &mut Model, command: Command) -> (CommandOutcome, Vec<Change>, Option<Vec<u8>>) {
    let submitted = model.submit(Permit::system(), command).expect("it is accepted");
    (submitted.outcome, submitted.changes, submitted.record)
}

fn refused(model: &mut Model, command: Command) -> String {
    model.submit(Permit::system(), command).expect_err("it is refused").reply_text()
}

fn queue(model: &Model) -> Option<&Arc<Queue>> {
    model.topology().queue(VHOST, QUEUE)
}

#[test]
fn an_exchange_has_a_queue_from_its_declaration_to_its_deletion() {
    let mut model = Model::new();
    let (_, _, declared) = submit(&mut model, declare_with("x", true, Some(Value::Int(5))));
    let exchange = model.topology().exchange(VHOST, "x").expect("it is there").clone();
    assert_eq!((exchange.kind, exchange.routing_type()), (ExchangeType::RecentHistory, ExchangeType::RecentHistory));
    let kept = queue(&model).expect("it is there").clone();
    let names = (exchange.history_queue, kept.history_of.as_deref(), kept.exchange().map(|name| &**name));
    assert_eq!(names, (Some(kept.id), Some("x"), Some("x")));
    assert_eq!((exchange.own_queue(), exchange.delay_queue, kept.is_logged()), (Some(kept.id), None, true));
    let options = &kept.options;
    assert_eq!((options.remembers, options.releases, options.max_length), (true, false, Some(5)));
    assert_eq!(options.max_length_bytes, Some(64 << 20));
    let mut replayed = Model::new();
    replayed.replay(&declared.expect("it is logged")).expect("it is a record");
    for model in [&replayed, &Model::restore(&model.snapshot()).expect("it is a snapshot")] {
        assert_eq!(model.topology().exchange(VHOST, "x"), Some(&exchange));
        assert_eq!(queue(model), Some(&kept), "also what follows from its exchange");
        assert_eq!(model.topology().lost_exchange_queues().count(), 0);
    }
    let again = submit(&mut model, declare_with("x", true, Some(Value::Int(7))));
    assert_eq!((again.0, queue(&model)), (CommandOutcome::Exists, Some(&kept)), "another length has no effect");
    let delete = DeleteExchange { vhost: VHOST.into(), name: "x".into(), if_unused: false };
    let (_, changes, _) = submit(&mut model, Command::DeleteExchange(delete));
    assert!(changes.iter().any(|change| matches!(change, Change::QueueDeleted(gone) if gone.id == kept.id)));
    assert_eq!((model.topology().exchange(VHOST, "x"), queue(&model)), (None, None));
}

#[test]
fn the_queue_of_a_transient_exchange_is_lost_with_a_restart() {
    let mut model = Model::new();
    submit(&mut model, declare_with("x", false, None));
    assert_eq!(queue(&model).and_then(|queue| queue.options.max_length), Some(20));
    let restored = Model::restore(&model.snapshot()).expect("it is a snapshot");
    let lost: Vec<_> = restored.topology().lost_exchange_queues().map(|queue| queue.name.clone()).collect();
    assert_eq!(lost, [QUEUE.into()]);
}

#[test]
fn a_length_is_a_positive_number() {
    let mut model = Model::new();
    let must = "'x-recent-history-length' must be a positive integer";
    for (length, shown) in [
        (Value::Int(0), "0"),
        (Value::Int(-1), "-1"),
        (Value::from("20"), "<<\"20\">>"),
        (Value::Bool(true), "true"),
        (Value::Double(1.5), "1.5"),
    ] {
        let text = refused(&mut model, declare_with("x", true, Some(length)));
        assert_eq!(text, format!("PRECONDITION_FAILED - Invalid argument {shown}, {must}"));
    }
    let text = refused(&mut model, declare_with("x", true, Some(Value::Int(100_001))));
    assert!(text.contains("Invalid argument 100001, 'x-recent-history-length' is at most 100000"), "{text}");
    assert_eq!(model.topology().queue_count(), 0, "nothing is left of them");
    submit(&mut model, declare_with("x", true, Some(Value::Int(100_000))));
    let text = refused(&mut model, declare_with(&"n".repeat(244), true, None));
    assert!(text.contains("name of recent history exchange") && text.contains("at most 243"), "{text}");
}

#[test]
fn clients_leave_the_queue_alone() {
    let mut model = Model::new();
    submit(&mut model, declare_with("x", true, None));
    let used = model.topology().usable_queue(VHOST, QUEUE, None).expect_err("it isn't for clients").reply_text();
    assert!(used.contains("it holds the last messages of exchange 'x'"), "{used}");
    model.topology().visible_queue(VHOST, QUEUE, None).expect("it may be looked at");
}
