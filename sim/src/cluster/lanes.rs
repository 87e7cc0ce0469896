//! The wake-ups of the lanes of a node's log.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

use leveret_log::Lane;

use super::executor::Sleep;

/// The lanes of a log that wait for jobs.
pub(super) struct Lanes {
    waiting: RefCell<Vec<Waker>>,
    is_changed: Cell<[bool; 2]>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes { waiting: RefCell::default(), is_changed: Cell::new([true; 2]) }
    }
}

impl Lanes {
    /// There may be jobs.
    pub(super) fn wake(&self) {
        self.is_changed.set([true; 2]);
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until the log may have a job for this lane, or until this time.
    pub(super) async fn changed(&self, lane: Lane, until: Option<u64>) {
        let lane = usize::from(lane == Lane::Background);
        let mut sleep = until.map(Sleep::until);
        poll_fn(|context| {
            let mut changed = self.is_changed.get();
            if std::mem::take(&mut changed[lane]) {
                self.is_changed.set(changed);
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            match &mut sleep {
                Some(sleep) => std::pin::Pin::new(sleep).poll(context),
                None => Poll::Pending,
            }
        })
        .await;
    }
}
