use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use leveret_broker::Broker;

use super::Core;
use super::wake::TaskWake;

/// What queues leave for their home core: one task per core, a piece of work for each of its turns.
pub(crate) struct DeferredTask {
    core: Arc<Core>,
    broker: Arc<Broker>,
}

impl DeferredTask {
    /// Serves `core` until its runtime ends.
    pub(crate) async fn serve(core: Arc<Core>, broker: Arc<Broker>) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let wake = Arc::new(TaskWake::new(waker, core.mailbox.clone()));
        broker.deferred.set_wake(core.index, wake);
        Self { core, broker }.await;
    }
}

impl Future for DeferredTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.core.collect_mail();
        if self.broker.deferred_turn(self.core.index, self.core.clock.now()) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
