//! Things that happened, on their way to the broker's own exchanges: events to `amq.rabbitmq.event`, log lines to
//! `amq.rabbitmq.log`.
//!
//! A caller that notices something may hold any lock, so it only leaves a notice here, and a core publishes it. Nothing is
//! left unless something is bound to the exchange. The notices that wait have a limit, and what is more is dropped and
//! counted.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use leveret_message::own::{HeaderTable, HeaderValue};
use leveret_routing::Router;
use parking_lot::{Mutex, RwLock};

/// The exchange for events.
pub const EVENT_EXCHANGE: &str = "amq.rabbitmq.event";
/// The exchange for log lines.
pub const LOG_EXCHANGE: &str = "amq.rabbitmq.log";

/// Most notices that wait.
const NOTICES_MAX: usize = 10_000;
/// Most bytes of notices that wait, roughly: arguments of queues can be long.
const BYTES_MAX: usize = 8 << 20;
/// Bytes that a notice takes besides its text.
const NOTICE_BYTES: usize = 128;

thread_local! {
    /// Whether this thread publishes notices: what it logs meanwhile isn't published in turn.
    static PUBLISHES: Cell<bool> = const { Cell::new(false) };
}

/// A notice that waits to be published.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// An event, by its routing key.
    Event(&'static str, HeaderTable),
    /// A log line: its level is the routing key.
    Line {
        /// The name of the level.
        level: &'static str,
        /// The MIME type of the text.
        content_type: &'static str,
        /// When it was logged, in seconds since the Unix epoch.
        time_s: u64,
        /// The text of the line.
        body: Vec<u8>,
    },
}

impl Notice {
    fn bytes(&self) -> usize {
        NOTICE_BYTES
            + match self {
                Self::Event(_, headers) => table_bytes(headers),
                Self::Line { body, .. } => body.len(),
            }
    }
}

fn table_bytes(table: &HeaderTable) -> usize {
    table.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &HeaderValue) -> usize {
    size_of::<HeaderValue>()
        + match value {
            HeaderValue::Text(text) => text.len(),
            HeaderValue::List(values) => values.iter().map(value_bytes).sum(),
            HeaderValue::Table(table) | HeaderValue::Terms(table) => table_bytes(table),
            HeaderValue::Bool(_) | HeaderValue::Int(_) | HeaderValue::Long(_) | HeaderValue::Double(_) => 0,
        }
}

/// The vhosts of the broker's own exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeVhosts {
    /// That of events.
    pub events: String,
    /// That of log lines.
    pub lines: String,
}

#[derive(Default)]
struct Waiting {
    notices: VecDeque<Notice>,
    bytes: usize,
}

/// Called when the first notice begins to wait.
pub type WakeUp = Box<dyn Fn() + Send + Sync>;

/// The notices that wait, and whether anything wants them.
pub struct Notices {
    node: String,
    vhosts: NoticeVhosts,
    wants_events: AtomicBool,
    wants_lines: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Number of notices that wait.
    count: AtomicUsize,
    dropped: AtomicU64,
    wake: RwLock<Option<WakeUp>>,
}

impl Notices {
    /// No notices, and nothing that wants any.
    pub fn new(node: String, vhosts: NoticeVhosts) -> Self {
        Self {
            node,
            vhosts,
            wants_events: AtomicBool::new(false),
            wants_lines: AtomicBool::new(false),
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            wake: RwLock::new(None),
        }
    }

    /// The name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The vhosts of the exchanges.
    pub fn vhosts(&self) -> &NoticeVhosts {
        &self.vhosts
    }

    /// Sets the wake-up of the core that publishes notices.
    pub fn set_wake(&self, wake: WakeUp) {
        *self.wake.write() = Some(wake);
    }

    /// Leaves the event of this routing key, if anything wants events.
    #[inline]
    pub fn event(&self, key: &'static str, headers: impl FnOnce() -> HeaderTable) {
        if self.wants_events() {
            self.push(Notice::Event(key, headers()));
        }
    }

    /// Whether anything wants events.
    #[inline]
    pub fn wants_events(&self) -> bool {
        self.wants_events.load(Ordering::Relaxed)
    }

    /// Whether anything wants the log lines of this thread: not those about the publishing of others.
    pub fn wants_lines(&self) -> bool {
        self.wants_lines.load(Ordering::Relaxed) && !PUBLISHES.get()
    }

    /// Leaves a log line of this level and MIME type, which was logged at `time_s` seconds since the Unix epoch.
    pub fn line(&self, level: &'static str, content_type: &'static str, time_s: u64, body: Vec<u8>) {
        self.push(Notice::Line { level, content_type, time_s, body });
    }

    fn push(&self, notice: Notice) {
        let bytes = notice.bytes();
        {
            let mut waiting = self.waiting.lock();
            if waiting.notices.len() >= NOTICES_MAX || waiting.bytes + bytes > BYTES_MAX {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            waiting.bytes += bytes;
            waiting.notices.push_back(notice);
            if self.count.fetch_add(1, Ordering::AcqRel) > 0 {
                return;
            }
        }
        if let Some(wake) = &*self.wake.read() {
            wake();
        }
    }

    /// Whether any notice waits.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Takes out the oldest notices, at most `most`.
    pub(crate) fn take(&self, most: usize) -> Vec<Notice> {
        let mut waiting = self.waiting.lock();
        let count = waiting.notices.len().min(most);
        let notices: Vec<Notice> = waiting.notices.drain(..count).collect();
        waiting.bytes -= notices.iter().map(Notice::bytes).sum::<usize>();
        self.count.fetch_sub(count, Ordering::AcqRel);
        if waiting.notices.is_empty() {
            // Bursts are rare, so their memory is freed.
            waiting.notices.shrink_to(64);
        }
        notices
    }

    /// Number of notices that were dropped, because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether bindings of an exchange with this name may be those of the broker's own exchanges.
    pub(crate) fn reads(exchange: &str) -> bool {
        matches!(exchange, EVENT_EXCHANGE | LOG_EXCHANGE)
    }

    /// Looks at new routing tables for bindings of the exchanges.
    pub(crate) fn look_at(&self, router: &Router) {
        let has = |vhost: &str, exchange| router.has_bindings(vhost, exchange);
        self.wants_events.store(has(&self.vhosts.events, EVENT_EXCHANGE), Ordering::Relaxed);
        self.wants_lines.store(has(&self.vhosts.lines, LOG_EXCHANGE), Ordering::Relaxed);
    }
}

/// Publishes notices: log lines of this thread meanwhile aren't wanted.
pub(crate) fn publishing<R>(publish: impl FnOnce() -> R) -> R {
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            PUBLISHES.set(self.0);
        }
    }

    let _before = Before(PUBLISHES.replace(true));
    publish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Notices {
        let notices = Notices::new("n@h".into(), NoticeVhosts { events: "/".into(), lines: "/".into() });
        notices.wants_events.store(true, Ordering::Relaxed);
        notices.wants_lines.store(true, Ordering::Relaxed);
        notices
    }

    fn headers(length: usize) -> HeaderTable {
        vec![("name".into(), HeaderValue::text("x".repeat(length)))]
    }

    #[test]
    fn notices_wait_in_order_and_only_if_they_are_wanted() {
        let notices = wanted();
        notices.event("a", || headers(1));
        notices.event("b", || headers(2));
        assert!(!notices.is_empty());
        assert_eq!(notices.take(1), [Notice::Event("a", headers(1))]);
        assert_eq!(notices.take(9), [Notice::Event("b", headers(2))]);
        assert!(notices.is_empty() && notices.waiting.lock().bytes == 0);
        notices.look_at(&Router::default());
        notices.event("c", || panic!("nothing wants it"));
    }

    #[test]
    fn notices_beyond_their_limits_are_dropped_and_counted() {
        let notices = wanted();
        (0..NOTICES_MAX + 3).for_each(|_| notices.event("a", || headers(1)));
        assert_eq!((notices.dropped(), notices.take(usize::MAX).len()), (3, NOTICES_MAX));
        notices.event("a", || headers(BYTES_MAX / 2));
        notices.event("a", || headers(BYTES_MAX / 2));
        assert_eq!((notices.dropped(), notices.take(usize::MAX).len()), (4, 1));
    }

    #[test]
    fn lines_about_publishing_notices_are_not_wanted() {
        let notices = wanted();
        assert!(notices.wants_lines());
        assert!(!publishing(|| notices.wants_lines()));
        assert!(notices.wants_lines());
    }
}
