//! Wake-ups: the run queues of the virtual cores, and of the disk lanes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use leveret_broker::Wake;

/// Runs woken tasks in order, as a core's runtime does.
#[derive(Debug, Default)]
struct Core {
    queue: VecDeque<usize>,
}

/// All cores. A task is in its core's queue at most once.
#[derive(Debug)]
pub struct Cores {
    cores: Mutex<Vec<Core>>,
}

impl Cores {
    /// This many cores, without tasks.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { cores: Mutex::new((0..count).map(|_| Core::default()).collect()) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Core>> {
        self.cores.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// Number of cores.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The core that a task runs on.
    #[must_use]
    pub fn home(&self, task: usize) -> usize {
        task % self.count()
    }

    /// Schedules a task.
    pub fn wake(&self, task: usize) {
        let mut cores = self.lock();
        let count = cores.len();
        let queue = &mut cores[task % count].queue;
        if !queue.contains(&task) {
            queue.push_back(task);
        }
    }

    /// Calls `call` with each core that has tasks to run, in order.
    pub fn for_each_busy(&self, call: impl FnMut(usize)) {
        let cores = self.lock();
        (0..cores.len()).filter(|core| !cores[*core].queue.is_empty()).for_each(call);
    }

    /// The next task of a core.
    #[must_use]
    pub fn next(&self, core: usize) -> Option<usize> {
        self.lock()[core].queue.pop_front()
    }
}

/// Wakes one task.
#[derive(Debug)]
pub struct TaskWake {
    /// All cores.
    pub cores: Arc<Cores>,
    /// The task.
    pub task: usize,
}

impl Wake for TaskWake {
    fn wake(&self) {
        self.cores.wake(self.task);
    }
}

/// Wakes a disk lane.
#[derive(Debug, Default)]
pub struct LaneWake(AtomicBool);

impl LaneWake {
    /// Whether it was woken; clears that.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }

    /// Wakes the lane again by itself.
    pub fn wake_again(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was woken.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for LaneWake {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_woken_twice_runs_once() {
        let cores = Cores::new(2);
        for task in [2, 1, 2, 4] {
            TaskWake { cores: cores.clone(), task }.wake();
        }
        let busy = || {
            let mut busy = Vec::new();
            cores.for_each_busy(|core| busy.push(core));
            busy
        };
        assert_eq!(busy(), [0, 1]);
        assert_eq!((cores.next(0), cores.next(0), cores.next(0)), (Some(2), Some(4), None));
        assert_eq!(busy(), [1]);
    }
}
