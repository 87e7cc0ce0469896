//! Drops all connections at once, and measures new logins meanwhile and the memory that the broker frees.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::opened::IdleConnection;
use crate::BenchError;
use crate::measured::histogram;
use crate::opening::Opening;
use crate::process::Memory;
use crate::round::{Load, start};
use crate::target::TargetBroker;

/// Timeout for the broker to free the memory of dropped connections.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// Interval of reading its memory.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Least duration of measuring new logins.
const LOGINS: Duration = Duration::from_secs(2);
/// Number of threads that close sockets.
const DROPPERS: usize = 8;

/// The result of dropping all connections.
pub(super) struct Dropped {
    /// Time until the last socket was closed.
    pub(super) time: Duration,
    /// Durations in nanoseconds of new logins while the broker cleaned up.
    pub(super) logins: Histogram<u64>,
    /// Time until nine tenths of the growth were freed; `None` if not within 10 s.
    pub(super) release_time: Option<Duration>,
}

/// Drops all connections. `grown` is the broker's memory without connections and with them.
pub(super) fn drop_all<L: Load>(
    mut connections: Vec<IdleConnection<L>>,
    target: &TargetBroker,
    grown: Option<(Memory, Memory)>,
) -> Result<Dropped, BenchError> {
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    thread::scope(|scope| {
        let logins = start(scope, move || log_in_until::<L>(target, is_over))?;
        let dropped = Instant::now();
        let share = connections.len().div_ceil(DROPPERS).max(1);
        let mut droppers = Vec::new();
        while !connections.is_empty() {
            let share = connections.split_off(connections.len().saturating_sub(share));
            droppers.push(start(scope, move || drop(share)));
        }
        let closed = droppers.into_iter().try_for_each(|dropper| {
            dropper?.join().expect("no dropper panics");
            Ok(())
        });
        let time = dropped.elapsed();
        let mut release_time = None;
        while closed.is_ok() && dropped.elapsed() < RELEASE_PATIENCE {
            if release_time.is_none() && is_given_back(target, grown) {
                release_time = Some(dropped.elapsed());
            }
            // Freed memory is always read at the same time after the drop, however soon most of it was freed.
            if grown.is_none() && dropped.elapsed() >= LOGINS {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        is_over.store(true, Ordering::Release);
        let logins = logins.join().expect("no login panics")?;
        closed.map(|()| Dropped { time, logins, release_time })
    })
}

/// Whether nine tenths of the growth are freed.
fn is_given_back(target: &TargetBroker, grown: Option<(Memory, Memory)>) -> bool {
    let now = target.processes.memory();
    let given_back = grown.zip(now).map(|((before, open), now)| {
        let growth = open.resident.saturating_sub(before.resident);
        now.resident.saturating_sub(before.resident) * 10 <= growth
    });
    given_back == Some(true)
}

/// Logs in repeatedly, one connection at a time. There are few logins, so that they don't keep the broker busy.
fn log_in_until<L: Load>(target: &TargetBroker, is_over: &AtomicBool) -> Result<Histogram<u64>, BenchError> {
    let mut times = histogram();
    while !is_over.load(Ordering::Acquire) {
        let start = Instant::now();
        let connection = L::open(target, &Opening::of("new"))?;
        times.saturating_record(start.elapsed().as_nanos() as u64);
        L::close(connection)?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(times)
}
