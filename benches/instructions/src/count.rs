//! Delimits the code that callgrind counts.

use std::hint::black_box;

/// Runs `work`, which is counted.
pub(crate) fn count<R>(work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let mut result = None;
    counted_by_callgrind(&mut || result = work.take().map(|work| work()));
    result.expect("it was done")
}

/// Callgrind counts between its entry and its return (`--toggle-collect`): the symbol is the same for all work.
#[inline(never)]
fn counted_by_callgrind(work: &mut dyn FnMut()) {
    work();
    // Without code after it the call would become a jump.
    black_box(());
}
