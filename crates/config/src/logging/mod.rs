//! Settings of logging: `log.*`, `RABBITMQ_LOGS`, `RABBITMQ_LOG` and `RABBITMQ_LOG_BASE`.

use std::collections::BTreeMap;

mod category;
mod format;
mod journald;
mod level;
mod output;
mod rotation;
mod syslog;

pub use category::LogCategory;
pub use format::{FieldMap, Format, LevelFormat, Piece, TimeFormat};
pub use journald::{JournaldField, JournaldFields};
pub use level::LogLevel;
pub use output::{Levels, LogPlaces, Output, Target};
pub use rotation::{Period, Rotation, RotationDate};
pub use syslog::{Facility, Syslog, SyslogProtocol, Transport};

/// Settings in [`crate::Config::log`], as they were made; [`Logging::outputs`] gives the resulting outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// `log.dir`: directory of log files whose name isn't a path.
    pub directory: Option<String>,
    /// `RABBITMQ_LOGS`: the only output, which overrides the keys.
    pub only: Option<LogPlace>,
    /// `log.level`: level of outputs without a level of their own.
    pub level: LogLevel,
    /// `log.console.*`.
    pub console: ConsoleLog,
    /// `log.file.*`.
    pub file: FileLog,
    /// `log.syslog.*`.
    pub syslog: SyslogLog,
    /// `log.journald.*`.
    pub journald: JournaldLog,
    /// `log.exchange.*`.
    pub exchange: ExchangeLog,
    /// `log.CATEGORY.*`.
    pub categories: BTreeMap<LogCategory, CategoryLog>,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            directory: None,
            only: None,
            level: LogLevel::Info,
            console: ConsoleLog::default(),
            file: FileLog::default(),
            syslog: SyslogLog::default(),
            journald: JournaldLog::default(),
            exchange: ExchangeLog::default(),
            categories: BTreeMap::new(),
        }
    }
}

/// A log destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file.
    File(String),
    /// A syslog server.
    Syslog,
    /// The journal of systemd.
    Journald,
    /// The exchange for log lines.
    Exchange,
}

/// Settings of standard output and standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleLog {
    /// `log.console`.
    pub enabled: Option<bool>,
    /// `log.console.level`.
    pub level: Option<LogLevel>,
    /// `log.console.stdio`: whether to use standard error instead of standard output.
    pub stderr: bool,
    /// `log.console.use_colors`: whether to use colours at terminals.
    pub colors: bool,
    /// `log.console.formatter.*`.
    pub format: Format,
}

impl Default for ConsoleLog {
    fn default() -> Self {
        Self { enabled: None, level: None, stderr: false, colors: true, format: Format::default() }
    }
}

/// Settings of the log file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileLog {
    /// `log.file`: its name; the inner `None` for no file.
    pub name: Option<Option<String>>,
    /// `log.file.level`.
    pub level: Option<LogLevel>,
    /// `log.file.rotation.*`.
    pub rotation: Rotation,
    /// `log.file.formatter.*`.
    pub format: Format,
}

/// Settings of the syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SyslogLog {
    /// `log.syslog`.
    pub enabled: Option<bool>,
    /// `log.syslog.level`.
    pub level: Option<LogLevel>,
    /// `log.syslog.formatter.*`.
    pub format: Format,
    /// The address and the format of its messages.
    pub server: Syslog,
}

/// Settings of the systemd journal.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JournaldLog {
    /// `log.journald`.
    pub enabled: Option<bool>,
    /// `log.journald.level`.
    pub level: Option<LogLevel>,
    /// `log.journald.fields`.
    pub fields: JournaldFields,
}

/// Settings of the exchange for log lines.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ExchangeLog {
    /// `log.exchange`.
    pub enabled: Option<bool>,
    /// `log.exchange.level`.
    pub level: Option<LogLevel>,
    /// `log.exchange.formatter.*`.
    pub format: Format,
}

impl ExchangeLog {
    /// Whether lines are published.
    #[must_use]
    pub fn is_on(&self) -> bool {
        is_on(self.enabled, self.level)
    }
}

/// Whether an output is on: it was enabled, or its level was set.
fn is_on(enabled: Option<bool>, level: Option<LogLevel>) -> bool {
    enabled.unwrap_or(level.is_some_and(|level| level != LogLevel::None))
}

/// Settings of a category of lines.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CategoryLog {
    /// `log.CATEGORY.level`: replaces the outputs' own levels.
    pub level: Option<LogLevel>,
    /// `log.CATEGORY.file`: its lines go only to this file.
    pub file: Option<String>,
    /// `log.CATEGORY.rotation.*`.
    pub rotation: Rotation,
}
