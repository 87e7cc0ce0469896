//! The broker is killed repeatedly under a mixed load of both protocols: confirmed messages are there afterwards, and
//! messages with confirmed settlement aren't. `LEVERET_KILL_ROUNDS` is the number of kills (20).

use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::kill_load::{QUEUES, declare, ledger, read_to_the_end, work_until_kill};
use leveret_tests::node::{Node, Options};
use leveret_tests::random::Random;
use leveret_tests::wire::Wire;

#[test]
fn confirmed_messages_survive_every_kill() {
    if is_given() {
        return;
    }
    let rounds: usize = std::env::var("LEVERET_KILL_ROUNDS").map_or(20, |rounds| rounds.parse().expect("a number"));
    // Small files, so that some are retired in every round.
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", 256 << 10));
    declare(node.amqp());
    let ledger = ledger();
    let mut random = Random::new(0x1eaf);
    let mut starts = Vec::new();
    for round in 0..rounds {
        let address = node.amqp();
        work_until_kill(&ledger, address, 50 + random.below(1_500) as u64, || node.kill());
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
        read_to_the_end(&ledger, node.amqp(), queue);
    }
    conservation::check(&node.http());
    let totals = ledger.judge();
    assert!(node.terminate().success());
    starts.sort_unstable();
    let (median, longest) = (starts[starts.len() / 2], starts[starts.len() - 1]);
    println!("{rounds} kills: {totals}; accepting again after {median:?}, at most {longest:?}");
    assert!(totals.confirms >= 50 * rounds as u64 && totals.settles > 0);
    // The median: a single start may have been delayed by the machine.
    assert!(median < Duration::from_secs(1), "half of the starts took {median:?} or longer");
}
