use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use leveret_broker::{Broker, Nanos};

use super::Core;
use super::timers::Alarm;
use super::wake::TaskWake;

/// What queues leave for their home core: one task per core, a piece of work for each of its turns.
pub(crate) struct DeferredTask {
    core: Arc<Core>,
    broker: Arc<Broker>,
    alarm: Alarm,
    /// When the alarm wakes it.
    armed: Option<Nanos>,
}

impl DeferredTask {
    /// Serves `core` until its runtime ends.
    pub(crate) async fn serve(core: Arc<Core>, broker: Arc<Broker>) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let wake = Arc::new(TaskWake::new(waker, core.mailbox.clone()));
        broker.deferred.set_wake(core.index, wake);
        Self { alarm: core.timers.alarm(), core, broker, armed: None }.await;
    }
}

impl Future for DeferredTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.core.collect_mail();
        let now = self.core.clock.now();
        if self.broker.deferred_turn(self.core.index, now) {
            cx.waker().wake_by_ref();
        } else if let Some(deadline) = self.broker.deferred.next_deadline(self.core.index)
            && self.armed.is_none_or(|armed| armed > deadline || armed <= now.monotonic)
        {
            self.alarm.arm(deadline, cx.waker());
            self.armed = Some(deadline);
        }
        Poll::Pending
    }
}
