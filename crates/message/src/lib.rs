//! The one message form: what a publisher sent, kept as it was sent.
//!
//! A message keeps its publisher's encoding; conversion to another protocol happens on delivery only.
//! [`stored`] is the byte form that memory, write-ahead log and segments share, [`batch`] the unit in
//! which messages travel from a session through queues to other sessions, [`deaths`] what becomes of a
//! message that is dead-lettered.
//!
//! This crate must not know queues, the log, sessions or any clock.
#![forbid(unsafe_code)]

pub mod batch;
pub mod deaths;
pub mod envelope;
pub mod overlay;
pub mod stored;

pub use batch::{Batch, BatchBuilder, MessageRef};
pub use deaths::{DeadLetter, Reason};
pub use envelope::{Encoding, Envelope};
pub use overlay::Overlay;
pub use stored::{StoredError, StoredMessage};
