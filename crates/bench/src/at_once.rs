//! Runs a step for each of many connections, several at a time: a broker may take a tenth of a second for one.

use std::thread;

use crate::BenchError;
use crate::round::start;

/// Number of concurrent steps.
const AT_ONCE: usize = 32;

/// Runs a step for each of `these`, and returns the results in order.
///
/// # Errors
/// The first error in order; steps that haven't begun by then aren't begun.
pub(crate) fn some_at_once<T: Send, R: Send>(
    these: impl IntoIterator<Item = T>,
    step: impl Fn(T) -> Result<R, BenchError> + Sync,
) -> Result<Vec<R>, BenchError> {
    let (mut these, step) = (these.into_iter().peekable(), &step);
    let mut all = Vec::new();
    while these.peek().is_some() {
        let some: Result<Vec<R>, BenchError> = thread::scope(|scope| {
            let begin = |one| start(scope, move || step(one));
            let begun: Result<Vec<_>, BenchError> = these.by_ref().take(AT_ONCE).map(begin).collect();
            begun?.into_iter().map(|one| one.join().expect("no step panics")).collect()
        });
        all.extend(some?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn some_run_concurrently_and_results_are_in_order() {
        // A step that ran alone would block here forever.
        let barrier = Barrier::new(AT_ONCE);
        let done = some_at_once(0..AT_ONCE * 2, |number| {
            barrier.wait();
            Ok(number)
        });
        assert_eq!(done.expect("all of them"), (0..AT_ONCE * 2).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_ends_the_steps() {
        let begun = AtomicUsize::new(0);
        let failed = some_at_once(0..1_000, |number| {
            begun.fetch_add(1, Ordering::Relaxed);
            if number < 3 { Ok(()) } else { Err(BenchError::Void(format!("of {number}"))) }
        });
        assert_eq!(failed.expect_err("it failed").to_string(), "the run is void: of 3");
        assert_eq!(begun.into_inner(), AT_ONCE);
    }
}
