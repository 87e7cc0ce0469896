//! The longest uninterrupted time of a core for a client that does something to many objects at once.

use std::time::Duration;

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp10::Client as Amqp10;
use leveret_strict_client::amqp091::Consume;

use super::member::{Amqp091, CrowdClient, Member};
use super::{CHANNEL, amqp10, amqp091, bind, consume, exclusive_queues, open_channels, publish, receive, stage};
use crate::QUEUE;
use crate::session::Stage;

/// Objects of one kind on a connection.
const MANY: u64 = 60_000;
/// Most unacknowledged deliveries of a channel.
const UNACKNOWLEDGED: u64 = 1 << 18;

/// Prints the longest turn of each benchmark whose name contains `part`.
pub(crate) fn print(part: &str) {
    measure(part, with_consumers, CONSUMER_ENDS);
    measure(part, with_deliveries, DELIVERY_ENDS);
    measure(part, with_channels, CHANNEL_ENDS);
    measure(part, with_exclusive_queues, EXCLUSIVE_ENDS);
    measure(part, with_bindings, BINDING_ENDS);
    measure(part, with_links, LINK_ENDS);
}

fn measure<C: CrowdClient>(part: &str, begin: fn() -> (Stage, Member<C>), ends: Ends<C>) {
    for (name, end) in ends.iter().filter(|(name, _)| name.contains(part)) {
        let (mut stage, mut member) = begin();
        let begun = member.longest();
        end(&mut member, &mut stage);
        member.exchange(&mut stage);
        println!("{name}: {:.1} ms, to get there {:.1} ms", ms(member.longest()), ms(begun));
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

type End<C> = fn(&mut Member<C>, &mut Stage);
type Ends<C> = &'static [(&'static str, End<C>)];

const CONSUMER_ENDS: Ends<Amqp091> = &[
    ("ack of 60000 consumers", |member, _| member.client.client.ack(CHANNEL, 0, true)),
    ("nack of 60000 consumers", |member, _| member.client.client.nack(CHANNEL, 0, true, true)),
    ("channel.close of 60000 consumers", |member, _| member.client.client.close_channel(CHANNEL)),
    ("connection.close of 60000 consumers", |member, _| member.client.client.close("bye")),
    ("broken socket of 60000 consumers", |member, stage| member.cut(stage)),
    ("queue.delete with 60000 consumers", |member, _| member.client.client.delete_queue(CHANNEL, QUEUE.as_bytes())),
];

const DELIVERY_ENDS: Ends<Amqp091> = &[
    ("ack of 262144 deliveries", |member, _| member.client.client.ack(CHANNEL, 0, true)),
    ("nack of 262144 deliveries", |member, _| member.client.client.nack(CHANNEL, 0, true, true)),
    ("dropping nack of 262144 deliveries", |member, _| member.client.client.nack(CHANNEL, 0, true, false)),
    ("recover of 262144 deliveries", |member, _| member.client.client.recover(CHANNEL)),
    ("channel.close of 262144 deliveries", |member, _| member.client.client.close_channel(CHANNEL)),
    ("broken socket of 262144 deliveries", |member, stage| member.cut(stage)),
];

const CHANNEL_ENDS: Ends<Amqp091> = &[
    ("connection.close of 60000 channels", |member, _| member.client.client.close("bye")),
    ("broken socket of 60000 channels", |member, stage| member.cut(stage)),
];

const EXCLUSIVE_ENDS: Ends<Amqp091> = &[
    ("connection.close of 60000 exclusive queues", |member, _| member.client.client.close("bye")),
    ("broken socket of 60000 exclusive queues", |member, stage| member.cut(stage)),
];

const BINDING_ENDS: Ends<Amqp091> = &[
    ("queue.unbind of 1 of 60000 bindings", |member, _| {
        member.client.client.unbind_queue(CHANNEL, b"bound", b"source", b"key-1", &FieldTable::new());
    }),
    ("queue.delete with 60000 bindings", |member, _| member.client.client.delete_queue(CHANNEL, b"bound")),
    ("exchange.delete with 60000 bindings", |member, _| member.client.client.delete_exchange(CHANNEL, b"source")),
];

const LINK_ENDS: Ends<Amqp10> = &[
    ("end of 60000 links", |member, _| member.client.end(1, None)),
    ("close of 60000 links", |member, _| member.client.close(None)),
    ("broken socket of 60000 links", |member, stage| member.cut(stage)),
];

fn with_consumers() -> (Stage, Member<Amqp091>) {
    let mut stage = stage();
    publish(&mut stage, MANY);
    let mut member = amqp091(&mut stage);
    consume(&mut member, &mut stage, MANY);
    assert_eq!(member.client.delivered, MANY);
    (stage, member)
}

fn with_deliveries() -> (Stage, Member<Amqp091>) {
    let mut stage = stage();
    publish(&mut stage, UNACKNOWLEDGED);
    let mut member = amqp091(&mut stage);
    let flags = Consume { no_ack: false, exclusive: false };
    member.client.client.consume(CHANNEL, QUEUE.as_bytes(), b"one", flags, &FieldTable::new());
    member.exchange(&mut stage);
    assert_eq!(member.client.delivered, UNACKNOWLEDGED);
    (stage, member)
}

fn with_channels() -> (Stage, Member<Amqp091>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    open_channels(&mut member, &mut stage, MANY as u16);
    (stage, member)
}

fn with_exclusive_queues() -> (Stage, Member<Amqp091>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    exclusive_queues(&mut member, &mut stage, MANY);
    (stage, member)
}

fn with_bindings() -> (Stage, Member<Amqp091>) {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    bind(&mut member, &mut stage, MANY);
    (stage, member)
}

fn with_links() -> (Stage, Member<Amqp10>) {
    let mut stage = stage();
    publish(&mut stage, MANY);
    let mut member = amqp10(&mut stage);
    receive(&mut member, &mut stage, MANY as u32, MANY as u32);
    (stage, member)
}
