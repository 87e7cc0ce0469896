//! A value that another thread gives to a task.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

struct Promised<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// A function that any thread may call, and the future of its argument. The future never ends if the function isn't called.
pub(super) fn promise<T: Send + 'static>() -> (impl FnOnce(T) + Send + 'static, impl Future<Output = T>) {
    let promised = Arc::new(Mutex::new(Promised { value: None, waker: None }));
    let giver = promised.clone();
    let give = move |value| {
        let waker = {
            let mut promised = giver.lock();
            promised.value = Some(value);
            promised.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    };
    let given = poll_fn(move |context| {
        let mut promised = promised.lock();
        match promised.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                promised.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    });
    (give, given)
}
