//! The cost of one object that comes and goes among many of its kind. The figures for ten and for sixty thousand
//! should be equal, except for the steps of a search.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Consume, QueueDeclare};

use super::member::{CrowdClient, CrowdMember, PlainClient};
use super::{CHANNEL, amqp10, amqp091, bind, consume, exclusive_queues, open_channels, publish, receive, stage};
use crate::QUEUE;
use crate::session::Stage;

/// Number of repetitions.
const TIMES: u64 = 50;

/// Counts the broker's work caused by `once`.
fn counted<C: CrowdClient>(
    stage: &mut Stage,
    member: &mut CrowdMember<C>,
    once: impl Fn(&mut CrowdMember<C>, &mut Stage),
) -> u64 {
    once(member, stage);
    stage.counts = true;
    (0..TIMES).for_each(|_| once(member, stage));
    TIMES
}

/// One consumer of a queue and channel.
pub(crate) fn consumers<const MANY: u64>() -> u64 {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    consume(&mut member, &mut stage, MANY);
    counted(&mut stage, &mut member, |member, stage| {
        let flags = Consume { no_ack: false, exclusive: false };
        member.client.client.consume(CHANNEL, QUEUE.as_bytes(), b"one more", flags, &FieldTable::new());
        member.exchange(stage);
        member.client.client.cancel(CHANNEL, b"one more");
        member.exchange(stage);
    })
}

/// One channel of a connection.
pub(crate) fn channels<const MANY: u64>() -> u64 {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    open_channels(&mut member, &mut stage, MANY as u16);
    counted(&mut stage, &mut member, |member, stage| {
        member.client.client.open_channel(u16::MAX);
        member.exchange(stage);
        member.client.client.close_channel(u16::MAX);
        member.exchange(stage);
    })
}

/// One receiving link of a connection and queue.
pub(crate) fn links<const MANY: u64>() -> u64 {
    let mut stage = stage();
    let mut member = amqp10(&mut stage);
    receive(&mut member, &mut stage, MANY as u32, 250);
    counted(&mut stage, &mut member, |member, stage| {
        let handle = 0;
        member.client.attach_receiver(0, handle, "one more", &format!("/queues/{QUEUE}"), false);
        member.exchange(stage);
        member.client.detach(0, handle, true, None);
        member.exchange(stage);
    })
}

/// One binding of a queue and an exchange.
pub(crate) fn bindings<const MANY: u64>() -> u64 {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    bind(&mut member, &mut stage, MANY);
    counted(&mut stage, &mut member, |member, stage| {
        member.client.client.bind_queue(CHANNEL, b"bound", b"source", b"one more", &FieldTable::new());
        member.exchange(stage);
        member.client.client.unbind_queue(CHANNEL, b"bound", b"source", b"one more", &FieldTable::new());
        member.exchange(stage);
    })
}

/// The last delivery of a channel is acknowledged, and the next one sent.
pub(crate) fn deliveries<const MANY: u64>() -> u64 {
    let mut stage = stage();
    publish(&mut stage, MANY + TIMES + 1);
    let mut member = amqp091(&mut stage);
    member.client.client.qos(CHANNEL, MANY as u16, false);
    let flags = Consume { no_ack: false, exclusive: false };
    member.client.client.consume(CHANNEL, QUEUE.as_bytes(), b"one", flags, &FieldTable::new());
    member.exchange(&mut stage);
    assert_eq!(member.client.delivered, MANY);
    counted(&mut stage, &mut member, |member: &mut CrowdMember<PlainClient>, stage| {
        member.client.client.ack(CHANNEL, member.client.last_tag, false);
        member.exchange(stage);
    })
}

/// One exclusive queue of a connection.
pub(crate) fn exclusive<const MANY: u64>() -> u64 {
    let mut stage = stage();
    let mut member = amqp091(&mut stage);
    exclusive_queues(&mut member, &mut stage, MANY);
    counted(&mut stage, &mut member, |member, stage| {
        let flags = QueueDeclare { exclusive: true, ..QueueDeclare::default() };
        member.client.client.declare_queue(CHANNEL, b"one more", flags, &FieldTable::new());
        member.exchange(stage);
        member.client.client.delete_queue(CHANNEL, b"one more");
        member.exchange(stage);
    })
}
