/// A log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    None,
    /// Errors that end the node.
    Critical,
    /// Failures of operations.
    Error,
    /// Conditions that an operator should look at.
    Warning,
    /// Normal events.
    Info,
    /// Internal events.
    Debug,
}

impl LogLevel {
    /// The level with this name; RabbitMQ's other levels are mapped to the next less verbose one.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(LogLevel::None),
            "emergency" | "alert" | "critical" => Some(LogLevel::Critical),
            "error" => Some(LogLevel::Error),
            "notice" | "warning" => Some(LogLevel::Warning),
            "info" => Some(LogLevel::Info),
            "debug" => Some(LogLevel::Debug),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::None => "none",
            LogLevel::Critical => "critical",
            LogLevel::Error => "error",
            LogLevel::Warning => "warning",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}
