//! The hand-off between cores: a list of items with a wake-up that can't be lost.
//!
//! A pusher has to wake the owner if it isn't woken yet; the owner takes all items and resets that state in one step. The
//! mailbox is generic over its lock, so that `shuttle` explores every interleaving of the production code (tests/mailbox.rs).

/// A mutual exclusion lock with only the functions that the mailbox needs.
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

/// The data behind the lock.
#[derive(Debug)]
pub struct Inner<T> {
    items: Vec<T>,
    /// Whether the owner was woken and hasn't drained the mailbox since.
    woken: bool,
}

/// A list of items for an owner, with its wake-up.
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
    /// Adds an item. Returns true if the caller has to wake the owner.
    #[must_use = "an owner that isn't woken never comes"]
    pub fn push(&self, item: T) -> bool {
        self.inner.with(|inner| {
            inner.items.push(item);
            !std::mem::replace(&mut inner.woken, true)
        })
    }

    /// Moves all items to the end of `out`; the next push has to wake the owner again.
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

/// Switches for planted bugs: tests prove that other tests detect them.
pub mod planted {
    use std::cell::Cell;

    thread_local! {
        static LOST_WAKEUP: Cell<bool> = const { Cell::new(false) };
    }

    /// Makes [`super::Mailbox::drain`] on this thread take the items and reset the wake-up in two steps. Without the feature
    /// `planted-bugs` this has no effect.
    pub fn plant_lost_wakeup(on: bool) {
        LOST_WAKEUP.set(on);
    }

    pub(super) fn lost_wakeup() -> bool {
        LOST_WAKEUP.get()
    }
}
