//! Changes whose askers are gone before they are durable.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Arguments, Command, DeclareQueue, Permit};
use leveret_strict_client::amqp091::QueueDeclare;

use crate::stage::Stage;

fn stage(answers_late: bool) -> Stage {
    Stage::with(Settings { answers_late, ..Settings::default() })
}

fn has(stage: &Stage, queue: &str) -> bool {
    stage.broker.registry.snapshot().queue("/", queue).is_some()
}

#[test]
fn a_change_is_published_although_its_asker_is_gone() {
    for answers_late in [false, true] {
        let mut stage = stage(answers_late);
        let link = stage.connect();
        stage.settle();
        let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
        stage.links[link].client.declare_queue(1, b"q", durable, &FieldTable::new());
        // The method is taken, and nothing is synced yet.
        let now = stage.now;
        while stage.links[link].step(now) {}
        assert!(!has(&stage, "q"));
        stage.links[link].connection.disconnected(now);
        stage.settle();
        assert!(has(&stage, "q"), "answers late: {answers_late}");
    }
}

#[test]
fn changes_are_published_although_nobody_waits_for_them() {
    for answers_late in [false, true] {
        let mut stage = stage(answers_late);
        for part in 0..3 {
            for name in ["a", "b", "c"] {
                let name = format!("{name}{part}");
                let declare = DeclareQueue::durable("/".into(), name.into(), Arguments::default());
                let request = ChangeRequest::new(Permit::system(), Command::DeclareQueue(declare));
                drop(stage.broker.registry.change(request, stage.now.monotonic));
            }
            stage.broker.streams.announce();
            stage.settle();
            assert_eq!(stage.broker.registry.snapshot().queues.len(), 3 * (part + 1), "answers late: {answers_late}");
        }
    }
}
