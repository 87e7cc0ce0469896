//! The state of a link on which we send, as a flow tells it.

use leveret_amqp10::Serial;
use leveret_queue::CreditState;

/// The delivery-count that a receiver's first flow is compared with: every link of ours begins at 0.
pub(crate) const INITIAL_DELIVERY_COUNT: Serial = Serial(0);

/// The link part of a flow that we send as the link's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub handle: u32,
    pub delivery_count: u32,
    pub link_credit: u32,
    pub available: u32,
    pub drain: bool,
    /// Whether the receiver is active, if it has to be told.
    pub active: Option<bool>,
}

impl LinkState {
    pub(crate) fn new(handle: u32, state: &CreditState, drain: bool) -> Self {
        Self {
            handle,
            delivery_count: state.delivery_count,
            link_credit: state.credit,
            available: state.available,
            drain,
            active: None,
        }
    }

    /// The state that tells a receiver whether it is active.
    pub(crate) fn of_activity(handle: u32, state: &CreditState, active: bool) -> Self {
        Self { active: Some(active), ..Self::new(handle, state, false) }
    }
}
