//! A prefetch that the consumers of a channel share: `basic.qos` with the flag `global`, see
//! `deprecated_features.permit.global_qos`.

use super::parked::Parked;

/// The state of a channel's shared prefetch.
#[derive(Default)]
pub(crate) struct SharedPrefetch {
    /// Number of deliveries that may be unacknowledged together. Never 0.
    limit: u16,
    /// Number of unacknowledged deliveries that count against it, those of an open transaction included.
    held: usize,
    /// Consumers that wait until the client settles one of these.
    parked: Parked,
}

impl SharedPrefetch {
    /// A prefetch of `limit`, of which `held` deliveries are unacknowledged.
    pub(super) fn new(limit: u16, held: usize, parked: Parked) -> Self {
        Self { limit, held, parked }
    }

    /// Number of deliveries that may be unacknowledged together.
    pub(super) fn limit(&self) -> u16 {
        self.limit
    }

    /// Deliveries were sent that count against it.
    pub(super) fn delivered(&mut self, count: usize) {
        self.held += count;
    }

    /// A delivery that counted against it isn't with the client any more.
    #[inline]
    pub(super) fn left(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// The consumers that wait until the client settles something.
    pub(super) fn parked_mut(&mut self) -> &mut Parked {
        &mut self.parked
    }

    /// It ends. Returns the consumers that wait.
    pub(super) fn into_parked(self) -> Parked {
        self.parked
    }

    /// Number of further deliveries that it allows.
    pub(super) fn room(&self) -> u32 {
        u32::try_from(usize::from(self.limit).saturating_sub(self.held)).unwrap_or(0)
    }
}
