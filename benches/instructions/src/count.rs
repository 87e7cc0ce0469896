//! What callgrind counts, and what it doesn't.

use std::hint::black_box;

/// Does `work`, which is counted.
pub(crate) fn count<R>(work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let mut result = None;
    counted_by_callgrind(&mut || result = work.take().map(|work| work()));
    result.expect("it was done")
}

/// Callgrind counts between its entry and its return (`--toggle-collect`): it has one symbol, whatever is counted.
#[inline(never)]
fn counted_by_callgrind(work: &mut dyn FnMut()) {
    work();
    // Without something behind it the call would become a jump.
    black_box(());
}
