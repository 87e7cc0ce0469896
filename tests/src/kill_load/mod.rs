//! The mixed load under which a broker is killed: clients of both protocols that publish with confirms and settle
//! with and without confirmation, all recorded in the [`KillLedger`].

mod amqp091;
mod amqp10;
mod streams;

use std::net::SocketAddr;
use std::thread;

use crate::kill_ledger::KillLedger;
use crate::wire::{Wire, Writer, method};

/// The queues by their number in the ledger, each with its publisher. Every third one is a stream, and every second one of the others
/// a quorum queue.
pub const QUEUES: [(&str, u8); 9] = [
    ("acknowledged", 0),
    ("settled", 1),
    ("tx-in", 2),
    ("tx-out", 3),
    ("fan-1", 4),
    ("fan-2", 4),
    ("fan-stream", 4),
    ("stream-1", 5),
    ("stream-2", 6),
];
const ACKNOWLEDGED: usize = 0;
const SETTLED: usize = 1;
const TX_IN: usize = 2;
const TX_OUT: usize = 3;
const FAN: [usize; 3] = [4, 5, 6];
const STREAMS: [usize; 2] = [7, 8];

fn is_quorum(queue: usize) -> bool {
    queue % 2 == 1 && !is_stream(queue)
}

fn is_stream(queue: usize) -> bool {
    queue >= FAN[2]
}

fn type_of(queue: usize) -> &'static str {
    match queue {
        queue if is_stream(queue) => "stream",
        queue if is_quorum(queue) => "quorum",
        _ => "classic",
    }
}

/// An empty ledger of these queues.
pub fn ledger() -> KillLedger {
    // A quorum queue flags by counts, and those of the last moments before a kill may be lost.
    KillLedger::new(QUEUES.len(), |queue| !is_quorum(queue), is_stream)
}

/// A client, which works until its socket fails.
pub type LoadClient = fn(&KillLedger, SocketAddr);

/// All clients.
pub const CLIENTS: [LoadClient; 15] = [
    |ledger, address| amqp091::publish_to(ledger, address, "", &[ACKNOWLEDGED]),
    |ledger, address| amqp091::publish_to(ledger, address, "", &[TX_IN]),
    |ledger, address| amqp091::publish_to(ledger, address, "amq.fanout", &FAN),
    |ledger, address| amqp10::publish_to(ledger, address, SETTLED),
    |ledger, address| amqp091::publish_to(ledger, address, "", &STREAMS[..1]),
    |ledger, address| amqp10::publish_to(ledger, address, STREAMS[1]),
    |ledger, address| amqp091::acknowledge(ledger, address, ACKNOWLEDGED),
    |ledger, address| amqp091::acknowledge(ledger, address, TX_OUT),
    |ledger, address| amqp091::acknowledge(ledger, address, FAN[0]),
    |ledger, address| amqp091::acknowledge(ledger, address, FAN[1]),
    |ledger, address| amqp091::move_in_transactions(ledger, address, TX_IN, TX_OUT),
    |ledger, address| amqp10::settle_and_wait(ledger, address, SETTLED),
    |ledger, address| streams::read_over_amqp10(ledger, address, FAN[2]),
    |ledger, address| streams::read_over_amqp10(ledger, address, STREAMS[0]),
    |ledger, address| streams::read_over_amqp091(ledger, address, STREAMS[1]),
];

/// Declares the queues.
///
/// # Panics
/// When the broker refuses.
pub fn declare(address: SocketAddr) {
    let mut wire = Wire::open(address);
    for (number, (queue, _)) in QUEUES.into_iter().enumerate() {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_octet(2);
        arguments.put_string_table(&[("x-queue-type", type_of(number))]);
        wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
    }
    for queue in FAN {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(QUEUES[queue].0).put_short_string("amq.fanout").put_short_string("");
        arguments.put_octet(0).put_empty_table();
        wire.call(1, method::QUEUE_BIND, &arguments, method::QUEUE_BIND_OK);
    }
    wire.close();
}

/// Lets all clients work on the broker at this address until each has so many confirms, and ends it by `kill` while they do.
pub fn work_until_kill(ledger: &KillLedger, address: SocketAddr, confirms: u64, kill: impl FnOnce()) {
    ledger.begin_life();
    thread::scope(|scope| {
        for client in CLIENTS {
            scope.spawn(move || client(ledger, address));
        }
        ledger.wait_for_confirms(CLIENTS.len(), confirms);
        ledger.end_life();
        kill();
    });
}

/// Consumes everything in a queue, or reads a stream from its first message on.
pub fn read_to_the_end(ledger: &KillLedger, address: SocketAddr, queue: usize) {
    if is_stream(queue) {
        return streams::read_to_the_end(ledger, address, queue);
    }
    amqp091::read_to_the_end(ledger, address, queue);
}
