//! The thread on which backends wait for networks.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leveret_broker::asked::{AnswerPlace, Later, NowOrLater};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Longest time for a login or a question, whatever the settings of a backend are: clients give up soon after.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Threads that look names of hosts up.
const BLOCKING_THREADS_MAX: usize = 8;

/// A runtime of one thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LoginRuntime {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl LoginRuntime {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system provides none.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_keep_alive(Duration::from_secs(10))
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("leveret-logins".to_owned()).spawn(move || {
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Answers at once if `work` waits for nothing, otherwise later, from the thread. `late` is the answer after [`ANSWER_WITHIN`].
    pub(crate) fn answer<T: Send + 'static>(
        &self,
        ends: fn() -> (AnswerPlace<T>, Later<T>),
        late: fn() -> T,
        work: impl Future<Output = T> + Send + 'static,
    ) -> NowOrLater<T> {
        let mut work = Box::pin(work);
        // Before the first wait, no backend uses the runtime; it goes on from there.
        if let Poll::Ready(answer) = pin!(&mut work).poll(&mut Context::from_waker(Waker::noop())) {
            return NowOrLater::Now(answer);
        }
        let (place, later) = ends();
        self.handle.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_WITHIN, work).await;
            place.answer(answer.unwrap_or_else(|_| late()));
        });
        NowOrLater::Later(later)
    }
}

/// Leaves the core on which a question was asked. Every use of a network or clock begins with it.
pub(crate) async fn leave_core() {
    tokio::task::yield_now().await;
}
