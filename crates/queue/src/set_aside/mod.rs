//! Messages that stay in their queue and that no consumer gets: parked ones, delayed ones, and those that are fetched by a token.

mod deferred;
mod delayed;
mod parked;

pub(crate) use deferred::{Claims, Deferred};
pub use delayed::Delayed;
pub(crate) use delayed::push_delayed;
pub use parked::Parked;
