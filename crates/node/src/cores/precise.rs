//! A timer to the millisecond, for those to whom the core's wheel, with its resolution of connection timeouts, is too coarse.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use leveret_broker::Nanos;
use tokio::time::{Sleep, sleep_until};

use crate::clock::Clock;

/// A timer of one task, which owns memory only while it is armed.
#[derive(Default)]
pub(super) struct PreciseTimer(Option<(Nanos, Pin<Box<Sleep>>)>);

impl PreciseTimer {
    /// Arms it for `at`, or disarms it. True, and disarmed, if that time has come; otherwise the task is woken then.
    pub(super) fn is_due(&mut self, at: Option<Nanos>, clock: &Clock, cx: &mut Context<'_>) -> bool {
        let Some(at) = at else {
            self.0 = None;
            return false;
        };
        let sleep = match &mut self.0 {
            Some((armed, sleep)) => {
                if *armed != at {
                    *armed = at;
                    sleep.as_mut().reset(clock.instant(at).into());
                }
                sleep
            }
            None => &mut self.0.insert((at, Box::pin(sleep_until(clock.instant(at).into())))).1,
        };
        let is_due = sleep.as_mut().poll(cx).is_ready();
        if is_due {
            self.0 = None;
        }
        is_due
    }
}
