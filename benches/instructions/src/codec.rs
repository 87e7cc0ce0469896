//! Frames of both protocols.

use std::hint::black_box;

use leveret_amqp10::message::{Header, Sections, write_data};
use leveret_amqp10::performative::Transfer;
use leveret_amqp10::{self as amqp10, Performative};
use leveret_amqp091::method::basic;
use leveret_amqp091::{self as amqp091, ContentHeader, FrameKind, Method, ShortStr};

use crate::count::count;
use crate::{BODY, MESSAGES, QUEUE};

const CHANNEL: u16 = 1;
const BASIC: u16 = 60;
const FRAME_MAX: u32 = 131_072;
/// Delivery mode 2.
const PROPERTIES: [u8; 3] = [0x10, 0, 2];

pub(crate) fn decode_publish() -> u64 {
    let mut input = Vec::new();
    let publish = basic::Publish {
        ticket: 0,
        exchange: ShortStr::new(b"").expect("it is short"),
        routing_key: ShortStr::new(QUEUE.as_bytes()).expect("it is short"),
        mandatory: true,
        immediate: false,
    };
    for _ in 0..MESSAGES {
        amqp091::encode_method(&mut input, CHANNEL, &Method::BasicPublish(publish));
        amqp091::encode_header(&mut input, CHANNEL, BASIC, BODY.len() as u64, &PROPERTIES);
        amqp091::encode_content_body(&mut input, CHANNEL, BODY, FRAME_MAX);
    }
    count(|| {
        let mut input = black_box(&input[..]);
        let mut messages = 0;
        while let Some((frame, used)) = amqp091::decode_frame(input, FRAME_MAX).expect("frames") {
            match frame.kind {
                FrameKind::Method => drop(black_box(Method::decode(frame.payload).expect("a method"))),
                FrameKind::Header => drop(black_box(ContentHeader::decode(frame.payload).expect("a content header"))),
                FrameKind::Body | FrameKind::Heartbeat => {
                    black_box(frame.payload);
                    messages += 1;
                }
            }
            input = &input[used..];
        }
        messages
    })
}

pub(crate) fn encode_deliver() -> u64 {
    let mut out = Vec::with_capacity(MESSAGES as usize * 128);
    count(|| {
        for delivery_tag in 1..=MESSAGES {
            let (tag, key) = (black_box(b"consumer"), black_box(QUEUE.as_bytes()));
            amqp091::encode_deliver(&mut out, CHANNEL, tag, delivery_tag, false, b"", key);
            amqp091::encode_header(&mut out, CHANNEL, BASIC, BODY.len() as u64, black_box(&PROPERTIES));
            amqp091::encode_content_body(&mut out, CHANNEL, black_box(BODY), FRAME_MAX);
        }
        black_box(&mut out);
    });
    MESSAGES
}

/// The payload of a sender's transfer.
pub(crate) fn payload() -> Vec<u8> {
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, BODY);
    payload
}

fn encode_transfers(out: &mut Vec<u8>, payload: &[u8]) {
    for id in 0..MESSAGES as u32 {
        let tag = id.to_be_bytes();
        let transfer = Transfer {
            handle: 0,
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        amqp10::encode_transfer(out, CHANNEL, black_box(&transfer), black_box(payload));
    }
}

pub(crate) fn decode_transfer() -> u64 {
    let mut input = Vec::new();
    encode_transfers(&mut input, &payload());
    count(|| {
        let mut input = black_box(&input[..]);
        let mut messages = 0;
        while let Some((frame, used)) = amqp10::decode_frame(input, FRAME_MAX).expect("frames") {
            let (performative, payload) = Performative::decode(frame.body).expect("a performative");
            black_box(performative);
            black_box(Sections::parse(payload).expect("a message"));
            input = &input[used..];
            messages += 1;
        }
        messages
    })
}

pub(crate) fn encode_transfer() -> u64 {
    let mut out = Vec::with_capacity(MESSAGES as usize * 128);
    let payload = payload();
    count(|| encode_transfers(black_box(&mut out), &payload));
    MESSAGES
}
