//! The use of a file by readers and senders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The use of a file. It stays as it is as long as there are clones of this. Once a part of it was lent, it is never
/// written again: packets that wait for their acknowledgement refer to the very pages of the page cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pin(Arc<AtomicBool>);

impl Pin {
    /// Whether there are clones.
    pub(crate) fn is_shared(&self) -> bool {
        let is_shared = Arc::strong_count(&self.0) > 1;
        // Everything that the owner of the last clone did comes before what follows.
        fence(Ordering::Acquire);
        is_shared
    }

    /// Notes that others send parts of the file by themselves.
    pub(crate) fn note_lent(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether nobody reads the file, or sends parts of it.
    pub(crate) fn may_be_written(&self) -> bool {
        !self.is_shared() && !self.0.load(Ordering::Relaxed)
    }
}
