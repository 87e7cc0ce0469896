//! The log: lines go from whoever has something to tell to files, standard output, syslog and the journal.
//!
//! A line is made on the thread that tells it and written by a thread per output, which a core never waits for: a pipe
//! that nobody reads, or a full disk, costs lines, which are counted and told of, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use leveret_config::{Format, Levels, LogCategory, LogLevel, LogPlaces, Logging, Output, Target};
use parking_lot::Mutex;

mod calendar;
mod console;
mod file;
mod format;
mod journald;
mod line;
mod rotation;
mod sink;
mod subscriber;
mod syslog;
mod tail;
mod writer;

use sink::Sink;
use subscriber::LogSubscriber;
use writer::Writer;

pub use tail::Tail;

/// How long a stop waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The log of this process. Clones are the same one.
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

/// Why there can be no log as asked for.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file can't be written.
    #[error("cannot log to {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The journal isn't there.
    #[error("cannot log to the journal (log.journald): {0}")]
    Journal(std::io::Error),
    /// A syslog server can't be spoken to.
    #[error("cannot log to syslog (log.syslog): {0}")]
    Syslog(String),
}

struct Inner {
    running: ArcSwap<Vec<Running>>,
    places: LogPlaces,
    /// Changes come one after the other.
    changes: Mutex<()>,
    is_stopped: AtomicBool,
}

/// An output that is open.
#[derive(Clone)]
struct Running {
    target: Target,
    format: Format,
    configured: Levels,
    /// Those, or what a command made of them.
    levels: Levels,
    writer: Arc<Writer>,
}

impl Log {
    /// From now on the process logs as configured.
    ///
    /// # Errors
    /// An output can't be opened.
    ///
    /// # Panics
    /// If the process logs already.
    pub fn start(config: &Logging, places: LogPlaces) -> Result<Self, LogError> {
        let outputs = config.outputs(&places);
        let inner =
            Inner { running: ArcSwap::default(), places, changes: Mutex::new(()), is_stopped: AtomicBool::new(false) };
        let log = Self { inner: Arc::new(inner) };
        log.run(outputs)?;
        let subscriber = LogSubscriber::new(log.inner.clone());
        tracing::subscriber::set_global_default(subscriber).expect("a process has one log");
        Ok(log)
    }

    /// Logs as configured anew: outputs that are named as before go on, files that were moved away are opened again.
    ///
    /// # Errors
    /// A new output can't be opened; all is as it was.
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
                None => Arc::new(Writer::start(Sink::open(&target, &format)?)),
            };
            running.push(Running { target, format, configured: levels, levels, writer });
        }
        self.inner.running.store(Arc::new(running));
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }

    /// Changes how much is logged everywhere, but where nothing is.
    pub fn set_level(&self, level: LogLevel) {
        let _one = self.inner.changes.lock();
        let mut running = Vec::clone(&self.inner.running.load());
        running.iter_mut().for_each(|running| running.levels = running.configured.at(level));
        self.inner.running.store(Arc::new(running));
        tracing::callsite::rebuild_interest_cache();
    }

    /// Puts files aside as their rotation says; those that keep none, and those that somebody else moved, are opened again.
    pub fn rotate(&self) {
        self.inner.running.load().iter().for_each(|running| running.writer.rotate());
        self.flush(PATIENCE);
    }

    /// Where lines go, in RabbitMQ's words: paths, `<stdout>`, `<stderr>`, `<journald>`, `syslog:HOST`.
    pub fn locations(&self) -> Vec<String> {
        let mut locations: Vec<String> =
            self.inner.running.load().iter().map(|running| location(&running.target)).collect();
        locations.sort();
        locations.dedup();
        locations
    }

    /// The file that has the lines of no category.
    pub fn file(&self) -> Option<String> {
        self.inner.running.load().iter().find_map(|running| match &running.target {
            Target::File { path, .. } if running.levels.of(LogCategory::Default) != LogLevel::None => {
                Some(path.clone())
            }
            _ => None,
        })
    }

    /// Whether standard output has the lines of this level.
    pub fn is_on_stdout(&self, level: LogLevel) -> bool {
        self.inner.running.load().iter().any(|running| {
            matches!(running.target, Target::Stdout { .. }) && running.levels.of(LogCategory::Default) >= level
        })
    }

    /// Waits until what was told so far is written, or for this long.
    pub fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.inner.running.load().iter().for_each(|running| running.writer.flush(deadline));
    }

    /// Writes what was told so far, and takes no more.
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
    }
}
