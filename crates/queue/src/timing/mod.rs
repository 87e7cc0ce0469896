//! Times at which messages are due: of expiry, of delays, and the clock of a queue that says when to look next.

mod clock;
mod expiry;
mod times;

pub(crate) use clock::Clock;
pub(crate) use expiry::Due;
pub use expiry::{Expiry, ExpiryStateError};
pub(crate) use times::Times;
