//! A prefetch that the consumers of a channel share: `basic.qos` with the flag `global`, see
//! `deprecated_features.permit.global_qos`.

use super::parked::Parked;

/// The state of a channel's shared prefetch.
#[derive(Default)]
pub(crate) struct SharedPrefetch {
    /// Number of deliveries that may be unacknowledged together. Never 0.
    pub(super) limit: u16,
    /// Number of unacknowledged deliveries that count against it, those of an open transaction included.
    pub(super) held: usize,
    /// Consumers that wait until the client settles one of these.
    pub(super) parked: Parked,
}

impl SharedPrefetch {
    /// Number of further deliveries that it allows.
    pub(super) fn room(&self) -> u32 {
        u32::try_from(usize::from(self.limit).saturating_sub(self.held)).unwrap_or(0)
    }
}
