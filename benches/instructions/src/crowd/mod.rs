//! Connections, channels, sessions and exchanges with many things of one kind.

mod member;
pub(crate) mod turns;

use leveret_amqp091::{FieldTable, Properties};
use leveret_broker::Settings;
use leveret_strict_client::amqp10::{self, SessionOptions};
use leveret_strict_client::amqp091::{self, Consume, QueueDeclare};

use crate::session::Stage;
use crate::{BODY, QUEUE};
use member::{Amqp091, Member};

const CHANNEL: u16 = 1;

/// A broker without limits that a crowd would meet.
fn stage() -> Stage {
    let mut settings = Settings { channel_max: u16::MAX, consumers_per_channel_max: 1 << 20, ..Settings::default() };
    settings.link_max = 1 << 16;
    settings.link_credit.start = 1000;
    Stage::with(settings)
}

fn amqp091(stage: &mut Stage) -> Member<Amqp091> {
    let options = amqp091::Options { channel_max: u16::MAX, ..Default::default() };
    let client = Amqp091 { client: amqp091::Client::new(options), delivered: 0, last_tag: 0 };
    let mut member = Member::new(stage, 50_001, client);
    member.exchange(stage);
    member.client.client.open_channel(CHANNEL);
    member.exchange(stage);
    member
}

fn amqp10(stage: &mut Stage) -> Member<amqp10::Client> {
    let mut member = Member::new(stage, 50_002, amqp10::Client::new(amqp10::Options::default()));
    member.exchange(stage);
    member.client.begin(0, SessionOptions { handle_max: u32::from(u16::MAX), ..SessionOptions::default() });
    member.exchange(stage);
    member
}

/// Publishes `count` transient messages to the queue.
fn publish(stage: &mut Stage, count: u64) {
    let mut member = amqp091(stage);
    let mut properties = Vec::new();
    Properties { delivery_mode: Some(1), ..Properties::default() }.encode(&mut properties);
    for _ in 0..count.div_ceil(1000) {
        (0..count.min(1000)).for_each(|_| {
            member.client.client.publish(CHANNEL, b"", QUEUE.as_bytes(), false, &properties, BODY);
        });
        member.exchange(stage);
    }
    member.cut(stage);
}

/// Lets the client consume so many times on its channel, one message each.
fn consume(member: &mut Member<Amqp091>, stage: &mut Stage, count: u64) {
    member.client.client.qos(CHANNEL, 1, false);
    for at in 0..count {
        let flags = Consume { no_ack: false, exclusive: false };
        let tag = format!("consumer-{at}");
        member.client.client.consume(CHANNEL, QUEUE.as_bytes(), tag.as_bytes(), flags, &FieldTable::new());
    }
    member.exchange(stage);
}

fn exclusive_queues(member: &mut Member<Amqp091>, stage: &mut Stage, count: u64) {
    for at in 0..count {
        let flags = QueueDeclare { exclusive: true, ..QueueDeclare::default() };
        member.client.client.declare_queue(CHANNEL, format!("own-{at}").as_bytes(), flags, &FieldTable::new());
    }
    member.exchange(stage);
}
