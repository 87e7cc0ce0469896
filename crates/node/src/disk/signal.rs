use std::time::Instant;

use leveret_broker::Wake;
use parking_lot::{Condvar, Mutex};

/// Wakes a waiting thread; a wake-up before the wait isn't lost.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Waits until it was raised since the last wait, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        let mut raised = self.raised.lock();
        while !*raised {
            match deadline {
                None => self.changed.wait(&mut raised),
                Some(deadline) => {
                    if self.changed.wait_until(&mut raised, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        *raised = false;
    }
}

impl Wake for Signal {
    fn wake(&self) {
        let mut raised = self.raised.lock();
        if !*raised {
            *raised = true;
            drop(raised);
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_wake_before_the_wait_is_not_lost_and_counts_once() {
        let signal = Signal::default();
        signal.wake();
        signal.wake();
        signal.wait(None);
        signal.wait(Some(Instant::now()));
    }

    #[test]
    fn a_waiting_thread_is_woken_by_another() {
        let signal = Arc::new(Signal::default());
        let waiting = signal.clone();
        let thread = std::thread::spawn(move || waiting.wait(None));
        signal.wake();
        thread.join().expect("no panic");
    }
}
