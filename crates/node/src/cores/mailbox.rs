use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Tasks of one core that other threads want to be polled.
///
/// Waking a task of another thread's runtime costs a system call each time, even if that thread is busy and would check
/// by itself. So other threads leave a note here. The core checks it before every connection's turn and before it
/// sleeps, and only a sleeping core is woken, once.
///
/// It is generic over its lock and flags, so that the hand-off can be explored with `shuttle`.
#[derive(Debug)]
pub(crate) struct Mailbox<T, F = AtomicBool, L = Mutex<Vec<T>>> {
    parked: F,
    waiting: F,
    list: L,
    _of: std::marker::PhantomData<fn(T)>,
}

/// A flag shared by threads.
pub(crate) trait Flag: Default {
    fn store(&self, value: bool);
    fn load(&self) -> bool;
    fn swap(&self, value: bool) -> bool;
}

/// A list behind a lock.
pub(crate) trait Locked<T>: Default {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<T>) -> R) -> R;
}

impl<T, F: Flag, L: Locked<T>> Mailbox<T, F, L> {
    pub(crate) fn new() -> Self {
        Self { parked: F::default(), waiting: F::default(), list: L::default(), _of: std::marker::PhantomData }
    }

    /// Leaves a note. True if the core sleeps and the caller has to wake it.
    #[must_use]
    pub(crate) fn post(&self, note: T) -> bool {
        self.list.with(|list| {
            list.push(note);
            self.waiting.store(true);
        });
        self.parked.swap(false)
    }

    /// Takes all notes. Costs one load if there are none.
    pub(crate) fn collect(&self) -> Vec<T> {
        if !self.waiting.load() {
            return Vec::new();
        }
        self.list.with(|list| {
            self.waiting.store(false);
            std::mem::take(list)
        })
    }

    /// Has to be called when the core is about to sleep. Gives `deliver` the notes that came before it was known to sleep, since nothing
    /// will wake it for those. It may sleep even so: a note for a task that has ended makes nothing ready. So it counts as asleep when
    /// this returns, whatever was delivered.
    pub(crate) fn park(&self, mut deliver: impl FnMut(Vec<T>)) {
        loop {
            self.parked.store(true);
            let notes = self.list.with(|list| {
                self.waiting.store(false);
                std::mem::take(list)
            });
            if notes.is_empty() {
                return;
            }
            // Notes that are posted meanwhile need no wake-up.
            self.parked.store(false);
            deliver(notes);
        }
    }

    /// Has to be called when the core runs again, for whatever reason.
    pub(crate) fn unparked(&self) -> Vec<T> {
        self.parked.store(false);
        self.collect()
    }
}

impl Flag for AtomicBool {
    fn store(&self, value: bool) {
        AtomicBool::store(self, value, Ordering::SeqCst);
    }
    fn load(&self) -> bool {
        AtomicBool::load(self, Ordering::SeqCst)
    }
    fn swap(&self, value: bool) -> bool {
        AtomicBool::swap(self, value, Ordering::SeqCst)
    }
}

impl<T> Locked<T> for Mutex<Vec<T>> {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<T>) -> R) -> R {
        f(&mut self.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shuttle::sync::atomic::AtomicBool as ExploredFlag;
    use shuttle::sync::{Condvar as ExploredCondvar, Mutex as ExploredMutex};

    use super::*;

    impl Flag for ExploredFlag {
        fn store(&self, value: bool) {
            ExploredFlag::store(self, value, Ordering::SeqCst);
        }
        fn load(&self) -> bool {
            ExploredFlag::load(self, Ordering::SeqCst)
        }
        fn swap(&self, value: bool) -> bool {
            ExploredFlag::swap(self, value, Ordering::SeqCst)
        }
    }

    impl<T> Locked<T> for ExploredMutex<Vec<T>> {
        fn with<R>(&self, f: impl FnOnce(&mut Vec<T>) -> R) -> R {
            f(&mut self.lock().expect("not poisoned"))
        }
    }

    type Explored = Mailbox<u32, ExploredFlag, ExploredMutex<Vec<u32>>>;

    #[test]
    fn a_note_to_an_awake_core_needs_no_wake_up() {
        let mailbox: Mailbox<u32> = Mailbox::new();
        assert!(!mailbox.post(1));
        assert_eq!(mailbox.collect(), [1]);
        mailbox.park(|_| panic!("there are none"));
        assert!(mailbox.post(2), "the core sleeps now");
        assert!(!mailbox.post(3), "and is roused once");
        assert_eq!(mailbox.unparked(), [2, 3]);
    }

    #[test]
    fn a_core_that_sleeps_after_notes_is_roused() {
        let mailbox: Mailbox<u32> = Mailbox::new();
        assert!(!mailbox.post(1));
        let mut delivered = Vec::new();
        mailbox.park(|notes| {
            // Work of this thread leaves another one.
            if notes == [1] {
                assert!(!mailbox.post(2));
            }
            delivered.extend(notes);
        });
        assert_eq!(delivered, [1, 2]);
        assert!(mailbox.post(3), "the tasks of the first two may have ended");
        assert_eq!(mailbox.unparked(), [3]);
    }

    /// Explores every interleaving of two posting threads with a core that checks, parks and sleeps: the core ends up
    /// with all notes. A lost wake-up leaves it asleep, which shuttle reports as a deadlock.
    #[test]
    fn no_note_is_left_with_a_sleeping_core() {
        shuttle::check_random(
            || {
                let mailbox = Arc::new(Explored::new());
                // Stands for the eventfd that wakes a core blocked in epoll.
                let eventfd = Arc::new((ExploredMutex::new(false), ExploredCondvar::new()));
                let posters: Vec<_> = (0..2u32)
                    .map(|poster| {
                        let (mailbox, eventfd) = (mailbox.clone(), eventfd.clone());
                        shuttle::thread::spawn(move || {
                            for n in 0..3 {
                                if mailbox.post(poster * 10 + n) {
                                    *eventfd.0.lock().expect("not poisoned") = true;
                                    eventfd.1.notify_one();
                                }
                            }
                        })
                    })
                    .collect();
                let mut seen = Vec::new();
                while seen.len() < 6 {
                    seen.extend(mailbox.collect());
                    // The tasks of even notes have ended: these don't keep the core awake.
                    let mut is_ready = false;
                    mailbox.park(|notes| {
                        is_ready |= notes.iter().any(|note| note % 2 == 1);
                        seen.extend(notes);
                    });
                    if is_ready {
                        seen.extend(mailbox.unparked());
                        continue;
                    }
                    if seen.len() == 6 {
                        break;
                    }
                    let mut roused = eventfd.0.lock().expect("not poisoned");
                    while !*roused {
                        roused = eventfd.1.wait(roused).expect("not poisoned");
                    }
                    *roused = false;
                    drop(roused);
                    seen.extend(mailbox.unparked());
                }
                posters.into_iter().for_each(|p| p.join().expect("no panic"));
                seen.sort_unstable();
                assert_eq!(seen, [0, 1, 2, 10, 11, 12]);
            },
            2_000,
        );
    }
}
