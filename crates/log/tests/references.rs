//! Messages whose bytes are stored in another log.

#[allow(dead_code)]
mod driver;

use driver::{Driver, body, check, small};
use leveret_log::{Job, JointRecord, LiveState, LogId, MemoryDisk, Next, Wait};

const A: LogId = LogId(1);
const B: LogId = LogId(2);

/// Appends three bodies once, and references to them in `A` and `B` under numbers of their own.
fn share(driver: &mut Driver, first_shared: u64, firsts: [(LogId, u64); 2]) {
    let bodies: Vec<_> = (0..3).map(|at| body(LogId(9), first_shared + at, 1000)).collect();
    driver.publish(LogId::SHARED, &bodies, Wait::Confirm);
    for (log, first) in firsts {
        let payload = first_shared.to_le_bytes();
        let position = driver.log.append_references(
            &JointRecord { log, first, messages: 3, payload: &payload },
            Wait::Confirm,
            driver.now,
        );
        let ledger = driver.ledgers.0.entry(log).or_default();
        ledger.next = first + 3;
        ledger.live.extend((first..first + 3).map(|number| (number, 0)));
        ledger.controls.push((0, payload.to_vec()));
        ledger.position = position;
    }
}

fn live(driver: &Driver, log: LogId) -> Vec<u64> {
    driver.ledgers.0[&log].live.keys().copied().collect()
}

#[test]
fn references_are_replayed_with_their_numbers() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    share(&mut driver, 1, [(A, 1), (B, 11)]);
    driver.settle(A, 2..=2);
    share(&mut driver, 4, [(A, 4), (B, 20)]);
    driver.settle_down();
    let driver = Driver::open(driver.disk.clone(), small());
    assert!(driver.report.damaged.is_empty());
    assert_eq!(live(&driver, A), [1, 3, 4, 5, 6]);
    assert_eq!(live(&driver, B), [11, 12, 13, 20, 21, 22]);
    let shared: Vec<u64> = driver.read(LogId::SHARED, 1, 4096).into_iter().map(|(number, _)| number).collect();
    assert_eq!(shared, [1, 2, 3, 4, 5, 6]);
    assert!(driver.log.plan_read(A, 1, 4096).is_none(), "nothing of it stands in its own log");
    assert!(check(&driver.disk, &small()).unwrap().is_sound());
}

#[test]
fn after_a_checkpoint_they_are_in_the_state_and_not_replayed() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    share(&mut driver, 1, [(A, 1), (B, 11)]);
    let others: Vec<_> = (1..=400).map(|number| body(B, number, 1000)).collect();
    for (at, other) in others.iter().enumerate() {
        driver.publish(LogId(3), std::slice::from_ref(other), Wait::Confirm);
        driver.settle(LogId(3), at as u64 + 1..=at as u64 + 1);
        driver.settle_down();
    }
    assert!(driver.log.statistics().retirements > 2);
    let driver = Driver::open(driver.disk.clone(), small());
    // The driver's replay asserts that no number comes twice.
    assert_eq!(live(&driver, A), [1, 2, 3]);
    assert_eq!(live(&driver, B), [11, 12, 13]);
    assert_eq!(driver.ledgers.0[&A].controls.len(), 1);
    assert_eq!(driver.read(LogId::SHARED, 1, 4096).len(), 3);
}

#[test]
fn a_retirement_waits_until_their_owner_counts_them() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    share(&mut driver, 1, [(A, 1), (B, 11)]);
    // The owner hasn't applied them yet.
    let next = std::mem::replace(&mut driver.ledgers.0.get_mut(&A).unwrap().next, 1);
    let hidden = std::mem::take(&mut driver.ledgers.0.get_mut(&A).unwrap().live);
    for number in 1..=300 {
        driver.publish(LogId(3), &[body(LogId(3), number, 1000)], Wait::Confirm);
        for _ in 0..20 {
            driver.step(leveret_log::Lane::Commit);
            driver.step(leveret_log::Lane::Background);
        }
        driver.now += 2_000_000;
    }
    assert_eq!(driver.log.statistics().retirements, 0);
    let ledger = driver.ledgers.0.get_mut(&A).unwrap();
    (ledger.next, ledger.live) = (next, hidden);
    driver.settle_down();
    assert!(driver.log.statistics().retirements > 0);
}

#[test]
fn owners_of_shared_messages_are_asked_for_the_shared_log() {
    let mut driver = Driver::open(MemoryDisk::new(), small());
    share(&mut driver, 1, [(A, 1), (B, 11)]);
    let mut asked = Vec::new();
    for number in 1..=300 {
        driver.publish(LogId(3), &[body(LogId(3), number, 1000)], Wait::Confirm);
        while driver.step(leveret_log::Lane::Commit) {}
        while let Next::Run(id, job) = driver.log.next_job(leveret_log::Lane::Background, driver.now) {
            let done = match &job {
                Job::Live { logs } => {
                    asked.extend(logs.clone());
                    let state = |log: &LogId| {
                        let ledger = &driver.ledgers.0[log];
                        let live = ledger.live.keys().copied().collect();
                        LiveState {
                            log: *log,
                            next: ledger.next,
                            position: ledger.position,
                            live,
                            ..LiveState::default()
                        }
                    };
                    leveret_log::Done::Live(logs.iter().map(state).collect())
                }
                job => job.run(&driver.disk).unwrap(),
            };
            driver.log.complete(id, Ok(done), driver.now).unwrap();
        }
    }
    for log in [LogId::SHARED, A, B, LogId(3)] {
        assert!(asked.contains(&log), "{log}");
    }
}
