//! The number of files and sockets that the process may have open, and its division among their users.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cores::Population;

/// Number of descriptors that a node should have: as many as RabbitMQ's packages ask for.
const WANTED: u64 = 65_536;

/// Descriptors reserved for files of the log and for the local socket, out of those left after the start; a quarter of
/// them if that is less.
const KEPT_MAX: usize = 64;

/// HTTP and metrics together may have one part in this many of the descriptors left after the start. Three quarters
/// stay with AMQP, however many clients HTTP has.
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
    /// Divides the part of `limit` that is left after the descriptors that are open already.
    pub(crate) fn share(limit: u64, amqp: Arc<Population>) -> Arc<Self> {
        Arc::new(Self::of(limit, open_now(), amqp))
    }

    fn of(limit: u64, open: usize, amqp: Arc<Population>) -> Self {
        let left = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(open);
        let kept = KEPT_MAX.min(left / 4);
        let http_max = (left / HTTP_DIVISOR).max(1);
        Self { limit, connections_max: (left - kept).max(1), http_max, http: AtomicUsize::new(0), amqp }
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
    fn http_never_takes_what_is_kept_for_others() {
        for (limit, open, http_max) in [(64, 40, 6), (1024, 40, 246), (65_536, 40, 16_374), (10, 40, 1)] {
            let amqp: Arc<Population> = Arc::default();
            let descriptors = Arc::new(Descriptors::of(limit, open, amqp.clone()));
            let taken: Vec<_> = std::iter::from_fn(|| descriptors.take_for_http()).collect();
            assert_eq!(taken.len(), http_max, "of {limit}");
            let members: Vec<_> =
                (0..).map(|_| amqp.join()).take_while(|_| descriptors.refuses_amqp().is_none()).collect();
            if limit > 40 {
                let left = limit as usize - open;
                assert!(taken.len() + members.len() + KEPT_MAX.min(left / 4) <= left);
                assert!(members.len() >= left / 2, "of {limit}");
            }
            drop((taken, members));
            assert!(descriptors.take_for_http().is_some());
        }
    }
}
