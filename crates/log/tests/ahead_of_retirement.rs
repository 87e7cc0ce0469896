//! Commits that are faster than the retirement of the oldest file are slowed down with it, instead of being stopped at its end.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body};
use leveret_log::{Lane, LogId, MemoryDisk, Options, Wait};

const A: LogId = LogId(1);
const BODY_BYTES: usize = 256 << 10;
/// A step of a retirement copies a mebibyte; this is twice as much.
const COMMITS_PER_STEP: usize = 8;

#[test]
fn commits_never_stop_for_the_rest_of_a_retirement() {
    let options = Options { file_bytes: 32 << 20, unretired_max: 2, node_id: 7, ..Options::default() };
    let mut driver = Driver::open(MemoryDisk::new(), options);
    let (mut number, mut stop, mut longest) = (0, 0, 0);
    while driver.log.statistics().retirements < 3 {
        let mut committed = 0;
        for _ in 0..COMMITS_PER_STEP {
            if driver.log.durable() == driver.log.appended() {
                number += 1;
                driver.publish(A, &[body(A, number, BODY_BYTES)], Wait::Confirm);
                driver.now += 2_000_000;
            }
            while driver.step(Lane::Commit) {}
            committed += usize::from(driver.log.durable() == driver.log.appended());
        }
        let is_retiring = driver.step(Lane::Background);
        stop = if committed == 0 && is_retiring { stop + 1 } else { 0 };
        longest = longest.max(stop);
    }
    // Without it there are 32: half of the file, and what comes after the copies.
    assert!(longest <= 2, "{longest} steps of retirements without a commit");
}
