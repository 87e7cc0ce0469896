//! Work that is done as a whole: a panic in the middle would leave something half changed that everything depends on.

/// Does `work`; if it panics, calls `on_panic` before anything above it handles the panic.
#[inline]
pub(crate) fn whole<R>(on_panic: impl FnOnce(), work: impl FnOnce() -> R) -> R {
    struct Unfinished<F: FnOnce()>(Option<F>);

    impl<F: FnOnce()> Drop for Unfinished<F> {
        fn drop(&mut self) {
            if let Some(on_panic) = self.0.take() {
                on_panic();
            }
        }
    }

    let mut unfinished = Unfinished(Some(on_panic));
    let result = work();
    unfinished.0 = None;
    result
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_is_noticed_and_a_result_is_not() {
        let noticed = Cell::new(0);
        let note = || noticed.set(noticed.get() + 1);
        assert_eq!(whole(note, || 7), 7);
        assert_eq!(noticed.get(), 0);
        let result = catch_unwind(AssertUnwindSafe(|| whole(note, || panic!("in the middle"))));
        assert!(result.is_err());
        assert_eq!(noticed.get(), 1);
    }
}
