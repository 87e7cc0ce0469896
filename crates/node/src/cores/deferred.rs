use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use leveret_broker::{Broker, Nanos, Wake};

use super::Core;
use super::precise::PreciseTimer;
use super::wake::TaskWake;

/// Deadlines of queues within this time share one wake-up: at most 200 wake-ups a second, and no message expires later
/// by more.
const TICK_NS: Nanos = 5_000_000;

/// The task for deferred work of the queues with this home core: one task per core, one piece of work per turn.
///
/// It has a timer of its own, since the core's wheel has the coarse resolution of connection timeouts: a message would
/// expire up to a tenth of a second late.
pub(crate) struct DeferredTask {
    core: Arc<Core>,
    broker: Arc<Broker>,
    timer: PreciseTimer,
}

impl DeferredTask {
    /// Serves `core` until its runtime ends.
    pub(crate) async fn serve(core: Arc<Core>, broker: Arc<Broker>) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let wake = Arc::new(TaskWake::new(waker, core.mailbox.clone()));
        if core.index == 0 {
            let wake = wake.clone();
            broker.notices.set_wake(Box::new(move || wake.wake()));
        }
        broker.deferred.set_wake(core.index, wake);
        Self { core, broker, timer: PreciseTimer::default() }.await;
    }

    /// Arms the wake-up for the next due work. True if something is due already.
    fn arm(&mut self, cx: &mut Context<'_>) -> bool {
        let deadline = self.broker.deferred.next_deadline(self.core.index);
        let at = deadline.map(|deadline| deadline.div_ceil(TICK_NS).saturating_mul(TICK_NS));
        self.timer.is_due(at, &self.core.clock, cx)
    }
}

impl Future for DeferredTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.core.collect_mail();
        let now = self.core.clock.now();
        if self.broker.deferred_turn(self.core.index, now) || self.arm(cx) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
