//! Filters, as users of the crate see them.

mod expressions;
mod message;
mod naive;
mod recorded;
