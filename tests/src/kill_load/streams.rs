//! The readers of streams, of both protocols. Each works until its socket fails; the next one goes on behind the last message that
//! is known to be safe.

use std::io;
use std::net::SocketAddr;

use leveret_amqp10::OwnedValue;
use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::{OwnedDescribed, OwnedDescriptor, OwnedMap};
use leveret_amqp10::{Role, Source, Target, TargetArchetype, Value};
use leveret_amqp091::Properties;
use leveret_strict_client::amqp10::Event;

use super::amqp10::{CREDIT, address_of, events, read};
use super::amqp091::{ack, end, unexpected};
use super::{QUEUES, is_stream};
use crate::amqp10::{Amqp10, CHANNEL, annotation};
use crate::kill_ledger::KillLedger;
use crate::wire::{Wire, method};

const OFFSET: &str = "x-stream-offset";
const PREFETCH: u16 = 200;

/// The next delivery of a stream: tag, offset, body.
fn delivery(wire: &mut Wire) -> io::Result<(u64, u64, Vec<u8>)> {
    let frame = wire.next_frame()?;
    if frame.method() != Some(method::BASIC_DELIVER) {
        return Err(unexpected(&frame));
    }
    let mut arguments = frame.arguments();
    let _consumer = arguments.short_string();
    let (tag, redelivered) = (arguments.long_long(), arguments.octet() & 1 == 1);
    let (properties, body) = wire.content_with_properties()?;
    let properties = Properties::decode(&properties).map_err(io::Error::other)?;
    let offset = properties.headers.and_then(|headers| headers.lookup(OFFSET)?.as_i64());
    match offset.and_then(|offset| u64::try_from(offset).ok()).filter(|_| !redelivered) {
        Some(offset) => Ok((tag, offset, body)),
        None => Err(io::Error::other(format!("offset {offset:?}, redelivered {redelivered}"))),
    }
}

/// Notes a message, and checks that it is at the offset that was due.
fn note(ledger: &KillLedger, queue: usize, due: &mut u64, offset: u64, body: &[u8]) -> Option<u64> {
    if offset != *due {
        ledger.fail(format!("stream {queue}: offset {offset} came instead of {due}"));
    }
    *due = offset + 1;
    ledger.streamed(queue, QUEUES[queue].1, body, offset)
}

fn consume_from(wire: &mut Wire, queue: usize, offset: u64) {
    wire.prefetch(1, PREFETCH);
    let offset = i32::try_from(offset).expect("a test has fewer messages");
    wire.consume_with(1, QUEUES[queue].0, false, &[(OFFSET, offset)]);
}

/// Reads over AMQP 0-9-1.
pub(crate) fn read_over_amqp091(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    let mut wire = Wire::open(address);
    let mut due = ledger.known_offsets(queue);
    consume_from(&mut wire, queue, due);
    ledger.ready();
    let mut follow = || loop {
        let (tag, offset, body) = delivery(&mut wire)?;
        note(ledger, queue, &mut due, offset, &body);
        if tag % 50 == 0 {
            ack(&mut wire, tag, true)?;
        }
    };
    end(ledger, "a reader", follow());
}

/// Reads over AMQP 1.0.
pub(crate) fn read_over_amqp10(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    let mut client = Amqp10::open(address);
    let mut due = ledger.known_offsets(queue);
    attach(&mut client, queue, due);
    client.grant(0, CREDIT);
    ledger.ready();
    let mut used = 0;
    while read(ledger, &mut client) {
        for seen in events(&mut client) {
            let Event::Delivered(delivery) = &seen.event else { continue };
            used += 1;
            let Some(OwnedValue::Long(offset)) = annotation(&seen, OFFSET) else {
                ledger.fail(format!("stream {queue}: a message without an offset"));
                return;
            };
            note(ledger, queue, &mut due, offset as u64, &seen.data());
            let id = delivery.delivery_id;
            client.client.dispose(CHANNEL, id, id, true, Some(leveret_amqp10::DeliveryState::Accepted));
        }
        if used >= CREDIT / 2 && client.client.is_attached(CHANNEL, 0) {
            client.client.grant(CHANNEL, 0, CREDIT, false);
            used = 0;
        }
    }
}

fn attach(client: &mut Amqp10, queue: usize, offset: u64) {
    let descriptor = OwnedDescriptor::Symbol("rabbitmq:stream-offset-spec".into());
    let value = OwnedValue::Described(Box::new(OwnedDescribed { descriptor, value: OwnedValue::Ulong(offset) }));
    let filter = OwnedValue::Map(OwnedMap(vec![(OwnedValue::Symbol("offset".into()), value)])).encoded();
    let Value::Map(filter) = filter.as_value() else { unreachable!("it is a map") };
    let address = address_of(queue);
    let attach = Attach {
        name: "reader",
        handle: 0,
        role: Role::Receiver,
        source: Some(Source { address: Some(&address), filter: Some(filter), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    client.attach(CHANNEL, &attach);
}

/// Reads a stream from its first message to its last.
pub(super) fn read_to_the_end(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    assert!(is_stream(queue));
    let mut wire = Wire::open(address);
    let count = u64::from(wire.message_count(1, QUEUES[queue].0));
    consume_from(&mut wire, queue, 0);
    let mut due = 0;
    while due < count {
        let (tag, offset, body) = delivery(&mut wire).expect("a message");
        if let Some(number) = note(ledger, queue, &mut due, offset, &body) {
            ledger.settling(queue, &[number]);
        }
        if tag % 50 == 0 {
            ack(&mut wire, tag, true).expect("an open socket");
        }
    }
    wire.close();
}
