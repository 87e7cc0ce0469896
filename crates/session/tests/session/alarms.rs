//! Resource alarms: which connections are blocked and notified, and which continue.

use leveret_amqp091::FieldTable;
use leveret_broker::queue_handle::{Size, Status};
use leveret_broker::{AlarmSource, ConnectionState};
use leveret_strict_client::amqp091::{Consume, Event, Options, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

impl Stage {
    fn publish(&mut self, link: usize, body: &[u8]) {
        self.links[link].client.publish(1, Publication::to_queue(b"q", body).mandatory());
        self.settle();
    }

    fn states(&self) -> Vec<&'static str> {
        let mut states: Vec<_> =
            self.broker.connection_statuses().into_iter().map(|status| status.state.name()).collect();
        states.sort_unstable();
        states
    }

    fn queue_waits(&self) -> Vec<&'static str> {
        let snapshot = self.broker.registry.snapshot_full();
        let status = snapshot.queue("/", "q").expect("the queue").look(Status).expect("it is there");
        status.waits.iter().map(|wait| wait.reason.code()).collect()
    }

    /// A publisher with confirms on the queue q.
    fn publisher(&mut self, options: Options) -> usize {
        let publisher = self.connect_with(options);
        let client = &mut self.links[publisher].client;
        client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
        client.confirm_select(1);
        self.settle();
        self.links[publisher].told();
        publisher
    }

    /// A connection that consumes from q without acknowledgements.
    fn consumer(&mut self) -> usize {
        let consumer = self.connect();
        let flags = Consume { no_ack: true, ..Consume::default() };
        self.links[consumer].client.consume(1, b"q", b"", flags, &FieldTable::new());
        self.settle();
        self.links[consumer].told();
        consumer
    }
}

fn bodies(told: &[Told]) -> Vec<&str> {
    let mut bodies = Vec::new();
    for told in told {
        if let Told::Delivered { body, .. } = told {
            bodies.push(body.as_str());
        }
    }
    bodies
}

fn confirmed(first: u64, last: u64) -> Told {
    Told::Event(Event::Confirmed { channel: 1, first, last, positive: true })
}

fn blocked(reason: &str) -> Told {
    Told::Event(Event::Blocked { reason: reason.to_owned() })
}

#[test]
fn a_publisher_is_blocked_until_the_last_alarm_clears() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options::default());
    stage.publish(publisher, b"before");
    assert_eq!(stage.links[publisher].told(), [confirmed(1, 1)]);

    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.settle();
    assert_eq!(stage.states(), ["blocking"], "it hasn't published yet");
    assert_eq!(stage.links[publisher].told(), []);
    stage.publish(publisher, b"during");
    stage.publish(publisher, b"more");
    assert_eq!(stage.links[publisher].told(), [blocked("low on memory")], "told once, and nothing is confirmed");
    assert_eq!(stage.states(), ["blocked"]);
    assert!(stage.queue_waits().contains(&"alarm"), "{:?}", stage.queue_waits());

    stage.broker.set_alarm(AlarmSource::Disk, true);
    stage.broker.set_alarm(AlarmSource::Memory, false);
    stage.settle();
    assert_eq!(stage.links[publisher].told(), [], "the second alarm still holds");
    assert_eq!(stage.states(), ["blocked"]);

    stage.broker.set_alarm(AlarmSource::Disk, false);
    stage.settle();
    assert_eq!(stage.links[publisher].told(), [Told::Event(Event::Unblocked), confirmed(2, 3)]);
    assert_eq!(stage.states(), ["running"]);
    assert!(!stage.queue_waits().contains(&"alarm"));
    let consumer = stage.connect();
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[consumer].client.consume(1, b"q", b"", flags, &FieldTable::new());
    stage.settle();
    assert_eq!(bodies(&stage.links[consumer].told()), ["before", "during", "more"]);
}

#[test]
fn both_reasons_are_named() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options::default());
    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.broker.set_alarm(AlarmSource::Disk, true);
    stage.publish(publisher, b"x");
    assert_eq!(stage.links[publisher].told(), [blocked("low on disk & memory")]);
}

#[test]
fn connections_that_do_not_publish_continue_under_an_alarm() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options::default());
    for body in [b"1", b"2", b"3"] {
        stage.publish(publisher, body);
    }
    let early = stage.consumer();
    stage.broker.set_alarm(AlarmSource::Disk, true);
    stage.publish(publisher, b"4");

    // A connection opened during the alarm: connects, declares, consumes, acknowledges, publishes nothing.
    let late = stage.connect();
    let client = &mut stage.links[late].client;
    client.declare_queue(1, b"other", QueueDeclare::default(), &FieldTable::new());
    client.qos(1, 2, false);
    client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    stage.settle();
    let told = stage.links[late].told();
    assert!(told.contains(&Told::Event(Event::ConsumeOk { channel: 1, consumer_tag: b"tag".to_vec() })), "{told:?}");
    assert_eq!(stage.links[early].told().len(), 0, "it had its share before");
    stage.links[early].client.cancel(1, b"");
    stage.links[late].client.close("done");
    stage.settle();
    assert!(stage.links[late].told().contains(&Told::Event(Event::ConnectionCloseOk)));
    assert_eq!(stage.broker.connection_statuses().iter().filter(|s| s.state == ConnectionState::Blocked).count(), 1);
}

#[test]
fn a_backlog_drains_while_the_alarm_is_on() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options::default());
    for body in [b"1", b"2", b"3"] {
        stage.publish(publisher, body);
    }
    stage.broker.set_alarm(AlarmSource::Memory, true);
    let consumer = stage.connect();
    let client = &mut stage.links[consumer].client;
    client.qos(1, 1, false);
    client.consume(1, b"q", b"", Consume::default(), &FieldTable::new());
    stage.settle();
    for tag in 1..=3 {
        let told = stage.links[consumer].told();
        assert_eq!(bodies(&told), [tag.to_string()]);
        stage.links[consumer].client.ack(1, tag, false);
        stage.settle();
    }
    let snapshot = stage.broker.registry.snapshot_full();
    assert_eq!(snapshot.queue("/", "q").expect("the queue").look(Size { used: None }).0, 0);
}

#[test]
fn a_client_without_the_capability_is_blocked_silently() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options { properties: FieldTable::new(), ..Options::default() });
    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.publish(publisher, b"x");
    assert_eq!(stage.links[publisher].told(), []);
    assert_eq!(stage.states(), ["blocked"]);
    stage.broker.set_alarm(AlarmSource::Memory, false);
    stage.settle();
    assert_eq!(stage.links[publisher].told(), [confirmed(1, 1)]);
}

#[test]
fn a_connection_opened_in_an_alarm_blocks_at_its_first_publish() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options::default());
    stage.broker.set_alarm(AlarmSource::Memory, true);
    let other = stage.connect();
    stage.publish(other, b"x");
    assert_eq!(stage.links[other].told(), [blocked("low on memory")]);
    assert_eq!(stage.states(), ["blocked", "blocking"]);
    assert_eq!(stage.links[publisher].told(), []);
}

#[test]
fn a_message_whose_body_is_under_way_waits_too() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options { frame_max: 4096, ..Options::default() });
    stage.links[publisher].client.publish(1, Publication::to_queue(b"q", &[b'x'; 10_000]).mandatory());
    // Everything except the last frame, which is the last 1,824 bytes of the body with head and end.
    let rest = {
        let output = stage.links[publisher].client.output();
        output.split_off(output.len() - 1_000)
    };
    stage.settle();
    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.settle();
    stage.links[publisher].client.output().extend_from_slice(&rest);
    stage.settle();
    assert_eq!(stage.links[publisher].told(), [blocked("low on memory")]);
    stage.broker.set_alarm(AlarmSource::Memory, false);
    stage.settle();
    assert_eq!(stage.links[publisher].told(), [Told::Event(Event::Unblocked), confirmed(1, 1)]);
}

#[test]
fn heartbeats_that_are_not_read_are_not_missed() {
    let mut stage = Stage::new();
    let publisher = stage.publisher(Options { heartbeat: 2, ..Options::default() });
    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.publish(publisher, b"x");
    let before = stage.links[publisher].received;
    stage.pass(30);
    assert!(!stage.links[publisher].connection.is_finished(), "it is held back, not silent");
    assert!(stage.links[publisher].received >= before + 20 * 8, "the broker's own heartbeats go on");
    stage.broker.set_alarm(AlarmSource::Memory, false);
    stage.settle();
    let told = stage.links[publisher].told();
    assert_eq!(told, [blocked("low on memory"), Told::Event(Event::Unblocked), confirmed(1, 1)]);
    stage.pass(1);
    assert!(!stage.links[publisher].connection.is_finished(), "its silence counts from now on");
    stage.pass(4);
    assert!(stage.links[publisher].connection.is_finished(), "now it is missed");
}

#[test]
fn a_blocked_connection_closes_by_the_broker_and_by_its_socket() {
    let mut stage = Stage::new();
    let (asked, cut) = (stage.publisher(Options::default()), stage.publisher(Options::default()));
    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.publish(asked, b"x");
    stage.publish(cut, b"x");
    let now = stage.now;
    stage.links[cut].connection.disconnected(now);
    assert_eq!(stage.states(), ["blocked"]);
    stage.broker.close_all("shutdown");
    stage.settle();
    let refusal = stage.links[asked].refusal();
    assert_eq!(refusal, Some((320, "CONNECTION_FORCED - shutdown".to_owned())));
    assert!(stage.links[asked].connection.is_finished());
    assert!(!stage.queue_waits().contains(&"alarm"));
}

#[test]
fn a_client_whose_input_waits_is_probed_by_heartbeats() {
    let mut stage = Stage::new();
    // It asked for none.
    let publisher = stage.publisher(Options::default());
    stage.pass(60);
    let before = stage.links[publisher].received;
    stage.broker.set_alarm(AlarmSource::Memory, true);
    stage.publish(publisher, b"during");
    let blocked = stage.links[publisher].received;
    assert!(blocked > before, "it is told once");
    stage.pass(60);
    let probes = (stage.links[publisher].received - blocked) / 8;
    assert!((5..=6).contains(&probes), "{probes} in a minute");
    stage.broker.set_alarm(AlarmSource::Memory, false);
    stage.settle();
    let after = stage.links[publisher].received;
    stage.pass(60);
    assert_eq!(stage.links[publisher].received, after, "nothing waits");
}
