use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The number of the node's connections, so that a stop can wait for the last one.
#[derive(Debug, Default)]
pub(crate) struct Population {
    count: Mutex<usize>,
    empty: Condvar,
}

/// One connection that is counted as long as this lives.
#[derive(Debug)]
pub(crate) struct Member(Arc<Population>);

impl Population {
    pub(crate) fn join(self: &Arc<Self>) -> Member {
        *self.count.lock() += 1;
        Member(self.clone())
    }

    /// Number of connections.
    pub(crate) fn count(&self) -> usize {
        *self.count.lock()
    }

    /// Waits until there is none, for `patience` at most. Returns the number that is left.
    pub(crate) fn wait_until_empty(&self, patience: Duration) -> usize {
        let end = Instant::now() + patience;
        let mut count = self.count.lock();
        while *count > 0 && !self.empty.wait_until(&mut count, end).timed_out() {}
        *count
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        *count -= 1;
        if *count == 0 {
            self.0.empty.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_last_member() {
        let population = Arc::new(Population::default());
        let (first, second) = (population.join(), population.join());
        assert_eq!(population.wait_until_empty(Duration::ZERO), 2);
        drop(first);
        let other = std::thread::spawn(move || drop(second));
        assert_eq!(population.wait_until_empty(Duration::from_secs(60)), 0);
        other.join().expect("no panic");
    }
}
