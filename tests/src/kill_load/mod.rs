//! The mixed load under which a broker is killed: clients of both protocols that publish with confirms and settle
//! with and without confirmation, all recorded in the [`KillLedger`].

mod amqp091;
mod amqp10;

use std::net::SocketAddr;

pub use self::amqp091::read_to_the_end;
use crate::kill_ledger::KillLedger;
use crate::node::Node;
use crate::wire::{Wire, Writer, method};

/// The queues by their number in the ledger, each with its publisher. Every second one is a quorum queue.
pub const QUEUES: [(&str, u8); 6] =
    [("acknowledged", 0), ("settled", 1), ("tx-in", 2), ("tx-out", 3), ("fan-1", 4), ("fan-2", 4)];
const ACKNOWLEDGED: usize = 0;
const SETTLED: usize = 1;
const TX_IN: usize = 2;
const TX_OUT: usize = 3;
const FAN: [usize; 2] = [4, 5];

fn is_quorum(queue: usize) -> bool {
    queue % 2 == 1
}

/// An empty ledger of these queues.
pub fn ledger() -> KillLedger {
    // A quorum queue flags by counts, and those of the last moments before a kill may be lost.
    KillLedger::new(QUEUES.len(), |queue| !is_quorum(queue))
}

/// A client, which works until its socket fails.
pub type LoadClient = fn(&KillLedger, SocketAddr);

/// All clients.
pub const CLIENTS: [LoadClient; 10] = [
    |ledger, address| amqp091::publish_to(ledger, address, "", &[ACKNOWLEDGED]),
    |ledger, address| amqp091::publish_to(ledger, address, "", &[TX_IN]),
    |ledger, address| amqp091::publish_to(ledger, address, "amq.fanout", &FAN),
    |ledger, address| amqp10::publish_to(ledger, address, SETTLED),
    |ledger, address| amqp091::acknowledge(ledger, address, ACKNOWLEDGED),
    |ledger, address| amqp091::acknowledge(ledger, address, TX_OUT),
    |ledger, address| amqp091::acknowledge(ledger, address, FAN[0]),
    |ledger, address| amqp091::acknowledge(ledger, address, FAN[1]),
    |ledger, address| amqp091::move_in_transactions(ledger, address, TX_IN, TX_OUT),
    |ledger, address| amqp10::settle_and_wait(ledger, address, SETTLED),
];

/// Declares the queues.
///
/// # Panics
/// When the broker refuses.
pub fn declare(node: &Node) {
    let mut wire = Wire::open(node.amqp());
    for (number, (queue, _)) in QUEUES.into_iter().enumerate() {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_octet(2);
        arguments.put_string_table(&[("x-queue-type", if is_quorum(number) { "quorum" } else { "classic" })]);
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
