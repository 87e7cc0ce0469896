//! The file system as the log sees it, and the threads that do its work. Core threads come here for small writes only.

mod files;
mod handles;
mod signal;
mod small_writes;
mod threads;

pub use self::files::FsDisk;
pub(crate) use self::signal::Signal;
pub(crate) use self::threads::{DiskThreads, Fatal};
