//! Connections, channels, sessions and exchanges with many objects of one kind.

pub(crate) mod among;
mod member;
pub mod turns;

use leveret_amqp091::{FieldTable, Properties};
use leveret_broker::Settings;
use leveret_strict_client::amqp10::{self, SessionOptions};
use leveret_strict_client::amqp091::{self, Consume, Publication, QueueDeclare};

use crate::session::Stage;
use crate::{BODY, QUEUE};
use member::{CrowdMember, PlainClient};

const CHANNEL: u16 = 1;

/// A broker with limits that a crowd doesn't reach.
fn stage() -> Stage {
    let mut settings = Settings { channel_max: u16::MAX, consumers_per_channel_max: 1 << 20, ..Settings::default() };
    settings.link_max = 1 << 16;
    settings.session_max = 1000;
    settings.link_credit.start = 1000;
    Stage::with(settings)
}

fn amqp091(stage: &mut Stage) -> CrowdMember<PlainClient> {
    let options = amqp091::Options { channel_max: u16::MAX, ..Default::default() };
    let client = PlainClient { client: amqp091::Client::new(options), delivered: 0, last_tag: 0 };
    let mut member = CrowdMember::new(stage, 50_001, client);
    member.exchange(stage);
    member.client.client.open_channel(CHANNEL);
    member.exchange(stage);
    member
}

fn amqp10(stage: &mut Stage) -> CrowdMember<amqp10::Client> {
    let options = amqp10::Options { channel_max: u16::MAX, ..amqp10::Options::default() };
    let mut member = CrowdMember::new(stage, 50_002, amqp10::Client::new(options));
    member.exchange(stage);
    member.client.begin(0, SessionOptions::default());
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
            member.client.client.publish(CHANNEL, Publication::to_queue(QUEUE.as_bytes(), BODY).with(&properties));
        });
        member.exchange(stage);
    }
    member.cut(stage);
}

/// Starts this many consumers on the client's channel, with a prefetch of one message each.
fn consume(member: &mut CrowdMember<PlainClient>, stage: &mut Stage, count: u64) {
    member.client.client.qos(CHANNEL, 1, false);
    for at in 0..count {
        let flags = Consume { no_ack: false, exclusive: false };
        let tag = format!("consumer-{at}");
        member.client.client.consume(CHANNEL, QUEUE.as_bytes(), tag.as_bytes(), flags, &FieldTable::new());
    }
    member.exchange(stage);
}

fn exclusive_queues(member: &mut CrowdMember<PlainClient>, stage: &mut Stage, count: u64) {
    for at in 0..count {
        let flags = QueueDeclare { exclusive: true, ..QueueDeclare::default() };
        member.client.client.declare_queue(CHANNEL, format!("own-{at}").as_bytes(), flags, &FieldTable::new());
    }
    member.exchange(stage);
}

fn open_channels(member: &mut CrowdMember<PlainClient>, stage: &mut Stage, count: u16) {
    for channel in 2..=count {
        member.client.client.open_channel(channel);
    }
    member.exchange(stage);
}

/// Binds a queue to an exchange by this many keys.
fn bind(member: &mut CrowdMember<PlainClient>, stage: &mut Stage, count: u64) {
    member.client.client.declare_queue(CHANNEL, b"bound", QueueDeclare::default(), &FieldTable::new());
    member.client.client.declare_exchange(CHANNEL, b"source", "topic", false, &FieldTable::new());
    for at in 0..count {
        let key = format!("key-{at}");
        member.client.client.bind_queue(CHANNEL, b"bound", b"source", key.as_bytes(), &FieldTable::new());
    }
    member.exchange(stage);
}

/// Attaches this many receivers to the queue, with credit for one message each, `per_session` in each session.
fn receive(member: &mut CrowdMember<amqp10::Client>, stage: &mut Stage, count: u32, per_session: u32) {
    for channel in 1..=count.div_ceil(per_session) as u16 {
        member.client.begin(channel, SessionOptions { handle_max: per_session, ..SessionOptions::default() });
    }
    member.exchange(stage);
    let places = || (0..count).map(|at| ((at / per_session + 1) as u16, at % per_session));
    for (channel, handle) in places() {
        member.client.attach_receiver(channel, handle, &handle.to_string(), &format!("/queues/{QUEUE}"), false);
    }
    member.exchange(stage);
    places().for_each(|(channel, handle)| member.client.grant(channel, handle, 1, false));
    member.exchange(stage);
}
