//! The tools for a data directory that no node uses: `leveret verify` and `leveret log dump`. They only read, and hold
//! the directory's lock meanwhile so that no node starts on it.

mod directory;
mod dump;
mod report;
mod verify;

pub(crate) use directory::STORE;
pub use directory::{CannotCheck, OfflineDirectory};
pub use dump::{DumpOptions, dump};
pub use report::Form;
pub use verify::{Checked, verify};
