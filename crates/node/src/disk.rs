//! The file system as the log sees it, and the threads that do its work. No core thread comes here.

mod files;
mod handles;
mod signal;
mod threads;

pub use self::files::FsDisk;
pub(crate) use self::signal::Signal;
pub(crate) use self::threads::{DiskThreads, Fatal};
