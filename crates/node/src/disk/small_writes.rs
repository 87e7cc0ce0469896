use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use leveret_broker::streams::StoreId;
use leveret_broker::{Broker, Nanos, Wake};
use leveret_log::Disk;

use super::signal::Signal;
use super::threads::Fatal;
use crate::clock::Clock;
use crate::cores::errand::{self, Errand};

/// A write into the page cache takes some microseconds. A longer write than this one waits for something, and a core
/// has other work to do.
const SLOW_NS: Nanos = 1_000_000;
/// Time for which the commit lane does all writes after a slow one. It doubles after each write that was slow right
/// after such a time, up to 13 s.
const REST_NS: Nanos = 100_000_000;
const DOUBLINGS_MAX: u32 = 7;

/// Small writes that don't have to be synced: the core that appended does them before it sleeps. Waking the commit
/// lane, being woken by it and two task switches take ten times as long.
pub(super) struct SmallWrites(Arc<Writer>);

struct Writer {
    broker: Weak<Broker>,
    disk: Arc<dyn Disk>,
    clock: Clock,
    /// The signal of the commit lane.
    lane: Arc<Signal>,
    fatal: Fatal,
    rest: Rest,
}

/// The time for which the cores don't write.
#[derive(Debug, Default)]
struct Rest {
    until: AtomicU64,
    slow_in_a_row: AtomicU32,
}

impl Rest {
    fn lasts(&self, now: impl FnOnce() -> Nanos) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && now() < until
    }

    /// Notes a write of this duration, which ended at `now`.
    fn note(&self, took: Nanos, now: Nanos) {
        if took <= SLOW_NS {
            self.slow_in_a_row.store(0, Ordering::Relaxed);
            return;
        }
        let before = self.slow_in_a_row.fetch_add(1, Ordering::Relaxed);
        self.until.store(now + (REST_NS << before.min(DOUBLINGS_MAX)), Ordering::Relaxed);
    }
}

impl SmallWrites {
    pub(super) fn new(
        broker: &Arc<Broker>,
        disk: &Arc<dyn Disk>,
        clock: Clock,
        lane: Arc<Signal>,
        fatal: &Fatal,
    ) -> Self {
        let (broker, disk, fatal) = (Arc::downgrade(broker), disk.clone(), fatal.clone());
        Self(Arc::new(Writer { broker, disk, clock, lane, fatal, rest: Rest::default() }))
    }
}

impl Wake for SmallWrites {
    fn wake(&self) {
        let writer = &self.0;
        if writer.rest.lasts(|| writer.clock.monotonic()) || !errand::ask(writer) {
            writer.lane.wake();
        }
    }
}

impl Errand for Writer {
    fn run(&self) {
        let Some(broker) = self.broker.upgrade() else { return };
        let begin = self.clock.now();
        let Some((id, job)) = broker.next_small_write(StoreId::FIRST, begin) else { return self.hand_over() };
        let result = job.run(&*self.disk);
        // The log reuses the memory of written data.
        drop(job);
        let end = self.clock.now();
        self.rest.note(end.monotonic - begin.monotonic, end.monotonic);
        if let Err(error) = broker.complete(StoreId::FIRST, id, result, end) {
            (self.fatal)(&error.to_string());
        }
    }

    fn hand_over(&self) {
        self.lane.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Nanos = 1_000_000;

    #[test]
    fn cores_rest_longer_the_more_often_a_write_was_slow() {
        let rest = Rest::default();
        assert!(!rest.lasts(|| 0));
        rest.note(MILLISECOND, 5 * MILLISECOND);
        assert!(!rest.lasts(|| 5 * MILLISECOND));
        let mut now = 5 * MILLISECOND;
        for seconds in [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 12.8] {
            rest.note(2 * MILLISECOND, now);
            let until = now + (seconds * 1e9) as Nanos;
            assert!(rest.lasts(|| until - 1) && !rest.lasts(|| until), "{seconds}");
            now = until;
        }
        rest.note(MILLISECOND / 100, now);
        rest.note(2 * MILLISECOND, now);
        assert!(rest.lasts(|| now + 99 * MILLISECOND) && !rest.lasts(|| now + 100 * MILLISECOND));
    }
}
