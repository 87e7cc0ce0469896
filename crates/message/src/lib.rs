//! The one message form: what a publisher sent, kept as it was sent.
//!
//! A message keeps its publisher's encoding; conversion to another protocol happens on delivery only.
//! [`stored`] is the byte form that memory, write-ahead log and segments share, [`batch`] the unit in
//! which messages travel from a session through queues to other sessions, [`deaths`] what becomes of a
//! message that is dead-lettered. [`incoming`] checks what comes in, [`headers`] is what routing sees of it, and
//! [`deliver`] is how it goes out to receivers: verbatim to those of its publisher's protocol, to others through the one
//! [`hub`] form.
//!
//! This crate must not know queues, the log, sessions or any clock.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod batch;
pub mod deaths;
pub mod deliver;
pub mod envelope;
pub mod headers;
pub mod hub;
pub mod incoming;
pub mod overlay;
pub mod stamps;
pub mod stored;

pub use batch::{Batch, BatchBuilder, FileBody, MessageRef};
pub use deaths::{DeadLetter, Reason};
pub use envelope::{Encoding, Envelope};
pub use overlay::Overlay;
pub use stamps::{IfPresent, Stamps};
pub use stored::{StoredError, StoredMessage};
