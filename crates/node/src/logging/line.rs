//! Lines of the log.

use std::fmt::{self, Write};
use std::time::SystemTime;

use leveret_config::{LogCategory, LogLevel};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};

/// Prefixes of the targets of our own events. Of events with other targets, only warnings and errors are logged.
const OURS: [&str; 2] = ["leveret", "rabbitmq"];

/// A log entry: a line, or several lines if the message has a detail.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) time: SystemTime,
    pub(super) level: LogLevel,
    pub(super) category: LogCategory,
    /// The message. Its only control character is a line end between the text and the detail.
    pub(super) message: String,
    /// The number of the connection that the line is about, shown as an Erlang pid; 0 for none.
    pub(super) pid: u64,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) source: Option<(&'static str, u32)>,
}

/// The category and the level of an event. A field `critical` can still raise an error's level.
pub(super) fn classify(metadata: &Metadata<'_>) -> (LogCategory, LogLevel) {
    let target = metadata.target();
    let category = target.strip_prefix("rabbitmq.").and_then(LogCategory::named).unwrap_or(LogCategory::Default);
    let level = match *metadata.level() {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warning,
        Level::INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    (category, level)
}

/// Whether the event is a warning of the engine of placements: the links say in their own words whom they can't reach.
pub(super) fn is_engines_warning(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("openraft") && *metadata.level() == tracing::Level::WARN
}

/// Whether the line is one of the engine about a placement that was asked to stop: its calls on their way end then. A call without an answer
/// has two lines, of which the first one has the reason.
pub(super) fn is_engines_end(metadata: &Metadata<'_>, line: &Line) -> bool {
    metadata.target().starts_with("openraft")
        && (line.message.ends_with("raft stopped") || line.message.starts_with("failed to receive from RaftCore"))
}

/// Whether the event has a target that isn't ours. Its level is ignored then: only warnings and errors are logged.
pub(super) fn is_foreign(metadata: &Metadata<'_>) -> bool {
    !OURS.iter().any(|ours| metadata.target().starts_with(ours))
}

impl Line {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let (category, level) = classify(metadata);
        let mut line = Self {
            time: SystemTime::now(),
            level,
            category,
            message: String::new(),
            pid: 0,
            fields: Vec::new(),
            source: metadata.file().zip(metadata.line()),
        };
        let mut visitor = Visitor { line: &mut line, detail: String::new() };
        event.record(&mut visitor);
        let detail = visitor.detail;
        if !detail.is_empty() {
            line.message.push('\n');
            line.message.push_str(&detail);
        }
        line
    }
}

struct Visitor<'l> {
    line: &'l mut Line,
    detail: String,
}

impl Visit for Visitor<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "pid" => self.line.pid = value,
            name => self.line.fields.push((name, value.to_string())),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "critical" if value => self.line.level = LogLevel::Critical,
            name => self.line.fields.push((name, value.to_string())),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing into a string doesn't fail.
        let _ = write!(Printable(&mut text), "{value:?}");
        match field.name() {
            "message" => self.line.message = text,
            "detail" => self.detail = text,
            name => self.line.fields.push((name, text)),
        }
    }
}

/// Escapes control characters, so that names chosen by clients can't look like another line.
struct Printable<'s>(&'s mut String);

impl Write for Printable<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if character.is_control() {
                write!(self.0, "{}", character.escape_default())?;
            } else {
                self.0.push(character);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::span::{Attributes, Id, Record};

    use super::*;

    /// Tells of each event whether it is dropped.
    #[derive(Default)]
    struct Dropped(Mutex<Vec<bool>>);

    impl tracing::Subscriber for &'static Dropped {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            self.0.lock().expect("not poisoned").push(is_engines_end(event.metadata(), &Line::of(event)));
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn only_the_engines_lines_about_an_orderly_stop_are_dropped() {
        let dropped: &'static Dropped = Box::leak(Box::default());
        tracing::subscriber::with_default(dropped, || {
            tracing::error!(target: "openraft::raft::raft_inner", "recv_msg: error: {}", "raft stopped");
            tracing::error!(target: "openraft::raft::raft_inner", "failed to receive from RaftCore: -");
            tracing::error!(target: "openraft::core::raft_core", "RaftCore::main error: {}", "the disk failed");
            tracing::error!(target: "leveret_node", "the placement says: raft stopped");
        });
        assert_eq!(*dropped.0.lock().expect("not poisoned"), [true, true, false, false]);
    }
}
