//! Messages that have left memory and are read back from disk: who wants them, and what was asked for.

mod own_reads;
mod stored_reads;
mod wanted_numbers;

pub(crate) use own_reads::OwnReads;
pub(crate) use stored_reads::StoredReads;
pub use stored_reads::{StoredRead, StreamRead};
pub(crate) use wanted_numbers::WantedNumbers;
