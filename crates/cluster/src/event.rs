//! Something that tasks of one thread wait for.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A counter that tasks of one thread wait for.
#[derive(Debug, Default)]
pub(crate) struct Happening {
    count: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
}

impl Happening {
    /// It happens: everybody who waits goes on.
    pub(crate) fn happen(&self) {
        self.count.set(self.count.get() + 1);
        std::mem::take(&mut *self.wakers.borrow_mut()).into_iter().for_each(Waker::wake);
    }

    /// How often it happened so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Waits until it has happened more often than that.
    pub(crate) async fn more_than(&self, count: u64) {
        poll_fn(|context| {
            if self.count.get() > count {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
