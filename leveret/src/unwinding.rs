//! A check that panics unwind in this binary, as it was linked and stripped; used to check the packages.

use std::panic::{catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Records that the stack above it was unwound.
struct Guard<'a>(&'a AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Succeeds if a panic runs destructors and is caught.
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
