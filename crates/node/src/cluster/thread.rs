//! The thread of the cluster.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, LocalSet};

use crate::disk::Fatal;

const NAME: &str = "leveret-cluster";

/// Threads for names that are resolved, at most.
const BLOCKING_THREADS: usize = 4;

/// Work for the thread; `None` ends it.
type Work = Option<Box<dyn FnOnce() + Send>>;

thread_local! {
    static FATAL: RefCell<Option<Fatal>> = const { RefCell::new(None) };
}

/// The thread that all placements and links of a node are in. Its tasks end with it.
#[derive(Debug)]
pub(crate) struct ClusterThread {
    work: UnboundedSender<Work>,
    thread: Option<thread::JoinHandle<()>>,
}

impl ClusterThread {
    /// Starts it. `main` begins there; other work may come before its end, and after it.
    ///
    /// # Errors
    /// The system provides no thread.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        fatal: &Fatal,
        main: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<ClusterThread> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
        let (work, orders) = unbounded_channel();
        let fatal = fatal.clone();
        let whole = move || {
            FATAL.set(Some(fatal.clone()));
            let tasks = LocalSet::new();
            let run = AssertUnwindSafe(|| {
                tasks.block_on(&runtime, async move {
                    spawn(main());
                    take(orders).await;
                });
                drop(tasks);
            });
            if catch_unwind(run).is_err() {
                fatal(&panicked());
            }
            // Names that are being resolved aren't waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(NAME.to_owned()).spawn(whole)?;
        Ok(ClusterThread { work, thread: Some(thread) })
    }

    /// Runs work there, which may spawn tasks. Nothing happens if the thread has ended.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let _ = self.work.send(Some(Box::new(work)));
    }

    /// A clone for others that have work for it.
    pub(crate) fn remote(&self) -> ClusterRemote {
        ClusterRemote(self.work.clone())
    }

    /// Ends it with all its tasks.
    pub(crate) fn stop(&mut self) {
        let _ = self.work.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for ClusterThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The way to the thread for other threads.
#[derive(Clone, Debug)]
pub(crate) struct ClusterRemote(UnboundedSender<Work>);

impl ClusterRemote {
    /// Runs work there, which may spawn tasks. Nothing happens if the thread has ended.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let _ = self.0.send(Some(Box::new(work)));
    }
}

async fn take(mut orders: UnboundedReceiver<Work>) {
    while let Some(Some(work)) = orders.recv().await {
        work();
    }
}

fn panicked() -> String {
    format!("the thread {NAME} panicked (see the lines before); the node stops")
}

/// Ends the node if it is dropped by a panic.
struct EndsOnPanic;

impl Drop for EndsOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            FATAL.with_borrow(|fatal| fatal.iter().for_each(|fatal| fatal(&panicked())));
        }
    }
}

/// Spawns a task of the thread. If it panics, the node ends: a placement without one of its tasks would stand still, and nobody would
/// notice.
pub(crate) fn spawn<F: Future + 'static>(task: F) -> JoinHandle<F::Output> {
    let guard = EndsOnPanic;
    tokio::task::spawn_local(async move {
        let _guard = guard;
        task.await
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_in_a_task_of_the_cluster_ends_the_node() {
        let (told, texts) = mpsc::channel();
        let fatal: Fatal = Arc::new(move |text: &str| told.send(text.to_owned()).expect("the test listens"));
        let thread = ClusterThread::start(&fatal, || async {}).expect("a thread");
        let (done, is_done) = mpsc::channel();
        thread.run(move || {
            spawn(async {
                spawn(async { panic!("on purpose") });
            });
            done.send(()).expect("the test listens");
        });
        is_done.recv().expect("work is done");
        assert!(texts.recv().expect("the node ends").contains("leveret-cluster panicked"));
        drop(thread);
        assert!(texts.try_recv().is_err(), "it is said once");
    }
}
