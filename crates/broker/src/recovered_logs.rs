//! The logs of a data directory, as a start finds them.

use std::sync::Arc;

use leveret_log::{Disk, Options, Report, StorageError};
use thiserror::Error;

use crate::recovery::{Recovered, RecoveryError};
use crate::streams::{LocalStream, StoreId};
use crate::time::Now;

/// The reason why a broker can't start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The data directory can't be understood.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
}

/// The logs of a disk, with what a start recovered of each.
pub(crate) struct Logs {
    pub logs: Vec<Arc<LocalStream>>,
    pub states: Vec<Recovered>,
    pub reports: Vec<Report>,
}

impl Logs {
    /// Recovers the logs with these options, each under the id of its place among them.
    ///
    /// # Errors
    /// [`StartError`] with the problem and its location.
    pub(crate) fn recover(disk: &dyn Disk, options: Vec<Options>, now: Now) -> Result<Self, StartError> {
        let (mut logs, mut states, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for (options, id) in options.into_iter().zip(0..) {
            let mut state = Recovered::default();
            let (log, report) = leveret_log::recover(disk, options, &mut state, now.monotonic)?;
            state.check()?;
            let log = Arc::new(LocalStream::new(StoreId(id), log));
            log.set_time(now.monotonic);
            logs.push(log);
            states.push(state);
            reports.push(report);
        }
        Ok(Self { logs, states, reports })
    }
}
