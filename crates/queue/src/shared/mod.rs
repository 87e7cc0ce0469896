//! Messages that stand once for many queues.
//!
//! A message that goes to many queues, or a large one that goes to several, is logged once, in the shared log, and each
//! queue's log has a record that refers to it. [`References`] is what one queue knows of that: which of its numbers are
//! which of the shared log. [`SharedCounts`] is what the node knows: how many queues still have each shared message. Both
//! are rebuilt from the logs after a restart, so that a release needs no record of its own.

mod counts;
mod record;
mod references;

pub use counts::SharedCounts;
pub use record::{ReferenceError, ReferenceRecord, encode_reference};
pub use references::{References, SharedPlace};
