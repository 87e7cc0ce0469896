//! Switches for planted bugs: tests show that the tests see them. Without the feature `planted-bugs` none of them has
//! an effect.

use std::cell::Cell;

thread_local! {
    static FIRST_QUEUE_CONFIRMS: Cell<bool> = const { Cell::new(false) };
}

/// Makes this thread confirm a fan-out when the first of its queues has it.
pub fn plant_first_queue_confirms(on: bool) {
    FIRST_QUEUE_CONFIRMS.set(on);
}

pub(crate) fn first_queue_confirms() -> bool {
    cfg!(feature = "planted-bugs") && FIRST_QUEUE_CONFIRMS.get()
}
