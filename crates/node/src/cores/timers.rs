use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leveret_broker::Nanos;
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep_until};

use super::wheel::Wheel;
use crate::clock::Clock;

/// The deadlines of one core's connections: one wheel and one timer of the runtime for all of them.
#[derive(Debug)]
pub(crate) struct Timers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    wheel: Wheel<Waker>,
    driver: Option<Waker>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { wheel: Wheel::new(), driver: None }) }
    }

    /// Wakes `waker` at `deadline` or up to a tenth of a second later.
    pub(crate) fn arm(&self, deadline: Nanos, waker: Waker) {
        let driver = {
            let mut state = self.state.lock();
            if !state.wheel.insert(deadline, waker) {
                return;
            }
            state.driver.clone()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Fires what is due and says when the next slot is, for the driver `waker`.
    fn fire(&self, now: Nanos, driver: &Waker) -> Option<Nanos> {
        let mut due = Vec::new();
        let next = {
            let mut state = self.state.lock();
            state.wheel.expire(now, &mut due);
            if !state.driver.as_ref().is_some_and(|d| d.will_wake(driver)) {
                state.driver = Some(driver.clone());
            }
            state.wheel.next_due()
        };
        due.into_iter().for_each(Waker::wake);
        next
    }
}

/// Runs the wheel of a core: sleeps until the next slot that holds something, for ever when none does.
pub(crate) struct Driver {
    timers: Arc<Timers>,
    clock: Clock,
    sleep: Option<(Nanos, Pin<Box<Sleep>>)>,
}

impl Driver {
    pub(crate) fn new(timers: Arc<Timers>, clock: Clock) -> Self {
        Self { timers, clock, sleep: None }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        loop {
            let Some(next) = driver.timers.fire(driver.clock.monotonic(), cx.waker()) else {
                driver.sleep = None;
                return Poll::Pending;
            };
            if driver.sleep.as_ref().is_none_or(|(at, _)| *at != next) {
                driver.sleep = Some((next, Box::pin(sleep_until(driver.clock.instant(next).into()))));
            }
            match driver.sleep.as_mut().map(|(_, sleep)| sleep.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => driver.sleep = None,
                _ => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    struct Notifies(Notify);

    impl std::task::Wake for Notifies {
        fn wake(self: Arc<Self>) {
            self.0.notify_one();
        }
    }

    #[tokio::test]
    async fn a_deadline_that_was_armed_while_the_driver_slept_fires() {
        let (clock, timers) = (Clock::start(), Arc::new(Timers::new()));
        let driver = tokio::spawn(Driver::new(timers.clone(), clock));
        let far = Arc::new(Notifies(Notify::new()));
        timers.arm(3_600_000_000_000, far.clone().into());
        tokio::task::yield_now().await;
        let near = Arc::new(Notifies(Notify::new()));
        timers.arm(200_000_000, near.clone().into());
        near.0.notified().await;
        assert!(clock.monotonic() >= 200_000_000);
        driver.abort();
    }
}
