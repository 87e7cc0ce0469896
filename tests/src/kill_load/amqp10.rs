//! The clients of AMQP 1.0. Each works until its socket fails.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::amqp10::{Amqp10, CHANNEL, Seen, Silence};
use crate::kill_ledger::{KillLedger, body};
use leveret_amqp10::message::{Header, write_data};
use leveret_amqp10::{DeliveryState, Role, Serial};
use leveret_strict_client::amqp10::{Event, Send, State};

use super::QUEUES;

const WINDOW: usize = 100;
pub(super) const CREDIT: u32 = 100;

/// Whether the socket is still open; any other reason for silence is a failure.
pub(super) fn read(ledger: &KillLedger, client: &mut Amqp10) -> bool {
    match client.try_read() {
        Ok(()) => true,
        Err(Silence::Closed) if ledger.is_over() => false,
        Err(silence) => {
            ledger.fail(format!("a client of AMQP 1.0: {silence:?}"));
            false
        }
    }
}

pub(super) fn events(client: &mut Amqp10) -> Vec<Seen> {
    client.backlog.drain(..).collect()
}

pub(super) fn address_of(queue: usize) -> String {
    format!("/queues/{}", QUEUES[queue].0)
}

/// The numbers from `first` to `last`.
fn each(first: Serial, last: Serial) -> impl Iterator<Item = u32> {
    (0..=last.0.wrapping_sub(first.0)).map(move |offset| first.0.wrapping_add(offset))
}

/// Publishes; an outcome counts as a confirm.
pub(crate) fn publish_to(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    let mut client = Amqp10::open(address);
    client.sender(0, &address_of(queue));
    ledger.ready();
    let mut unconfirmed: HashMap<u32, u64> = HashMap::new();
    let mut next: Option<(u64, Vec<u8>)> = None;
    loop {
        if !ledger.wait_for_room(&[queue]) {
            return;
        }
        // The links of a queue whose disk is gone may end before the node is killed.
        if !client.client.is_attached(CHANNEL, 0) {
            if !ledger.is_over() {
                ledger.fail("a sender of AMQP 1.0 lost its link".to_owned());
            }
            return;
        }
        while unconfirmed.len() < WINDOW {
            let (number, payload) = next.take().unwrap_or_else(|| {
                let number = ledger.send(&[queue]);
                let mut payload = Vec::new();
                Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
                write_data(&mut payload, &body(QUEUES[queue].1, number));
                (number, payload)
            });
            match client.client.send(CHANNEL, 0, &number.to_be_bytes(), &payload, &Send::default()) {
                Some(id) => drop(unconfirmed.insert(id.0, number)),
                None => {
                    next = Some((number, payload));
                    break;
                }
            }
        }
        if !read(ledger, &mut client) {
            return;
        }
        for seen in events(&mut client) {
            if let Event::Disposition { role: Role::Receiver, first, last, settled: true, state, .. } = seen.event {
                for id in each(first, last) {
                    match (unconfirmed.remove(&id), &state) {
                        (Some(number), Some(State::Accepted)) => ledger.confirmed(&[queue], number),
                        (number, state) => ledger.fail(format!("message {number:?} came to {state:?}")),
                    }
                }
            }
        }
    }
}

/// Accepts deliveries without settling them, and waits until the broker settles them, which confirms the settlement.
pub(crate) fn settle_and_wait(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    let mut client = Amqp10::open(address);
    client.receiver(0, &address_of(queue), CREDIT);
    ledger.ready();
    let mut asked: HashMap<u32, u64> = HashMap::new();
    let mut used = 0;
    while read(ledger, &mut client) {
        for seen in events(&mut client) {
            match &seen.event {
                Event::Delivered(delivery) => {
                    used += 1;
                    let header = seen.sections().header.unwrap_or_default();
                    let redelivered = header.delivery_count > 0 || !header.first_acquirer;
                    let found = ledger.delivered(queue, QUEUES[queue].1, &seen.data(), redelivered);
                    let Some(number) = found else { continue };
                    ledger.settling(queue, &[number]);
                    let id = delivery.delivery_id;
                    asked.insert(id.0, number);
                    client.client.dispose(CHANNEL, id, id, false, Some(DeliveryState::Accepted));
                }
                Event::Disposition { role: Role::Sender, first, last, settled: true, .. } => {
                    let numbers: Vec<u64> = each(*first, *last).filter_map(|id| asked.remove(&id)).collect();
                    ledger.settled(queue, &numbers);
                }
                _ => {}
            }
        }
        if used >= CREDIT / 2 && client.client.is_attached(CHANNEL, 0) {
            client.client.grant(CHANNEL, 0, CREDIT, false);
            used = 0;
        }
    }
}
