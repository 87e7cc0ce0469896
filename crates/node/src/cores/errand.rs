//! What a core does itself once its tasks have nothing to do, instead of waking a thread for it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::wake;

/// How often in a row an errand may lead to the next.
const ROUNDS_MAX: u32 = 4;
/// How many turns of connections an errand waits for at most, while the core doesn't get to sleep.
const TURNS_MAX: u32 = 16;

/// Something short that many may ask for and that is done once.
pub(crate) trait Errand: Send + Sync {
    /// Does it, on a core's thread.
    fn run(&self);

    /// The core has no time for it.
    fn hand_over(&self);
}

thread_local! {
    static ERRAND: RefCell<Option<Arc<dyn Errand>>> = const { RefCell::new(None) };
    /// Turns since it was left.
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

/// Leaves it to this thread, if that is a core's. There is one kind of errand: who finds one left needs no other.
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

/// Before the core sleeps. True when there was something to do: tasks may be ready now.
pub(super) fn run() -> bool {
    for round in 0..ROUNDS_MAX {
        // Taken first: to run it may leave the next.
        let Some(errand) = ERRAND.take() else { return round > 0 };
        errand.run();
    }
    hand_over();
    true
}

/// Nothing that is left is run here.
pub(super) fn hand_over() {
    if let Some(errand) = ERRAND.take() {
        errand.hand_over();
    }
}

/// A connection's turn begins.
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

    /// Asks for itself again so many times.
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
    fn it_is_run_once_before_the_core_sleeps_however_often_it_was_asked_for() {
        let errand = Counted::again(0);
        assert!(!ask(&errand), "this is no core");
        enter_a_core();
        assert!((0..3).all(|_| ask(&errand)));
        assert_eq!(errand.counts(), (0, 0));
        assert!(run() && !run());
        assert_eq!(errand.counts(), (1, 0));
    }

    #[test]
    fn what_leads_to_itself_is_left_to_others_in_the_end() {
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
    fn a_core_that_never_sleeps_runs_it_too() {
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
    fn who_leaves_hands_it_over() {
        enter_a_core();
        let errand = Counted::again(0);
        assert!(ask(&errand));
        wake::leave();
        hand_over();
        assert_eq!(errand.counts(), (0, 1));
        assert!(!ask(&errand));
    }
}
