//! The broker is killed over and over under a mixed load of both protocols: what it confirmed is there afterwards, and
//! what it confirmed to be settled isn't. `LEVERET_KILL_ROUNDS` is how often (20).

mod kill_loop {
    pub(crate) mod amqp091;
    pub(crate) mod amqp10;
}

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use kill_loop::{amqp10, amqp091};
use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::kill_ledger::KillLedger;
use leveret_tests::node::{Node, Options};
use leveret_tests::random::Random;
use leveret_tests::wire::{Wire, Writer, method};

/// The queues by their number in the ledger, and who publishes to them.
pub(crate) const QUEUES: [(&str, u8); 6] =
    [("acknowledged", 0), ("settled", 1), ("tx-in", 2), ("tx-out", 3), ("fan-1", 4), ("fan-2", 4)];
pub(crate) const ACKNOWLEDGED: usize = 0;
pub(crate) const SETTLED: usize = 1;
pub(crate) const TX_IN: usize = 2;
pub(crate) const TX_OUT: usize = 3;
const FAN: [usize; 2] = [4, 5];

type Client = fn(&KillLedger, SocketAddr);
const CLIENTS: [Client; 10] = [
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

#[test]
fn what_was_confirmed_survives_every_kill() {
    if is_given() {
        return;
    }
    let rounds: usize = std::env::var("LEVERET_KILL_ROUNDS").map_or(20, |rounds| rounds.parse().expect("a number"));
    // Files so small that some are retired in every round.
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", 256 << 10));
    declare(&node);
    let ledger = KillLedger::new(QUEUES.len());
    let mut random = Random::new(0x1eaf);
    let mut starts = Vec::new();
    for round in 0..rounds {
        ledger.begin_life();
        thread::scope(|scope| {
            let address = node.amqp();
            for client in CLIENTS {
                let ledger = &ledger;
                scope.spawn(move || client(ledger, address));
            }
            ledger.wait_for_confirms(CLIENTS.len(), 50 + random.below(1_500) as u64);
            ledger.end_life();
            node.kill();
        });
        if round % 5 == 4 {
            // Recovery is killed too.
            node.start_and_kill();
        }
        let begin = Instant::now();
        node.restart();
        drop(Wire::open(node.amqp()));
        starts.push(begin.elapsed());
        if !ledger.is_well() {
            break;
        }
    }
    ledger.begin_life();
    for queue in 0..QUEUES.len() {
        amqp091::read_to_the_end(&ledger, node.amqp(), queue);
    }
    conservation::check(&node.http());
    let totals = ledger.judge();
    assert!(node.terminate().success());
    starts.sort_unstable();
    let (median, longest) = (starts[starts.len() / 2], starts[starts.len() - 1]);
    println!(
        "{rounds} kills: {} messages confirmed, none lost; {} settlements confirmed, none undone; {} unconfirmed ones came \
         back, all flagged; accepting again after {median:?}, at most {longest:?}",
        totals.confirms, totals.settles, totals.returned
    );
    assert!(totals.confirms >= 50 * rounds as u64 && totals.settles > 0);
    // The half of them: one may have had to wait for the machine.
    assert!(median < Duration::from_secs(1), "half of the starts took {median:?} or longer");
}

fn declare(node: &Node) {
    let mut wire = Wire::open(node.amqp());
    for (queue, _) in QUEUES {
        wire.declare(1, queue, true);
    }
    for queue in FAN {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(QUEUES[queue].0).put_short_string("amq.fanout").put_short_string("");
        arguments.put_octet(0).put_empty_table();
        wire.call(1, method::QUEUE_BIND, &arguments, method::QUEUE_BIND_OK);
    }
    wire.close();
}
