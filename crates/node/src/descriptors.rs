//! The number of files and sockets that the process may have open, and its division among their users.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::population::Population;

/// Number of descriptors that a node should have: as many as RabbitMQ's packages ask for.
const WANTED: u64 = 65_536;

/// Descriptors that the node opens itself after they are shared: the local socket, twice, and files that are read or written
/// while it starts.
const LATER: usize = 4;

/// Most descriptors that are kept for connections of the local socket, and for files that are open for a moment, such as
/// certificates; an eighth of those left after the start if that is less.
const OTHERS_MAX: usize = 32;

/// HTTP and metrics together may have one part in this many of the connections. Three quarters stay with AMQP and streams,
/// however many clients HTTP has.
const HTTP_DIVISOR: usize = 4;

/// The shares of descriptors and their use.
#[derive(Debug)]
pub struct Descriptors {
    /// The limit of the system, after it was raised.
    limit: u64,
    /// Largest number of connections of all protocols.
    connections_max: usize,
    /// Largest number of connections of HTTP among them.
    http_max: usize,
    http: AtomicUsize,
    amqp: Arc<Population>,
}

/// A connection of HTTP that counts as long as this lives.
#[derive(Debug)]
pub struct HttpDescriptor(Arc<Descriptors>);

impl Descriptors {
    /// Divides the part of `limit` that is left after the descriptors that are open already. Files of the log may have
    /// `files_max` of them, whether they use them or not; `files` are among those that are open.
    pub(crate) fn share(limit: u64, files: usize, files_max: usize, amqp: Arc<Population>) -> Arc<Self> {
        let fixed = open_now().saturating_sub(files) + LATER;
        Arc::new(Self::of(limit, fixed, files_max, amqp))
    }

    fn of(limit: u64, fixed: usize, files_max: usize, amqp: Arc<Population>) -> Self {
        let left = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(fixed);
        let connections_max = left.saturating_sub(files_max + others(left)).max(1);
        let http_max = (connections_max / HTTP_DIVISOR).max(1);
        Self { limit, connections_max, http_max, http: AtomicUsize::new(0), amqp }
    }

    /// Files and sockets that the process may have open.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Largest number of concurrent connections of HTTP and metrics.
    #[must_use]
    pub fn http_max(&self) -> usize {
        self.http_max
    }

    /// Reserves one more connection of HTTP, if the limit allows it.
    #[must_use]
    pub fn take_for_http(self: &Arc<Self>) -> Option<HttpDescriptor> {
        let http = self.http.fetch_add(1, Ordering::Relaxed) + 1;
        // The connection is counted already; dropping `taken` uncounts it.
        let taken = HttpDescriptor(self.clone());
        (http <= self.http_max && self.amqp.count() + http <= self.connections_max).then_some(taken)
    }

    /// The largest number of connections of AMQP beside those of HTTP, if this connection exceeds it.
    pub(crate) fn refuses_amqp(&self) -> Option<usize> {
        let most = self.connections_max.saturating_sub(self.http.load(Ordering::Relaxed)).max(1);
        (self.amqp.count() > most).then_some(most)
    }
}

impl Drop for HttpDescriptor {
    fn drop(&mut self) {
        self.0.http.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Descriptors that are kept for others than clients and the log, out of those left after the start.
fn others(left: usize) -> usize {
    OTHERS_MAX.min(left / 8)
}

/// Number of open descriptors; if the system doesn't provide it, that of an idle node with a few cores.
fn open_now() -> usize {
    const IDLE: usize = 48;
    // The directory that is being read is one of them.
    std::fs::read_dir("/proc/self/fd").map_or(IDLE, |entries| entries.count().saturating_sub(1))
}

/// Raises the soft limit of open files to the hard one if it is too low; returns the limit in force.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= WANTED {
        return current;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => current,
    }
}

/// A warning to the operator if that limit is low.
pub(crate) fn warning(limit: u64) -> Option<String> {
    (limit < WANTED).then(|| {
        format!(
            "the limit of open files is {limit}; each connection takes one, and at least {WANTED} are \
             recommended (ulimit -n, LimitNOFILE= of the systemd unit)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FileShare;

    #[test]
    fn a_low_limit_is_told_with_its_number() {
        assert!(warning(1024).is_some_and(|text| text.contains("limit of open files is 1024;")));
        assert_eq!(warning(65_536), None);
    }

    #[test]
    fn the_limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(raise_limit() >= before);
    }

    #[test]
    fn the_shares_add_up_at_any_limit() {
        // A limit, the connections, those of HTTP among them.
        let rows = [(64, 10, 2), (128, 56, 14), (256, 148, 37), (1024, 811, 202), (65_536, 64_171, 16_042), (10, 1, 1)];
        for (limit, most, http_max) in rows {
            let (fixed, files) = (35, FileShare::of(limit).total());
            let amqp: Arc<Population> = Arc::default();
            let descriptors = Arc::new(Descriptors::of(limit, fixed, files, amqp.clone()));
            let taken: Vec<_> = std::iter::from_fn(|| descriptors.take_for_http()).collect();
            assert_eq!(taken.len(), http_max, "of {limit}");
            let members: Vec<_> =
                (0..).map(|_| amqp.join()).take_while(|_| descriptors.refuses_amqp().is_none()).collect();
            assert_eq!(members.len(), (most - http_max).max(1), "of {limit}");
            if limit >= 64 {
                let left = limit as usize - fixed;
                assert!(fixed + files + others(left) + taken.len() + members.len() <= limit as usize, "of {limit}");
                assert!(others(left) >= 3, "of {limit}");
            }
            drop((taken, members));
            assert!(descriptors.take_for_http().is_some());
        }
    }
}
