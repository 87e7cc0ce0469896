//! The exchange for log lines.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arc_swap::ArcSwapOption;
use leveret_broker::notices::Notices;
use leveret_config::Format;

use super::format::render;
use super::line::Line;

/// The node that publishes lines, once one runs.
pub(super) type Publisher = ArcSwapOption<Notices>;

/// Makes messages of lines, and leaves them to be published.
pub(super) struct LogExchange {
    publisher: Arc<Publisher>,
    format: Format,
}

impl LogExchange {
    pub(super) fn new(publisher: Arc<Publisher>, format: Format) -> Self {
        Self { publisher, format }
    }

    pub(super) fn write(&self, line: &Line) {
        let Some(notices) = &*self.publisher.load() else { return };
        let mut body = Vec::new();
        render(&self.format, line, "", &mut body);
        let time_s = line.time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let content_type = if self.format.json { "application/json" } else { "text/plain" };
        notices.line(line.level.name(), content_type, time_s, body);
    }
}
