//! Messages that are stored once for many queues.
//!
//! A message that goes to many queues, or a large one that goes to several, is logged once, in the shared log; each queue's log
//! has a record that refers to it. [`References`] is one queue's part: it maps the queue's numbers to numbers of the shared
//! log. [`SharedCounts`] is the node's part: the number of queues that still have each shared message. Both are rebuilt from
//! the logs after a restart, so a release needs no record of its own.

mod counts;
mod record;
mod references;

pub use counts::SharedCounts;
pub use record::{ReferenceError, ReferenceRecord, encode_reference};
pub use references::{References, SharedPlace};
