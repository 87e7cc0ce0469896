//! Whether panics unwind in this binary, as it was linked and stripped: the packages are checked by it.

use std::panic::{catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Notes that the stack above it was cleaned up.
struct Guard<'a>(&'a AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Succeeds if a panic runs what it leaves behind, and is caught.
pub(crate) fn check() -> ExitCode {
    let cleaned_up = AtomicBool::new(false);
    let caught = catch_unwind(|| {
        let _guard = Guard(&cleaned_up);
        resume_unwind(Box::new(()));
    });
    match caught.is_err() && cleaned_up.load(Ordering::Relaxed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
