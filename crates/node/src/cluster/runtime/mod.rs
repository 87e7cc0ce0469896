//! The runtime of the Raft engine: tokio's in the cluster's thread, with timers on a grid.

mod channels;

use std::future::Future;
use std::time::{Duration, Instant};

use leveret_cluster::runtime::AsyncRuntime;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::runtime::Builder;
use tokio::task::{JoinError, JoinHandle, LocalSet};
use tokio::time::error::Elapsed;
use tokio::time::{Sleep, Timeout};

use self::channels::{Mpsc, Mutex, Oneshot, Watch};
use super::thread::spawn;
use crate::random;

/// Timers end at multiples of this time, so that all placements tick in one wake.
const GRID: Duration = Duration::from_millis(20);

thread_local! {
    static ORIGIN: Instant = Instant::now();
}

/// The next time on the grid that isn't before `deadline`; one that has passed stays as it is.
fn on_grid(deadline: Instant) -> tokio::time::Instant {
    let rounded = ORIGIN.with(|origin| {
        let since = deadline.saturating_duration_since(*origin);
        let rest = since.as_nanos() % GRID.as_nanos();
        match rest {
            0 => deadline,
            rest if deadline > Instant::now() => deadline + GRID - Duration::from_nanos(rest as u64),
            _ => deadline,
        }
    });
    rounded.into()
}

/// A time so long from now, on the grid. Far ones are as good as never.
fn after(duration: Duration) -> tokio::time::Instant {
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    on_grid(Instant::now() + duration.min(NEVER))
}

/// The runtime that placements are generic over.
#[derive(Debug)]
pub(crate) struct NodeRuntime(tokio::runtime::Runtime);

impl AsyncRuntime for NodeRuntime {
    type JoinError = JoinError;
    type JoinHandle<T: 'static> = JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = Instant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R>> = Timeout<T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = Mpsc;
    type Watch = Watch;
    type Oneshot = Oneshot;
    type Mutex<T: 'static> = Mutex<T>;

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + 'static,
        T::Output: 'static,
    {
        spawn(future)
    }

    fn sleep(duration: Duration) -> Sleep {
        tokio::time::sleep_until(after(duration))
    }

    fn sleep_until(deadline: Instant) -> Sleep {
        tokio::time::sleep_until(on_grid(deadline))
    }

    fn timeout<R, F: Future<Output = R>>(duration: Duration, future: F) -> Timeout<F> {
        tokio::time::timeout_at(after(duration), future)
    }

    fn timeout_at<R, F: Future<Output = R>>(deadline: Instant, future: F) -> Timeout<F> {
        tokio::time::timeout_at(on_grid(deadline), future)
    }

    fn is_panic(error: &JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> SmallRng {
        let mut seed = [0; 8];
        random::fill(&mut seed).expect("the system gives random bytes");
        SmallRng::seed_from_u64(u64::from_le_bytes(seed))
    }

    fn new(_: usize) -> Self {
        NodeRuntime(Builder::new_current_thread().enable_all().build().expect("a runtime"))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        LocalSet::new().block_on(&self.0, future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_end_together_and_never_early() {
        let now = Instant::now();
        let ends: Vec<_> = (0..40u64).map(|ms| (ms, after(Duration::from_millis(ms)).into_std())).collect();
        for (ms, end) in &ends {
            let (due, late) = (now + Duration::from_millis(*ms), Duration::from_millis(*ms) + GRID);
            assert!(*end >= due && *end <= Instant::now() + late, "{ms}");
        }
        let mut different: Vec<_> = ends.into_iter().skip(1).map(|(_, end)| end).collect();
        different.dedup();
        assert!(different.len() <= 4, "{different:?}");
    }
}
