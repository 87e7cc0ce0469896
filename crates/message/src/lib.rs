//! Messages, stored in their publisher's encoding.
//!
//! A message keeps its publisher's encoding; it is only converted to another protocol on delivery. [`stored`] is the
//! byte form that memory, write-ahead log and segments share. [`batch`] is the unit in which messages are passed from
//! a session through queues to other sessions. [`deaths`] is dead-lettering. [`incoming`] checks published messages,
//! [`headers`] gives routing access to their headers, and [`lookup`] gives filters access to single fields. [`deliver`]
//! writes messages for receivers: verbatim in their publisher's protocol, in others through the common [`hub`] form. [`chunk`] is
//! the form in which a stream stores runs of messages. [`own`] has the messages that the broker itself writes.
//!
//! This crate must not know queues, the log, sessions or any clock.
#![forbid(unsafe_code)]

mod added;
pub mod annotations;
pub mod batch;
mod batch_part;
pub mod chunk;
pub mod deaths;
pub mod deliver;
mod delivery_time;
pub mod envelope;
pub mod field;
pub mod headers;
pub mod hub;
pub mod incoming;
pub mod lookup;
pub mod mqtt;
pub mod overlay;
pub mod own;
pub mod stamps;
pub mod stored;

pub use added::{
    ADDED_BYTES_MAX, ADDED_TOTAL_MAX, Added, BadToken, DEFERRAL_TOKEN_BYTES_MAX, TooManyAdded, deferral_token,
};
pub use batch::{Absent, Batch, BatchBuilder, FileBody, MessageRef};
pub use batch_part::BatchPart;
pub use deaths::{DeadLetter, Reason};
pub use envelope::{Encoding, Envelope, ForeignId};
pub use lookup::fields_length;
pub use overlay::{ComparedBy, Overlay};
pub use stamps::{IfPresent, Stamps};
pub use stored::{StoredError, StoredMessage};
