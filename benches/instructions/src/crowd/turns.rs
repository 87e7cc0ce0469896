//! The longest uninterrupted time of a core for a client that does something to many objects at once.

use std::time::Duration;

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp10::{Client as Amqp10, Send, SessionOptions};
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};
use rustix::time::{ClockId, clock_gettime};

use super::member::{CrowdClient, CrowdMember, PlainClient};
use super::{CHANNEL, amqp10, amqp091, bind, consume, exclusive_queues, open_channels, publish, receive};
use crate::session::Stage;
use crate::{BODY, QUEUE};

/// Objects of one kind on a connection.
const MANY: u64 = 60_000;
/// Most unacknowledged deliveries of a channel.
const UNACKNOWLEDGED: u64 = 1 << 18;

/// Prints the longest turn of each benchmark whose name contains `part`.
pub fn print(part: &str) {
    measure(part, with_consumers, CONSUMER_ENDS);
    measure(part, with_deliveries, DELIVERY_ENDS);
    measure(part, with_channels, CHANNEL_ENDS);
    measure(part, with_exclusive_queues, EXCLUSIVE_ENDS);
    measure(part, with_bindings, BINDING_ENDS);
    measure(part, with_shared_bindings, SHARED_BINDING_ENDS);
    measure(part, with_fanout, FANOUT_ENDS);
    measure(part, with_links, LINK_ENDS);
    measure(part, with_link, FULL_LINK_ENDS);
    measure(part, with_queues, PUBLISHES);
    measure(part, with_sender, SENDS);
    measure(part, with_transaction, COMMITS);
    measure(part, with_transactions_of_queues, QUEUE_COMMITS);
    measure(part, with_dying, DEATHS);
}

fn measure<C: CrowdClient>(part: &str, begin: fn() -> (Stage, CrowdMember<C>), ends: Ends<C>) {
    for (name, end) in ends.iter().filter(|(name, _)| name.contains(part)) {
        let (mut stage, mut member) = begin();
        let begun = member.longest();
        end(&mut member, &mut stage);
        member.exchange(&mut stage);
        println!("{name}: {:.1} ms, to get there {:.1} ms", ms(member.longest()), ms(begun));
    }
}

/// Time that this thread has run: a turn isn't longer because others use the machine.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn stage() -> Stage {
    let mut stage = super::stage();
    stage.clock = cpu_time;
    stage
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

type End<C> = fn(&mut CrowdMember<C>, &mut Stage);
type Ends<C> = &'static [(&'static str, End<C>)];

const CONSUMER_ENDS: Ends<PlainClient> = &[
    ("ack of 60000 consumers", |member, _| member.client.client.ack(CHANNEL, 0, true)),
    ("nack of 60000 consumers", |member, _| member.client.client.nack(CHANNEL, 0, true, true)),
    ("channel.close of 60000 consumers", |member, _| member.client.client.close_channel(CHANNEL)),
    ("connection.close of 60000 consumers", |member, _| member.client.client.close("bye")),
    ("broken socket of 60000 consumers", |member, stage| member.cut(stage)),
    ("queue.delete with 60000 consumers", |member, _| member.client.client.delete_queue(CHANNEL, QUEUE.as_bytes())),
];

const DELIVERY_ENDS: Ends<PlainClient> = &[
    ("ack of 262144 deliveries", |member, _| member.client.client.ack(CHANNEL, 0, true)),
    ("nack of 262144 deliveries", |member, _| member.client.client.nack(CHANNEL, 0, true, true)),
    ("dropping nack of 262144 deliveries", |member, _| member.client.client.nack(CHANNEL, 0, true, false)),
    ("recover of 262144 deliveries", |member, _| member.client.client.recover(CHANNEL)),
    ("channel.close of 262144 deliveries", |member, _| member.client.client.close_channel(CHANNEL)),
    ("broken socket of 262144 deliveries", |member, stage| member.cut(stage)),
];

const CHANNEL_ENDS: Ends<PlainClient> = &[
    ("connection.close of 60000 channels", |member, _| member.client.client.close("bye")),
    ("broken socket of 60000 channels", |member, stage| member.cut(stage)),
];

const EXCLUSIVE_ENDS: Ends<PlainClient> = &[
    ("connection.close of 60000 exclusive queues", |member, _| member.client.client.close("bye")),
    ("broken socket of 60000 exclusive queues", |member, stage| member.cut(stage)),
];

const BINDING_ENDS: Ends<PlainClient> = &[
    ("queue.unbind of 1 of 60000 bindings", |member, _| {
        member.client.client.unbind_queue(CHANNEL, b"bound", b"source", b"key-1", &FieldTable::new());
    }),
    ("queue.delete with 60000 bindings", |member, _| member.client.client.delete_queue(CHANNEL, b"bound")),
    ("exchange.delete with 60000 bindings", |member, _| member.client.client.delete_exchange(CHANNEL, b"source")),
];

/// Beside another queue that is bound to the same exchange.
const SHARED_BINDING_ENDS: Ends<PlainClient> =
    &[("queue.delete with 60000 bindings of a shared exchange", |member, _| {
        member.client.client.delete_queue(CHANNEL, b"bound");
    })];

const FANOUT_ENDS: Ends<PlainClient> =
    &[("exchange.delete with 60000 queues", |member, _| member.client.client.delete_exchange(CHANNEL, b"fan"))];

const LINK_ENDS: Ends<Amqp10> = &[
    ("end of 60000 links", |member, _| member.client.end(1, None)),
    ("close of 60000 links", |member, _| member.client.close(None)),
    ("broken socket of 60000 links", |member, stage| member.cut(stage)),
];

/// The link's session holds as many deliveries of another link, in turns with its own.
const FULL_LINK_ENDS: Ends<Amqp10> = &[
    ("detach of 131072 deliveries", |member, _| member.client.detach(1, 0, true, None)),
    ("queue.delete with a link of 131072 deliveries", |member, stage| {
        let mut other = amqp091(stage);
        other.client.client.delete_queue(CHANNEL, QUEUE.as_bytes());
        other.exchange(stage);
        member.exchange(stage);
    }),
];

const PUBLISHES: Ends<PlainClient> = &[
    ("publish to 60000 queues", |member, _| {
        member.client.client.publish(CHANNEL, Publication::to(b"amq.fanout", b"", BODY));
    }),
    ("persistent publish to 60000 queues", |member, _| {
        member.client.client.publish(CHANNEL, Publication::to(b"amq.fanout", b"", BODY).with(&[0x10, 0, 2]));
    }),
];

const SENDS: Ends<Amqp10> = &[
    ("transfer to 60000 queues", |member, _| send(member, false)),
    ("durable transfer to 60000 queues", |member, _| send(member, true)),
];

const COMMITS: Ends<PlainClient> = &[
    ("commit of 60000 publishes to a queue", |member, stage| {
        publish_persistent(member, stage, |_| QUEUE.to_owned());
        member.client.client.tx_commit(CHANNEL);
    }),
    ("commit of 60000 acks", |member, stage| {
        for tag in 1..=MANY {
            member.client.client.ack(CHANNEL, 2 * tag, false);
        }
        member.exchange(stage);
        member.client.client.tx_commit(CHANNEL);
    }),
    ("commit of 60000 rejections", |member, stage| {
        for tag in 1..=MANY {
            member.client.client.nack(CHANNEL, 2 * tag, false, false);
        }
        member.exchange(stage);
        member.client.client.tx_commit(CHANNEL);
    }),
];

const QUEUE_COMMITS: Ends<PlainClient> = &[("commit of publishes to 60000 queues", |member, stage| {
    publish_persistent(member, stage, |at| format!("one-{at}"));
    member.client.client.tx_commit(CHANNEL);
})];

const DEATHS: Ends<PlainClient> = &[("dead letter to 60000 queues", |member, _| {
    member.client.client.publish(CHANNEL, Publication::to_queue(b"dying", BODY).with(&[0x10, 0, 2]));
})];

fn publish_persistent(member: &mut CrowdMember<PlainClient>, stage: &mut Stage, queue: impl Fn(u64) -> String) {
    for at in 0..MANY {
        member.client.client.publish(CHANNEL, Publication::to_queue(queue(at).as_bytes(), BODY).with(&[0x10, 0, 2]));
        if at % 1000 == 999 {
            member.exchange(stage);
        }
    }
}

fn send(member: &mut CrowdMember<Amqp10>, durable: bool) {
    let mut message = Vec::new();
    Header { durable: Some(durable), ..Header::default() }.encode(&mut message);
    write_data(&mut message, BODY);
    member.client.send(0, 0, b"1", &message, &Send::default());
}

fn with_consumers() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    publish(&mut stage, MANY);
    let mut member = amqp091(&mut stage);
    consume(&mut member, &mut stage, MANY);
    assert_eq!(member.client.delivered, MANY);
    (stage, member)
}

fn with_deliveries() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    publish(&mut stage, UNACKNOWLEDGED);
    let mut member = amqp091(&mut stage);
    let flags = Consume { no_ack: false, exclusive: false };
    member.client.client.consume(CHANNEL, QUEUE.as_bytes(), b"one", flags, &FieldTable::new());
    member.exchange(&mut stage);
    assert_eq!(member.client.delivered, UNACKNOWLEDGED);
    (stage, member)
}

fn with_channels() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    open_channels(&mut member, &mut stage, MANY as u16);
    (stage, member)
}

fn with_exclusive_queues() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    exclusive_queues(&mut member, &mut stage, MANY);
    (stage, member)
}

fn with_bindings() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    bind(&mut member, &mut stage, MANY);
    (stage, member)
}

fn with_shared_bindings() -> (Stage, CrowdMember<PlainClient>) {
    let (mut stage, mut member) = with_bindings();
    member.client.client.bind_queue(CHANNEL, QUEUE.as_bytes(), b"source", b"key-1", &FieldTable::new());
    member.exchange(&mut stage);
    (stage, member)
}

fn with_fanout() -> (Stage, CrowdMember<PlainClient>) {
    let (mut stage, mut member) = with_queues();
    member.client.client.declare_exchange(CHANNEL, b"fan", "fanout", false, &FieldTable::new());
    for at in 0..MANY {
        let queue = format!("one-{at}");
        member.client.client.bind_queue(CHANNEL, queue.as_bytes(), b"fan", b"", &FieldTable::new());
    }
    member.exchange(&mut stage);
    (stage, member)
}

fn with_links() -> (Stage, CrowdMember<Amqp10>) {
    let mut stage = stage();
    publish(&mut stage, MANY);
    let mut member = amqp10(&mut stage);
    receive(&mut member, &mut stage, MANY as u32, MANY as u32);
    (stage, member)
}

/// Two links of one session that hold the messages of two queues in turns.
fn with_link() -> (Stage, CrowdMember<Amqp10>) {
    let mut stage = stage();
    let mut other = amqp091(&mut stage);
    other.client.client.declare_queue(CHANNEL, b"other", QueueDeclare::default(), &FieldTable::new());
    other.exchange(&mut stage);
    let mut member = amqp10(&mut stage);
    let half = UNACKNOWLEDGED as u32 / 2;
    member.client.begin(1, SessionOptions::default());
    member.client.attach_receiver(1, 0, "one", &format!("/queues/{QUEUE}"), false);
    member.client.attach_receiver(1, 1, "other", "/queues/other", false);
    member.exchange(&mut stage);
    (0..2).for_each(|handle| member.client.grant(1, handle, half, false));
    member.exchange(&mut stage);
    for _ in 0..half {
        for queue in [QUEUE.as_bytes(), b"other"] {
            other.client.client.publish(CHANNEL, Publication::to_queue(queue, BODY).with(&[0x10, 0, 1]));
        }
        other.exchange(&mut stage);
        member.exchange(&mut stage);
    }
    (stage, member)
}

/// A transactional channel that holds every other message of many, and more: they aren't settled as one range.
fn with_transaction() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    publish(&mut stage, 2 * MANY);
    let mut member = amqp091(&mut stage);
    let flags = Consume { no_ack: false, exclusive: false };
    member.client.client.consume(CHANNEL, QUEUE.as_bytes(), b"one", flags, &FieldTable::new());
    member.client.client.tx_select(CHANNEL);
    member.exchange(&mut stage);
    assert_eq!(member.client.delivered, 2 * MANY);
    (stage, member)
}

fn with_transactions_of_queues() -> (Stage, CrowdMember<PlainClient>) {
    let (mut stage, mut member) = with_queues();
    member.client.client.tx_select(CHANNEL);
    member.exchange(&mut stage);
    (stage, member)
}

/// Durable queues of a fanout exchange.
fn with_queues() -> (Stage, CrowdMember<PlainClient>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    for at in 0..MANY {
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        let queue = format!("one-{at}");
        member.client.client.declare_queue(CHANNEL, queue.as_bytes(), flags, &FieldTable::new());
        member.client.client.bind_queue(CHANNEL, queue.as_bytes(), b"amq.fanout", b"", &FieldTable::new());
    }
    member.exchange(&mut stage);
    (stage, member)
}

/// A queue that keeps no message, and whose dead letters go to many queues.
fn with_dying() -> (Stage, CrowdMember<PlainClient>) {
    let (mut stage, mut member) = with_queues();
    let arguments = FieldTable::new().with("x-max-length", 0).with("x-dead-letter-exchange", "amq.fanout");
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    member.client.client.declare_queue(CHANNEL, b"dying", flags, &arguments);
    member.exchange(&mut stage);
    (stage, member)
}

fn with_sender() -> (Stage, CrowdMember<Amqp10>) {
    let (mut stage, _) = with_queues();
    let mut member = amqp10(&mut stage);
    member.client.attach_sender(0, 0, "sender", Some("/exchanges/amq.fanout"));
    member.exchange(&mut stage);
    (stage, member)
}
