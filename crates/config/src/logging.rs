//! What is logged, where and how: `log.*`, `RABBITMQ_LOGS`, `RABBITMQ_LOG` and `RABBITMQ_LOG_BASE`.

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

/// See [`crate::Config::log`]. As it was said; [`Logging::outputs`] says what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// `log.dir`: where files are whose name isn't a path.
    pub directory: Option<String>,
    /// `RABBITMQ_LOGS`: the one place for everything, whatever the keys say.
    pub only: Option<Place>,
    /// `log.level`: of outputs that don't have one of their own.
    pub level: LogLevel,
    /// `log.console.*`.
    pub console: ConsoleLog,
    /// `log.file.*`.
    pub file: FileLog,
    /// `log.syslog.*`.
    pub syslog: SyslogLog,
    /// `log.journald.*`.
    pub journald: JournaldLog,
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
            categories: BTreeMap::new(),
        }
    }
}

/// A place to log to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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
}

/// Standard output or standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleLog {
    /// `log.console`.
    pub enabled: Option<bool>,
    /// `log.console.level`.
    pub level: Option<LogLevel>,
    /// `log.console.stdio`: standard error instead of standard output.
    pub stderr: bool,
    /// `log.console.use_colors`: at terminals.
    pub colors: bool,
    /// `log.console.formatter.*`.
    pub format: Format,
}

impl Default for ConsoleLog {
    fn default() -> Self {
        Self { enabled: None, level: None, stderr: false, colors: true, format: Format::default() }
    }
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileLog {
    /// `log.file`: its name, or `None` within for no file.
    pub name: Option<Option<String>>,
    /// `log.file.level`.
    pub level: Option<LogLevel>,
    /// `log.file.rotation.*`.
    pub rotation: Rotation,
    /// `log.file.formatter.*`.
    pub format: Format,
}

/// A syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SyslogLog {
    /// `log.syslog`.
    pub enabled: Option<bool>,
    /// `log.syslog.level`.
    pub level: Option<LogLevel>,
    /// `log.syslog.formatter.*`.
    pub format: Format,
    /// The other keys.
    pub server: Syslog,
}

/// The journal of systemd.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JournaldLog {
    /// `log.journald`.
    pub enabled: Option<bool>,
    /// `log.journald.level`.
    pub level: Option<LogLevel>,
    /// `log.journald.fields`.
    pub fields: JournaldFields,
}

/// Lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CategoryLog {
    /// `log.CATEGORY.level`: in place of the outputs' own.
    pub level: Option<LogLevel>,
    /// `log.CATEGORY.file`: they go there and nowhere else.
    pub file: Option<String>,
    /// `log.CATEGORY.rotation.*`.
    pub rotation: Rotation,
}
