//! The log's interface to the file system, and the threads that do its work. Core threads only use it for small writes.

mod files;
mod handles;
mod lent;
mod share;
mod signal;
mod small_writes;
mod spares;
mod threads;

pub use self::files::FsDisk;
pub(crate) use self::signal::Signal;
pub(crate) use self::threads::{DiskThreads, Fatal};

#[cfg(test)]
mod exhausted;
#[cfg(test)]
pub(crate) use self::share::FileShare;
