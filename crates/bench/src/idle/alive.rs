//! Heartbeats of idle connections.

use std::thread;
use std::time::{Duration, Instant};

use super::opened::IdleConnection;
use crate::BenchError;
use crate::round::{Load, start};

/// Number of threads that share the connections.
const KEEPERS: usize = 2;
/// Interval of looking for due connections, so that thousands aren't checked for each.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits for `time` and keeps the connections alive, in the order in which they were opened.
pub(super) fn keep<L: Load>(connections: &mut [IdleConnection<L>], time: Duration) -> Result<(), BenchError> {
    let end = Instant::now() + time;
    let share = connections.len().div_ceil(KEEPERS).max(1);
    thread::scope(|scope| {
        let shares = connections.chunks_mut(share);
        let threads: Result<Vec<_>, BenchError> =
            shares.map(|share| start(scope, move || keep_until(share, end))).collect();
        threads?.into_iter().try_for_each(|thread| thread.join().expect("no keeper panics"))
    })
}

fn keep_until<L: Load>(connections: &mut [IdleConnection<L>], end: Instant) -> Result<(), BenchError> {
    loop {
        let now = Instant::now();
        for held in connections.iter_mut().filter(|held| held.due.is_some_and(|due| due <= now)) {
            held.socket.client.send_heartbeat();
            held.socket.flush()?;
            // Reads what the broker has sent meanwhile: its own heartbeats.
            held.socket.take_what_came()?;
            held.due = held.due.zip(held.socket.client.heartbeat_every()).map(|(due, every)| due + every);
        }
        let next = connections.iter().filter_map(|held| held.due).min().unwrap_or(end);
        let until = next.max(now + LOOK_EVERY).min(end);
        if until <= now {
            return Ok(());
        }
        thread::sleep(until - now);
    }
}
