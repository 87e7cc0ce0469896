//! A fault of the model that tests plant to show that other tests detect it.

use std::cell::Cell;

thread_local! {
    static GIVES_NUMBERS_AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// Plants in this thread that the number of a member that was forgotten is given to the next one, or removes that.
pub fn plant_numbers_given_again(is_planted: bool) {
    GIVES_NUMBERS_AGAIN.set(is_planted);
}

pub(crate) fn gives_numbers_again() -> bool {
    GIVES_NUMBERS_AGAIN.get()
}
