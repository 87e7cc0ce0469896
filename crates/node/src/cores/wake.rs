use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use leveret_broker::Wake;

use super::mailbox::Mailbox;

thread_local! {
    /// Address of the mailbox of the core that runs on this thread; 0 elsewhere.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// The tasks of one core that other threads want to be polled.
pub(crate) type WakeMailbox = Mailbox<Arc<Note>>;

/// Wakes a connection's task for the broker, from any thread.
#[derive(Debug)]
pub(crate) struct TaskWake {
    note: Arc<Note>,
    mailbox: Arc<WakeMailbox>,
}

/// A task that has to be polled; it is in its core's mailbox at most once.
#[derive(Debug)]
pub(crate) struct Note {
    waker: Waker,
    posted: AtomicBool,
}

impl TaskWake {
    /// `waker` is the task's own: a task's waker stays the same for its life.
    pub(crate) fn new(waker: Waker, mailbox: Arc<WakeMailbox>) -> Self {
        Self { note: Arc::new(Note { waker, posted: AtomicBool::new(false) }), mailbox }
    }
}

impl Wake for TaskWake {
    fn wake(&self) {
        let here = HERE.get() == Arc::as_ptr(&self.mailbox) as usize;
        let rouse = here || (!self.note.posted.swap(true, Ordering::AcqRel) && self.mailbox.post(self.note.clone()));
        if rouse {
            self.note.waker.wake_by_ref();
        }
    }
}

/// Registers this thread as the one of the core with that mailbox.
pub(crate) fn enter(mailbox: &Arc<WakeMailbox>) {
    HERE.set(Arc::as_ptr(mailbox) as usize);
}

/// Unregisters this thread as a core's.
pub(crate) fn leave() {
    HERE.set(0);
}

/// Whether a core runs on this thread.
pub(crate) fn is_core() -> bool {
    HERE.get() != 0
}

/// Schedules the tasks of these notes. The swap pairs with the one in `wake`: a thread that found `posted` set has
/// already written the data for the task, and the poll that follows sees it.
pub(crate) fn deliver(notes: Vec<Arc<Note>>) {
    for note in notes {
        note.posted.swap(false, Ordering::AcqRel);
        note.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn parts() -> (Arc<Count>, Arc<WakeMailbox>, TaskWake) {
        let (count, mailbox) = (Arc::new(Count::default()), Arc::new(Mailbox::new()));
        let wake = TaskWake::new(Waker::from(count.clone()), mailbox.clone());
        (count, mailbox, wake)
    }

    #[test]
    fn a_task_woken_often_leaves_an_awake_core_one_note() {
        let (count, mailbox, wake) = parts();
        (0..5).for_each(|_| wake.wake());
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        let notes = mailbox.collect();
        assert_eq!(notes.len(), 1);
        deliver(notes);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        wake.wake();
        assert_eq!(mailbox.collect().len(), 1, "a delivered note can be posted again");
    }

    #[test]
    fn a_sleeping_core_is_roused_through_the_tasks_waker() {
        let (count, mailbox, wake) = parts();
        mailbox.park(deliver);
        wake.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn on_its_own_core_a_task_is_woken_at_once() {
        let (count, mailbox, wake) = parts();
        enter(&mailbox);
        wake.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(mailbox.collect().is_empty());
    }
}
