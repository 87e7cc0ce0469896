use leveret_config::{Config, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Lines are written by a thread of their own: a pipe that nobody reads must not hold up a core. What the drop can't write
/// within a second is lost, as is what comes while 100,000 lines wait.
pub(crate) struct Log {
    _writer: WorkerGuard,
    level: reload::Handle<LevelFilter, Registry>,
    is_on: bool,
}

impl Log {
    /// From now on the process logs to standard output.
    pub(crate) fn to_stdout(config: &Config) -> Self {
        let is_on = config.log.console;
        let (filter, level) = reload::Layer::new(if is_on { filter(config.log.level) } else { LevelFilter::OFF });
        let (lines, writer) = tracing_appender::non_blocking(std::io::stdout());
        let shown = fmt::layer().with_writer(lines).with_ansi(false).with_target(false);
        tracing_subscriber::registry().with(filter).with(shown).init();
        Log { _writer: writer, level, is_on }
    }

    /// What changes the level while the node runs. A log that is switched off stays so.
    pub(crate) fn change(&self) -> impl Fn(LogLevel) + Send + Sync + 'static {
        let (handle, is_on) = (self.level.clone(), self.is_on);
        move |level| {
            if is_on {
                // It fails only if there is no log any more.
                let _ = handle.reload(filter(level));
            }
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::None => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}
