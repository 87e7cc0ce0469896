use leveret_tests::container::Image;
use leveret_tests::http::Http;
use leveret_tests::kill_load::{QUEUES, declare, ledger, read_to_the_end, work_until_kill};
use leveret_tests::{conservation, random::Random};

use super::{HOME, Volume};

/// Kills if `LEVERET_KILL_ROUNDS` doesn't say how many.
const ROUNDS: usize = 5;

/// The load of `kill_loop`, on containers that replace each other on a volume.
#[test]
fn confirmed_messages_survive_every_kill_of_their_container() {
    let Some(image) = Image::load() else { return };
    let rounds = std::env::var("LEVERET_KILL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let (volume, ledger) = (Volume::new(), ledger());
    let mut random = Random::new(0x1ea2);
    let start = |round: usize| image.start(&[&volume.at(HOME), &format!("--hostname=life-{round}")], &[]).ready();
    let mut container = start(0);
    declare(container.address(5672));
    for round in 1..=rounds {
        let address = container.address(5672);
        work_until_kill(&ledger, address, 50 + random.below(500) as u64, || container.kill());
        drop(container);
        container = start(round);
        if !ledger.is_well() {
            break;
        }
    }
    ledger.begin_life();
    for queue in 0..QUEUES.len() {
        read_to_the_end(&ledger, container.address(5672), queue);
    }
    conservation::check(&Http::guest(container.address(15672).to_string()));
    let totals = ledger.judge();
    println!("{rounds} kills of a container: {totals}");
    assert!(totals.confirms >= 50 * rounds as u64 && totals.settles > 0);
}
