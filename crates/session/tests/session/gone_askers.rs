//! Changes that are published without their askers, who may be gone.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::asked::NowOrLater;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Arguments, Command, CommandOutcome, DeclareQueue, DeleteQueue, Permit};
use leveret_strict_client::amqp091::{Consume, Event, QueueDeclare};

use crate::stage::{Stage, Told};

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

/// The second of two deletions that were asked for at once, or one of a queue that was declared anew meanwhile, finds nothing to delete.
#[test]
fn of_racing_deletions_one_deletes_the_queue_that_was_meant() {
    let declare = || Command::DeclareQueue(DeclareQueue::durable("/".into(), "q".into(), Arguments::default()));
    for answers_late in [false, true] {
        let mut stage = stage(answers_late);
        stage.command(declare());
        let id = stage.broker.registry.snapshot().queue("/", "q").map(|queue| queue.info().id);
        let delete = |id| {
            let command = DeleteQueue { vhost: "/".into(), name: "q".into(), connection: None, id };
            ChangeRequest::new(Permit::system(), Command::DeleteQueue(command))
        };
        stage.holds_answers = true;
        let asked = [delete(id), delete(id), ChangeRequest::new(Permit::system(), declare()), delete(id), delete(None)];
        let answers = asked.map(|request| stage.broker.registry.change(request, stage.now.monotonic));
        stage.holds_answers = false;
        stage.settle();
        let outcomes = answers.map(|answer| {
            let changed = match answer {
                NowOrLater::Now(changed) => changed,
                NowOrLater::Later(later) => later.take().expect("it is answered"),
            };
            changed.expect("none is refused").outcome
        });
        use CommandOutcome::{Absent, Created, Deleted};
        assert_eq!(outcomes, [Deleted, Absent, Created, Absent, Deleted], "answers late: {answers_late}");
        assert_eq!(stage.broker.totals().queues_deleted, 2);
    }
}

#[test]
fn a_deletion_is_answered_before_its_consumers_are_cancelled() {
    for answers_late in [false, true] {
        let mut stage = stage(answers_late);
        let link = stage.connect();
        stage.settle();
        let client = &mut stage.links[link].client;
        let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
        client.declare_queue(1, b"q", durable, &FieldTable::new());
        client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
        stage.settle();
        stage.links[link].told();
        stage.links[link].client.delete_queue(1, b"q");
        stage.settle();
        let told = stage.links[link].told().into_iter().filter_map(|told| match told {
            Told::Event(Event::Removed { method, .. }) => Some(method),
            Told::Event(Event::ConsumerCancelled { .. }) => Some("cancelled"),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), ["queue.delete-ok", "cancelled"], "answers late: {answers_late}");
    }
}
