//! The clients of AMQP 0-9-1. Each works until its socket fails.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;

use crate::kill_ledger::{KillLedger, body};
use crate::wire::{Frame, Wire, Writer, method, method_frame, publish};

use super::QUEUES;

/// Most unconfirmed publishes.
const WINDOW: usize = 100;
/// Messages moved by a transaction.
const MOVED: usize = 4;

/// Handles a result: failing sockets are expected as long as the broker is being killed.
pub(super) fn end(ledger: &KillLedger, what: &str, result: io::Result<()>) {
    if let Err(error) = result
        && !ledger.is_over()
    {
        ledger.fail(format!("{what}: {error}"));
    }
}

pub(super) fn unexpected(frame: &Frame) -> io::Error {
    io::Error::other(format!("{:?} {:?}", frame.method(), frame.reason()))
}

/// Publishes to all these queues through an exchange, with confirms.
pub(crate) fn publish_to(ledger: &KillLedger, address: SocketAddr, exchange: &str, queues: &[usize]) {
    let mut wire = Wire::open(address);
    wire.confirm_select(1);
    ledger.ready();
    end(ledger, "a publisher", publish_on(ledger, &mut wire, exchange, queues));
}

fn publish_on(ledger: &KillLedger, wire: &mut Wire, exchange: &str, queues: &[usize]) -> io::Result<()> {
    let (key, publisher) = QUEUES[queues[0]];
    let mut unconfirmed: BTreeMap<u64, u64> = BTreeMap::new();
    let mut tag = 0;
    while ledger.wait_for_room(queues) {
        let mut bytes = Vec::new();
        while unconfirmed.len() < WINDOW {
            let number = ledger.send(queues);
            tag += 1;
            unconfirmed.insert(tag, number);
            bytes.extend(publish(1, exchange, key, &body(publisher, number), true, true));
        }
        wire.socket.write_all(&bytes)?;
        while unconfirmed.len() > WINDOW / 2 {
            let frame = wire.next_frame()?;
            if frame.method() != Some(method::BASIC_ACK) {
                return Err(unexpected(&frame));
            }
            let mut arguments = frame.arguments();
            let (tag, multiple) = (arguments.long_long(), arguments.octet() & 1 == 1);
            let later = unconfirmed.split_off(&(tag + 1));
            let mut confirmed = std::mem::replace(&mut unconfirmed, later);
            if !multiple {
                let number = confirmed.remove(&tag);
                unconfirmed.append(&mut confirmed);
                confirmed.extend(number.map(|number| (tag, number)));
            }
            confirmed.into_values().for_each(|number| ledger.confirmed(queues, number));
        }
    }
    Ok(())
}

/// The next delivery of a consumer: tag, redelivered, body.
fn delivery(wire: &mut Wire) -> io::Result<(u64, bool, Vec<u8>)> {
    let frame = wire.next_frame()?;
    delivered(wire, &frame)
}

/// Reads a delivery.
fn delivered(wire: &mut Wire, frame: &Frame) -> io::Result<(u64, bool, Vec<u8>)> {
    if frame.method() != Some(method::BASIC_DELIVER) {
        return Err(unexpected(frame));
    }
    let mut arguments = frame.arguments();
    let _consumer = arguments.short_string();
    let (tag, redelivered) = (arguments.long_long(), arguments.octet() & 1 == 1);
    Ok((tag, redelivered, wire.content()?))
}

pub(super) fn ack(wire: &mut Wire, tag: u64, multiple: bool) -> io::Result<()> {
    let mut arguments = Writer::new();
    arguments.put_long_long(tag).put_octet(u8::from(multiple));
    wire.socket.write_all(&method_frame(1, method::BASIC_ACK, &arguments))
}

/// Acknowledges deliveries, some alone, some together; acknowledgements are never confirmed.
pub(crate) fn acknowledge(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    let mut wire = Wire::open(address);
    wire.prefetch(1, 50);
    wire.consume(1, QUEUES[queue].0, false);
    ledger.ready();
    end(ledger, "a consumer", acknowledge_on(ledger, &mut wire, queue));
}

fn acknowledge_on(ledger: &KillLedger, wire: &mut Wire, queue: usize) -> io::Result<()> {
    let mut held = Vec::new();
    loop {
        let (tag, redelivered, bytes) = delivery(wire)?;
        let Some(number) = ledger.delivered(queue, QUEUES[queue].1, &bytes, redelivered) else { continue };
        held.push(number);
        if tag % 20 < 10 || held.len() >= 10 {
            ledger.settling(queue, &held);
            ack(wire, tag, true)?;
            held.clear();
        }
    }
}

/// Moves messages from one queue to another, a few in each transaction.
pub(crate) fn move_in_transactions(ledger: &KillLedger, address: SocketAddr, from: usize, to: usize) {
    let mut wire = Wire::open(address);
    wire.call(1, method::TX_SELECT, &Writer::new(), method::TX_SELECT_OK);
    wire.prefetch(1, u16::try_from(MOVED).expect("few"));
    wire.consume(1, QUEUES[from].0, false);
    ledger.ready();
    end(ledger, "a transaction", move_on(ledger, &mut wire, from, to));
}

fn move_on(ledger: &KillLedger, wire: &mut Wire, from: usize, to: usize) -> io::Result<()> {
    // Deliveries before the reply to a commit belong to the next transaction.
    let (mut gone, mut last) = (Vec::new(), 0);
    let take = |wire: &mut Wire, frame: &Frame, gone: &mut Vec<u64>| {
        let (tag, redelivered, bytes) = delivered(wire, frame)?;
        gone.extend(ledger.delivered(from, QUEUES[from].1, &bytes, redelivered));
        Ok::<u64, io::Error>(tag)
    };
    loop {
        while gone.len() < MOVED {
            let frame = wire.next_frame()?;
            last = take(wire, &frame, &mut gone)?;
        }
        let come: Vec<u64> = (0..MOVED).map(|_| ledger.send(&[to])).collect();
        let mut bytes = Vec::new();
        for number in &come {
            bytes.extend(publish(1, "", QUEUES[to].0, &body(QUEUES[to].1, *number), true, true));
        }
        let mut arguments = Writer::new();
        arguments.put_long_long(last).put_octet(1);
        bytes.extend(method_frame(1, method::BASIC_ACK, &arguments));
        bytes.extend(method_frame(1, method::TX_COMMIT, &Writer::new()));
        ledger.settling(from, &gone);
        let mut next = Vec::new();
        let mut commit = || {
            wire.socket.write_all(&bytes)?;
            loop {
                let frame = wire.next_frame()?;
                match frame.method() {
                    Some(method::TX_COMMIT_OK) => return Ok(()),
                    _ => last = take(wire, &frame, &mut next)?,
                }
            }
        };
        if let Err(error) = commit() {
            ledger.doubtful((from, gone), (to, come));
            return Err(error);
        }
        ledger.settled(from, &gone);
        come.iter().for_each(|number| ledger.confirmed(&[to], *number));
        gone = next;
    }
}

/// Consumes everything in a queue.
pub(super) fn read_to_the_end(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    let mut wire = Wire::open(address);
    loop {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(QUEUES[queue].0).put_octet(1);
        wire.send(&method_frame(1, method::BASIC_GET, &arguments));
        let frame = wire.next_frame().expect("an answer");
        if frame.method() == Some(method::BASIC_GET_EMPTY) {
            return wire.close();
        }
        let mut arguments = frame.arguments();
        let (_tag, redelivered) = (arguments.long_long(), arguments.octet() & 1 == 1);
        let bytes = wire.content().expect("content");
        if let Some(number) = ledger.delivered(queue, QUEUES[queue].1, &bytes, redelivered) {
            ledger.settling(queue, &[number]);
        }
    }
}
