//! Work that queues leave for their home core: moving dead letters.
//!
//! Every queue has a home core, by its id; whoever finds that there is something to do leaves the queue there, and the
//! core comes to it between its connections' turns, a bounded piece at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leveret_message::Batch;
use parking_lot::{Mutex, RwLock};

use crate::outbox::Wake;
use crate::queue_handle::QueueRef;

/// Bytes of messages that a length limit refused and that wait for a core to be dead-lettered; more are dropped.
const REFUSED_BYTES_MAX: u64 = 16 << 20;

/// Messages that a queue refused (`x-overflow=reject-publish-dlx`): they were never in it.
pub(crate) struct Refused {
    pub queue: QueueRef,
    pub batch: Arc<Batch>,
    pub index: u32,
    pub count: u32,
}

impl Refused {
    fn bytes(&self) -> u64 {
        self.batch.body_bytes(self.index as usize, self.count as usize) + 64 * u64::from(self.count)
    }
}

/// One piece of work.
pub(crate) enum Work {
    /// This queue has dead letters.
    DeadLetters(QueueRef),
    Refused(Refused),
}

#[derive(Default)]
struct Waiting {
    queues: VecDeque<QueueRef>,
    refused: VecDeque<Refused>,
    refused_bytes: u64,
    /// Nothing can be done before the core is woken.
    blocked: bool,
}

#[derive(Default)]
struct CoreWork {
    waiting: Mutex<Waiting>,
    wake: RwLock<Option<Arc<dyn Wake>>>,
}

/// See the module.
pub struct Deferred {
    cores: Box<[CoreWork]>,
    dropped: AtomicU64,
}

impl Deferred {
    /// For this many cores.
    pub fn new(cores: usize) -> Self {
        let cores = (0..cores.max(1)).map(|_| CoreWork::default()).collect();
        Self { cores, dropped: AtomicU64::new(0) }
    }

    /// Sets who is woken when there is work for a core.
    pub fn set_wake(&self, core: usize, wake: Arc<dyn Wake>) {
        *self.cores[core].wake.write() = Some(wake);
        self.wake(core);
    }

    /// Whether a core has something to do.
    pub fn has_work(&self, core: usize) -> bool {
        let waiting = self.cores[core].waiting.lock();
        !waiting.blocked && !(waiting.queues.is_empty() && waiting.refused.is_empty())
    }

    /// Messages that were refused faster than they could be dead-lettered, and dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn home(&self, queue: &QueueRef) -> usize {
        let id = queue.info().id.0;
        (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.cores.len()
    }

    /// `queue` has dead letters to be moved. It asks once until its turn has come.
    pub(crate) fn request(&self, queue: &QueueRef) {
        let core = self.home(queue);
        self.cores[core].waiting.lock().queues.push_back(queue.clone());
        self.wake_if_able(core);
    }

    /// A queue refused messages, which are dead letters now.
    pub(crate) fn refuse(&self, refused: Refused) {
        let core = self.home(&refused.queue);
        let mut waiting = self.cores[core].waiting.lock();
        let bytes = waiting.refused_bytes + refused.bytes();
        if bytes > REFUSED_BYTES_MAX {
            self.dropped.fetch_add(u64::from(refused.count), Ordering::Relaxed);
            return;
        }
        waiting.refused_bytes = bytes;
        waiting.refused.push_back(refused);
        drop(waiting);
        self.wake_if_able(core);
    }

    fn wake_if_able(&self, core: usize) {
        if self.has_work(core)
            && let Some(wake) = &*self.cores[core].wake.read()
        {
            wake.wake();
        }
    }

    /// Whether refused messages still wait.
    pub(crate) fn has_refused(&self) -> bool {
        self.cores.iter().any(|core| !core.waiting.lock().refused.is_empty())
    }

    /// The core may look again.
    pub(crate) fn wake(&self, core: usize) {
        self.cores[core].waiting.lock().blocked = false;
        self.wake_if_able(core);
    }

    /// Nothing can be done until [`Deferred::wake`].
    pub(crate) fn block(&self, core: usize) {
        self.cores[core].waiting.lock().blocked = true;
    }

    /// The next piece of work of a core, of at most `most` messages.
    pub(crate) fn next(&self, core: usize, most: u32) -> Option<Work> {
        let mut waiting = self.cores[core].waiting.lock();
        if let Some(refused) = waiting.refused.pop_front() {
            waiting.refused_bytes -= refused.bytes();
            if refused.count <= most {
                return Some(Work::Refused(refused));
            }
            let Refused { queue, batch, index, count } = refused;
            let rest = Refused { queue: queue.clone(), batch: batch.clone(), index: index + most, count: count - most };
            waiting.refused_bytes += rest.bytes();
            waiting.refused.push_front(rest);
            return Some(Work::Refused(Refused { queue, batch, index, count: most }));
        }
        waiting.queues.pop_front().map(Work::DeadLetters)
    }
}
