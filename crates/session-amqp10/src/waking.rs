//! Sessions whose parked consumers are being woken.

/// A session whose parked consumers are being woken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waking {
    pub(super) channel: u16,
    /// Number of consumers that are woken next.
    pub(super) next: usize,
    /// Number of consumers that haven't been woken yet.
    pub(super) left: usize,
}
