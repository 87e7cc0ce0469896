//! The hand-off between cores: items with a wake-up that cannot be lost.
//!
//! Whoever pushes into a mailbox that nobody was woken for has to wake its owner; the owner takes all
//! items and the duty to wake in one step. Generic over its lock, so that `shuttle` explores every
//! interleaving of the very code that runs (tests/mailbox.rs).

/// A mutual exclusion lock, as narrow as the mailbox needs it.
pub trait Lock<T> {
    /// A lock around `value`.
    fn new(value: T) -> Self;
    /// Runs `call` with the lock held.
    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> Lock<T> for parking_lot::Mutex<T> {
    fn new(value: T) -> Self {
        parking_lot::Mutex::new(value)
    }

    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.lock())
    }
}

/// What the lock guards.
#[derive(Debug)]
pub struct Inner<T> {
    items: Vec<T>,
    /// The owner was woken and hasn't come yet.
    woken: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Mailbox<T, L> {
    inner: L,
    item: core::marker::PhantomData<fn(T)>,
}

impl<T, L: Lock<Inner<T>>> Default for Mailbox<T, L> {
    fn default() -> Self {
        Self { inner: L::new(Inner { items: Vec::new(), woken: false }), item: core::marker::PhantomData }
    }
}

impl<T, L: Lock<Inner<T>>> Mailbox<T, L> {
    /// Adds an item. True when the caller has to wake the owner.
    #[must_use = "an owner that isn't woken never comes"]
    pub fn push(&self, item: T) -> bool {
        self.inner.with(|inner| {
            inner.items.push(item);
            !std::mem::replace(&mut inner.woken, true)
        })
    }

    /// Moves all items to the end of `out`; the next push has to wake again.
    pub fn drain(&self, out: &mut Vec<T>) {
        if cfg!(feature = "planted-bugs") && planted::lost_wakeup() {
            self.inner.with(|inner| out.append(&mut inner.items));
            self.inner.with(|inner| inner.woken = false);
            return;
        }
        self.inner.with(|inner| {
            out.append(&mut inner.items);
            inner.woken = false;
        });
    }
}

/// Switches for planted bugs: tests show that the tests see them.
pub mod planted {
    use std::cell::Cell;

    thread_local! {
        static LOST_WAKEUP: Cell<bool> = const { Cell::new(false) };
    }

    /// Makes [`super::Mailbox::drain`] on this thread take the items and the duty to wake in two steps.
    /// Without the feature `planted-bugs` this has no effect.
    pub fn plant_lost_wakeup(on: bool) {
        LOST_WAKEUP.set(on);
    }

    pub(super) fn lost_wakeup() -> bool {
        LOST_WAKEUP.get()
    }
}
