//! Work that a core does itself once its tasks are idle, instead of waking a thread for it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::wake;

/// Largest number of errands in a row that lead to the next.
const ROUNDS_MAX: u32 = 4;
/// Largest number of connection turns that an errand waits for while the core doesn't sleep.
const TURNS_MAX: u32 = 16;

/// A short piece of work that may be requested many times and is done once.
pub(crate) trait Errand: Send + Sync {
    /// Does the work, on a core's thread.
    fn run(&self);

    /// Hands the work to another thread, since the core has no time for it.
    fn hand_over(&self);
}

thread_local! {
    static ERRAND: RefCell<Option<Arc<dyn Errand>>> = const { RefCell::new(None) };
    /// Turns since the errand was left.
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

/// Leaves the errand to this thread, if it is a core's. There is one kind of errand: if one is left already, no other
/// is needed.
pub(crate) fn ask(errand: &Arc<impl Errand + 'static>) -> bool {
    wake::is_core()
        && ERRAND.with_borrow_mut(|left| {
            if left.is_none() {
                TURNS.set(0);
                *left = Some(errand.clone());
            }
            true
        })
}

/// Runs the errand before the core sleeps. True if there was one: tasks may be ready now.
pub(super) fn run() -> bool {
    for round in 0..ROUNDS_MAX {
        // It is taken out first, because running it may leave the next one.
        let Some(errand) = ERRAND.take() else { return round > 0 };
        errand.run();
    }
    hand_over();
    true
}

/// Hands a remaining errand to another thread.
pub(super) fn hand_over() {
    if let Some(errand) = ERRAND.take() {
        errand.hand_over();
    }
}

/// Counts the begin of a connection's turn.
pub(super) fn turn() {
    TURNS.set(TURNS.get() + 1);
    if TURNS.get() >= TURNS_MAX {
        TURNS.set(0);
        run();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    /// The number of times that it requests itself again.
    #[derive(Default)]
    struct Counted {
        again: AtomicU32,
        ran: AtomicU32,
        handed_over: AtomicU32,
        own: std::sync::Weak<Counted>,
    }

    impl Counted {
        fn again(times: u32) -> Arc<Self> {
            Arc::new_cyclic(|own| Self { again: AtomicU32::new(times), own: own.clone(), ..Self::default() })
        }

        fn counts(&self) -> (u32, u32) {
            (self.ran.load(Relaxed), self.handed_over.load(Relaxed))
        }
    }

    impl Errand for Counted {
        fn run(&self) {
            self.ran.fetch_add(1, Relaxed);
            if self.again.load(Relaxed) > 0 {
                self.again.fetch_sub(1, Relaxed);
                assert!(ask(&self.own.upgrade().expect("it runs")));
            }
        }

        fn hand_over(&self) {
            self.handed_over.fetch_add(1, Relaxed);
        }
    }

    fn enter_a_core() {
        wake::enter(&Arc::new(wake::WakeMailbox::new()));
    }

    #[test]
    fn an_errand_requested_often_runs_once_before_the_core_sleeps() {
        let errand = Counted::again(0);
        assert!(!ask(&errand), "this is no core");
        enter_a_core();
        assert!((0..3).all(|_| ask(&errand)));
        assert_eq!(errand.counts(), (0, 0));
        assert!(run() && !run());
        assert_eq!(errand.counts(), (1, 0));
    }

    #[test]
    fn an_errand_that_requests_itself_is_finally_handed_over() {
        enter_a_core();
        let errand = Counted::again(2);
        assert!(ask(&errand) && run());
        assert_eq!(errand.counts(), (3, 0));
        let errand = Counted::again(u32::MAX);
        assert!(ask(&errand) && run());
        assert_eq!(errand.counts(), (ROUNDS_MAX, 1));
        assert!(!run());
    }

    #[test]
    fn a_core_that_never_sleeps_still_runs_its_errand() {
        enter_a_core();
        let errand = Counted::again(0);
        (0..TURNS_MAX).for_each(|_| turn());
        assert!(ask(&errand));
        (1..TURNS_MAX).for_each(|_| turn());
        assert_eq!(errand.counts(), (0, 0));
        turn();
        assert_eq!(errand.counts(), (1, 0));
    }

    #[test]
    fn a_core_that_stops_hands_its_errand_over() {
        enter_a_core();
        let errand = Counted::again(0);
        assert!(ask(&errand));
        wake::leave();
        hand_over();
        assert_eq!(errand.counts(), (0, 1));
        assert!(!ask(&errand));
    }
}
