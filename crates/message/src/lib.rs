//! The one message form: what a publisher sent, kept as it was sent.
//!
//! A message keeps its publisher's encoding; conversion to another protocol happens on delivery only.
//! [`stored`] is the byte form that memory, write-ahead log and segments share, [`batch`] the unit in
//! which messages travel from a session through queues to other sessions.
//!
//! This crate must not know queues, the log, sessions or any clock.
#![forbid(unsafe_code)]

pub mod batch;
pub mod stored;

pub use batch::{Batch, BatchBuilder, MessageRef};
pub use stored::{Envelope, StoredError, StoredMessage};
