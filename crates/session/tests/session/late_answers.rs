//! Queues and a control plane that answer later, as those of another node do: methods of AMQP 0-9-1.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::Size;
use leveret_model::{Command, DeleteQueue};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

/// The methods that are answered later.
const METHODS: [&str; 8] = ["get", "purge", "declare", "look", "exchange", "bind", "unbind", "cancel"];

/// A stage whose queues answer later, and a client with the channels 1 and 2. The queue `q` has this many messages, and the
/// consumer `tag`, which gets none.
fn stage(messages: usize) -> (Stage, usize) {
    let mut stage = Stage::with(Settings { answers_late: true, ..Settings::default() });
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.open_channel(2);
    client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    client.qos(1, 1, false);
    client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    // The consumer holds this one.
    for _ in 0..=messages {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    stage.settle();
    stage.links[link].told();
    stage.holds_answers = true;
    (stage, link)
}

fn ask(stage: &mut Stage, link: usize, method: &str) {
    let client = &mut stage.links[link].client;
    let look = QueueDeclare { passive: true, ..QueueDeclare::default() };
    match method {
        "get" => client.get(1, b"q", false),
        "purge" => client.purge_queue(1, b"q"),
        "declare" => client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new()),
        "look" => client.declare_queue(1, b"q", look, &FieldTable::new()),
        "exchange" => client.declare_exchange(1, b"e", "direct", true, &FieldTable::new()),
        "bind" => client.bind_queue(1, b"q", b"amq.direct", b"k", &FieldTable::new()),
        "unbind" => client.unbind_queue(1, b"q", b"amq.direct", b"k", &FieldTable::new()),
        _ => client.cancel(1, b"tag"),
    }
    stage.settle();
}

fn answer(stage: &mut Stage) {
    stage.holds_answers = false;
    stage.settle();
}

/// The answers that a client got, as text.
fn told(stage: &mut Stage, link: usize) -> Vec<String> {
    let text = |told| match told {
        Told::Event(Event::GetEmpty { .. }) => "empty".to_owned(),
        Told::Event(Event::Removed { method, message_count, .. }) => format!("{method} {message_count}"),
        Told::Event(Event::QueueDeclared { message_count, consumer_count, .. }) => {
            format!("declared {message_count} {consumer_count}")
        }
        Told::Event(Event::CancelOk { .. }) => "cancelled".to_owned(),
        Told::Event(Event::ConsumerCancelled { .. }) => "ended".to_owned(),
        Told::Event(Event::Got { message_count, .. }) => format!("got {message_count}"),
        Told::Event(Event::Reply { method, .. }) => method.to_owned(),
        other => format!("{other:?}"),
    };
    stage.links[link].told().into_iter().map(text).collect()
}

fn counts(stage: &Stage, queue: &str) -> Option<(u64, usize)> {
    stage.broker.registry.snapshot().queue("/", queue).map(|queue| queue.look(Size { used: None }))
}

#[test]
fn late_answers_of_a_channel_keep_the_order_of_its_methods() {
    let (mut stage, link) = stage(3);
    METHODS.iter().for_each(|method| ask(&mut stage, link, method));
    ask(&mut stage, link, "get");
    assert_eq!(told(&mut stage, link), [""; 0]);
    answer(&mut stage);
    let expected = [
        "got 2",
        "queue.purge-ok 2",
        "declared 0 1",
        "declared 0 1",
        "exchange.declare-ok",
        "queue.bind-ok",
        "queue.unbind-ok",
        "cancelled",
        "empty",
    ];
    assert_eq!(told(&mut stage, link), expected);
}

#[test]
fn other_channels_go_on_while_one_waits_for_its_queue() {
    for method in METHODS {
        let (mut stage, link) = stage(3);
        ask(&mut stage, link, method);
        let client = &mut stage.links[link].client;
        client.publish(2, Publication::to_queue(b"q", b"more"));
        client.confirm_select(2);
        stage.settle();
        assert_eq!(told(&mut stage, link), ["confirm.select-ok"], "{method}");
        answer(&mut stage);
        let expected = match method {
            "get" => "got 3",
            "purge" => "queue.purge-ok 4",
            "declare" | "look" => "declared 4 1",
            "cancel" => "cancelled",
            change => &format!(
                "{}-ok",
                if change == "exchange" { "exchange.declare".to_owned() } else { format!("queue.{change}") }
            ),
        };
        assert_eq!(told(&mut stage, link), [expected], "{method}");
    }
}

#[test]
fn a_deletion_is_answered_before_its_consumers_end() {
    let (mut stage, link) = stage(0);
    stage.links[link].client.delete_queue(1, b"q");
    stage.settle();
    // Another client's deletion comes first, so the consumer ends while the channel waits.
    delete(&mut stage, "q");
    assert_eq!(told(&mut stage, link), [""; 0]);
    answer(&mut stage);
    assert_eq!(told(&mut stage, link), ["queue.delete-ok 0", "ended"]);
}

/// Deletes a queue at once, before anything else that was asked for.
fn delete(stage: &mut Stage, name: &str) {
    stage.command(Command::DeleteQueue(DeleteQueue {
        vhost: "/".into(),
        name: name.into(),
        connection: None,
        id: None,
    }));
    stage.settle();
}

#[test]
fn a_deleted_queue_answers_as_one_that_is_gone() {
    for method in ["get", "purge", "declare", "look", "cancel"] {
        let (mut stage, link) = stage(3);
        ask(&mut stage, link, method);
        delete(&mut stage, "q");
        answer(&mut stage);
        let expected = match method {
            "get" => "empty",
            "purge" => "queue.purge-ok 0",
            "declare" | "look" => "declared 0 0",
            _ => "cancelled",
        };
        let told = told(&mut stage, link);
        // A channel answers before it notifies its client of the consumer's end.
        assert_eq!(told.first().map(String::as_str), Some(expected), "{method}: {told:?}");
        let cancels = told.iter().filter(|told| *told == "ended").count();
        assert_eq!(cancels, usize::from(method != "cancel"), "{told:?}");
    }
}

#[test]
fn a_got_message_returns_if_its_client_is_cut_before_the_answer() {
    let (mut stage, link) = stage(3);
    ask(&mut stage, link, "get");
    stage.links[link].connection.disconnected(stage.now);
    answer(&mut stage);
    assert_eq!(counts(&stage, "q"), Some((4, 0)), "with the one that its consumer held");
}

#[test]
fn a_got_message_returns_if_its_client_is_cut_after_the_answer() {
    let (mut stage, link) = stage(3);
    ask(&mut stage, link, "get");
    stage.holds_answers = false;
    stage.other_work();
    assert_eq!(counts(&stage, "q"), Some((2, 1)), "it was handed out");
    stage.links[link].connection.disconnected(stage.now);
    stage.settle();
    assert_eq!(counts(&stage, "q"), Some((4, 0)));
}

#[test]
fn questions_of_a_cut_connection_are_answered_and_forgotten() {
    for method in METHODS {
        let (mut stage, link) = stage(3);
        ask(&mut stage, link, method);
        stage.links[link].connection.disconnected(stage.now);
        stage.settle();
        assert!(stage.links[link].connection.is_finished(), "{method}");
        answer(&mut stage);
        // The purge comes before the end of the consumer, and so before its message returns.
        let left = if method == "purge" { 1 } else { 4 };
        assert_eq!(counts(&stage, "q"), Some((left, 0)), "{method}");
    }
}

#[test]
fn a_queue_declared_by_a_cut_connection_is_published() {
    let (mut stage, link) = stage(0);
    stage.links[link].client.declare_queue(1, b"new", QueueDeclare::default(), &FieldTable::new());
    while stage.links[link].step(stage.now) {}
    stage.links[link].connection.disconnected(stage.now);
    answer(&mut stage);
    assert_eq!(counts(&stage, "new"), Some((0, 0)));
}

#[test]
fn a_change_that_is_refused_late_closes_its_channel() {
    let (mut stage, link) = stage(0);
    let client = &mut stage.links[link].client;
    client.bind_queue(2, b"q", b"missing", b"k", &FieldTable::new());
    client.publish(2, Publication::to_queue(b"q", b"never taken"));
    stage.settle();
    assert_eq!(told(&mut stage, link), [""; 0]);
    stage.holds_answers = false;
    stage.settle();
    let text = "NOT_FOUND - no exchange 'missing' in vhost '/'".to_owned();
    assert_eq!(stage.links[link].refusal(), Some((404, text)));
    assert_eq!(counts(&stage, "q"), Some((0, 1)), "a publish behind it isn't taken");
}

#[test]
fn an_exclusive_queue_that_is_declared_late_goes_with_its_owner() {
    for cuts_first in [true, false] {
        let (mut stage, link) = stage(0);
        let flags = QueueDeclare { exclusive: true, ..QueueDeclare::default() };
        stage.links[link].client.declare_queue(1, b"own", flags, &FieldTable::new());
        while stage.links[link].step(stage.now) {}
        if !cuts_first {
            answer(&mut stage);
            assert_eq!(told(&mut stage, link), ["declared 0 0"]);
            stage.holds_answers = true;
        }
        stage.links[link].connection.disconnected(stage.now);
        answer(&mut stage);
        assert_eq!(counts(&stage, "own"), None);
        assert_eq!(counts(&stage, "q"), Some((1, 0)));
    }
}

/// A client with the only consumer of an auto-delete queue.
fn last_consumer() -> (Stage, usize) {
    let (mut stage, link) = stage(0);
    stage.holds_answers = false;
    let client = &mut stage.links[link].client;
    client.declare_queue(
        2,
        b"passing",
        QueueDeclare { auto_delete: true, ..QueueDeclare::default() },
        &FieldTable::new(),
    );
    client.consume(2, b"passing", b"last", Consume::default(), &FieldTable::new());
    stage.settle();
    stage.links[link].told();
    stage.holds_answers = true;
    (stage, link)
}

#[test]
fn a_last_consumer_s_end_is_answered_when_its_queue_is_gone() {
    for is_cancel in [true, false] {
        let (mut stage, link) = last_consumer();
        match is_cancel {
            true => stage.links[link].client.cancel(2, b"last"),
            false => stage.links[link].client.close_channel(2),
        }
        stage.settle();
        assert_eq!(told(&mut stage, link), [""; 0]);
        ask(&mut stage, link, "get");
        answer(&mut stage);
        let expected = if is_cancel { "cancelled" } else { "channel.close-ok" };
        let mut told = told(&mut stage, link);
        told.sort();
        assert_eq!(told, [expected, "empty"], "each on its channel");
        assert_eq!(counts(&stage, "passing"), None);
    }
}

#[test]
fn a_close_is_answered_when_the_last_consumer_s_queue_is_gone() {
    let (mut stage, link) = last_consumer();
    stage.links[link].client.close("done");
    stage.settle();
    assert_eq!(told(&mut stage, link), [""; 0]);
    answer(&mut stage);
    assert_eq!(stage.links[link].told(), [Told::Event(Event::ConnectionCloseOk)]);
    assert!(stage.links[link].connection.is_finished());
    assert_eq!(counts(&stage, "passing"), None);
}

#[test]
fn a_cut_connection_s_auto_delete_queue_is_deleted() {
    let (mut stage, link) = last_consumer();
    stage.links[link].connection.disconnected(stage.now);
    stage.settle();
    assert_eq!(counts(&stage, "passing"), Some((0, 1)));
    answer(&mut stage);
    assert_eq!(counts(&stage, "passing"), None);
}

#[test]
fn a_get_of_a_stored_message_is_answered_once_it_is_read() {
    const MESSAGES: usize = 2_000;
    for answers_late in [false, true] {
        let mut stage = Stage::with(Settings { queue_memory_bytes: 1, answers_late, ..Settings::default() });
        let link = stage.connect();
        let client = &mut stage.links[link].client;
        client.declare_queue(1, b"q", QueueDeclare { durable: true, ..QueueDeclare::default() }, &FieldTable::new());
        for _ in 0..MESSAGES {
            client.publish(1, Publication::to_queue(b"q", &[7; 100]).with(&[0x10, 0, 2]));
        }
        stage.settle();
        stage.links[link].told();
        (0..=MESSAGES).for_each(|_| stage.links[link].client.get(1, b"q", true));
        stage.settle();
        let expected = (0..MESSAGES).rev().map(|left| format!("got {left}")).chain(["empty".to_owned()]);
        assert!(told(&mut stage, link).into_iter().eq(expected));
        assert!(stage.reads > 0);
    }
}

#[test]
fn a_client_that_does_not_read_gets_no_more_than_fits() {
    const CHANNELS: u16 = 60;
    const BODY: usize = 100_000;
    for answers_late in [false, true] {
        let mut stage = Stage::with(Settings { answers_late, ..Settings::default() });
        let link = stage.connect();
        let client = &mut stage.links[link].client;
        client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
        for channel in 2..=CHANNELS {
            client.open_channel(channel);
        }
        for _ in 0..CHANNELS {
            client.publish(1, Publication::to_queue(b"q", &vec![7; BODY]));
        }
        stage.settle();
        stage.links[link].told();
        stage.links[link].reads = false;
        (1..=CHANNELS).for_each(|channel| stage.links[link].client.get(channel, b"q", true));
        stage.settle();
        let waits = stage.links[link].connection.output().len();
        assert!((1 << 20..(1 << 20) + 2 * BODY).contains(&waits), "late {answers_late}: {waits} bytes");
        stage.links[link].reads = true;
        stage.settle();
        let got = told(&mut stage, link);
        assert_eq!(got.iter().filter(|told| told.starts_with("got")).count(), usize::from(CHANNELS));
    }
}
