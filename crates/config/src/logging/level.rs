/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    None,
    /// What ends the node.
    Critical,
    /// What stops us.
    Error,
    /// What somebody should look at.
    Warning,
    /// What happens.
    Info,
    /// What happens inside.
    Debug,
}

impl LogLevel {
    /// The level of this name; those of RabbitMQ that aren't here are the next that says less.
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
