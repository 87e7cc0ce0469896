//! The log: writes lines to files, standard output, syslog and the journal.
//!
//! A line is made on the thread that logs it and written by a thread per output, which a core never waits for. A pipe
//! that isn't read, or a full disk, costs lines and nothing else; lost lines are counted and reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use leveret_broker::notices::{LOG_EXCHANGE, Notices};
use leveret_config::{Format, Levels, LogCategory, LogLevel, LogPlaces, Logging, Output, Target};
use parking_lot::Mutex;

mod calendar;
mod console;
mod exchange;
mod file;
mod format;
mod journald;
mod line;
mod recent;
mod rotation;
mod sink;
mod subscriber;
mod syslog;
mod tail;
mod writer;

pub(crate) use calendar::Moment;
use exchange::Publisher;
use recent::Recent;
use sink::Sink;
use subscriber::LogSubscriber;
use writer::Writer;

pub use recent::RecentLine;
pub use tail::Tail;

/// Longest time that a stop waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The log of this process. Clones refer to the same one.
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

/// The reason why the log can't be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file can't be written.
    #[error("cannot log to {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The journal doesn't exist.
    #[error("cannot log to the journal (log.journald): {0}")]
    Journal(std::io::Error),
    /// A syslog server can't be used.
    #[error("cannot log to syslog (log.syslog): {0}")]
    Syslog(String),
}

struct Inner {
    running: ArcSwap<Vec<Running>>,
    places: LogPlaces,
    /// The node whose exchange gets lines.
    publisher: Arc<Publisher>,
    recent: Recent,
    /// Serializes changes.
    changes: Mutex<()>,
    is_stopped: AtomicBool,
}

impl Inner {
    /// Whether lines of this thread go to this output at the moment.
    fn takes(&self, target: &Target) -> bool {
        *target != Target::Exchange || self.publisher.load().as_ref().is_some_and(|notices| notices.wants_lines())
    }
}

/// An open output.
#[derive(Clone)]
struct Running {
    target: Target,
    format: Format,
    configured: Levels,
    /// The configured levels, or the ones that a command set.
    levels: Levels,
    writer: Arc<Writer>,
}

impl Log {
    /// Begins to log as configured.
    ///
    /// # Errors
    /// An output can't be opened.
    ///
    /// # Panics
    /// If the process logs already.
    pub fn start(config: &Logging, places: LogPlaces) -> Result<Self, LogError> {
        let outputs = config.outputs(&places);
        let inner = Inner {
            running: ArcSwap::default(),
            places,
            publisher: Arc::default(),
            recent: Recent::default(),
            changes: Mutex::new(()),
            is_stopped: AtomicBool::new(false),
        };
        let log = Self { inner: Arc::new(inner) };
        log.run(outputs)?;
        let subscriber = LogSubscriber::new(log.inner.clone());
        tracing::subscriber::set_global_default(subscriber).expect("a process has one log");
        Ok(log)
    }

    /// Publishes lines to the exchange of this node from now on, if they go to an exchange.
    pub fn publish_to(&self, notices: Arc<Notices>) {
        self.inner.publisher.store(Some(notices));
    }

    /// Applies a new configuration: outputs that keep their name continue, files that were moved away are opened again.
    ///
    /// # Errors
    /// A new output can't be opened; nothing has changed then.
    pub fn reload(&self, config: &Logging) -> Result<(), LogError> {
        let _one = self.inner.changes.lock();
        self.run(config.outputs(&self.inner.places))?;
        self.inner.running.load().iter().for_each(|running| running.writer.reopen());
        Ok(())
    }

    fn run(&self, outputs: Vec<Output>) -> Result<(), LogError> {
        let known = self.inner.running.load();
        let mut running = Vec::new();
        for Output { target, levels, format } in outputs {
            let same = known.iter().find(|known| known.target == target && known.format == format);
            let writer = match same {
                Some(known) => known.writer.clone(),
                None => Arc::new(Writer::start(Sink::open(&target, &format, &self.inner.publisher)?)),
            };
            running.push(Running { target, format, configured: levels, levels, writer });
        }
        self.inner.running.store(Arc::new(running));
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }

    /// Sets the level of all outputs, except those that log nothing.
    pub fn set_level(&self, level: LogLevel) {
        let _one = self.inner.changes.lock();
        let mut running = Vec::clone(&self.inner.running.load());
        running.iter_mut().for_each(|running| running.levels = running.configured.at(level));
        self.inner.running.store(Arc::new(running));
        tracing::callsite::rebuild_interest_cache();
    }

    /// Rotates files by their rule. Files that keep no old ones, and files that were moved away, are only opened again.
    pub fn rotate(&self) {
        self.inner.running.load().iter().for_each(|running| running.writer.rotate());
        self.flush(PATIENCE);
    }

    /// The places of lines, in RabbitMQ's words: paths, `<stdout>`, `<stderr>`, `<journald>`, `syslog:HOST`.
    pub fn locations(&self) -> Vec<String> {
        let mut locations: Vec<String> =
            self.inner.running.load().iter().map(|running| location(&running.target)).collect();
        locations.sort();
        locations.dedup();
        locations
    }

    /// The file that gets the lines without a category.
    pub fn file(&self) -> Option<String> {
        self.inner.running.load().iter().find_map(|running| match &running.target {
            Target::File { path, .. } if running.levels.of(LogCategory::Default) != LogLevel::None => {
                Some(path.clone())
            }
            _ => None,
        })
    }

    /// Whether standard output gets lines of this level.
    pub fn is_on_stdout(&self, level: LogLevel) -> bool {
        self.inner.running.load().iter().any(|running| {
            matches!(running.target, Target::Stdout { .. }) && running.levels.of(LogCategory::Default) >= level
        })
    }

    /// Waits until all lines so far are written, for `patience` at most.
    pub fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.inner.running.load().iter().for_each(|running| running.writer.flush(deadline));
    }

    /// Writes all lines so far, and accepts no more.
    pub fn stop(&self) {
        if !self.inner.is_stopped.swap(true, Ordering::AcqRel) {
            self.flush(PATIENCE);
        }
    }
}

fn location(target: &Target) -> String {
    match target {
        Target::Stdout { .. } => "<stdout>".to_owned(),
        Target::Stderr { .. } => "<stderr>".to_owned(),
        Target::File { path, .. } => path.clone(),
        Target::Syslog(server) => format!("syslog:{}", server.host),
        Target::Journald(_) => "<journald>".to_owned(),
        Target::Exchange => format!("exchange:{LOG_EXCHANGE}"),
    }
}
