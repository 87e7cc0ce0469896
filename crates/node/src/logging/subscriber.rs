//! The subscriber that takes lines from `tracing`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_config::LogLevel;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::Inner;
use super::line::{Line, classify, is_engines_end, is_engines_warning, is_foreign};

pub(super) struct LogSubscriber {
    log: Arc<Inner>,
}

impl LogSubscriber {
    pub(super) fn new(log: Arc<Inner>) -> Self {
        Self { log }
    }

    /// Whether any output may take it. This is called once per place in the code, until levels change.
    fn is_wanted(&self, metadata: &Metadata<'_>) -> bool {
        let (category, level) = classify(metadata);
        let is_foreign = is_foreign(metadata) && level > LogLevel::Warning;
        if metadata.is_span() || is_foreign || is_engines_warning(metadata) {
            return false;
        }
        // An error may turn out to be critical.
        let level = if level == LogLevel::Error { LogLevel::Critical } else { level };
        self.log.running.load().iter().any(|running| running.levels.of(category) >= level)
    }
}

impl Subscriber for LogSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.is_wanted(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        if self.log.is_stopped.load(Ordering::Acquire) {
            return;
        }
        let line = Arc::new(Line::of(event));
        if is_engines_end(event.metadata(), &line) {
            return;
        }
        let mut is_recent = false;
        for running in self.log.running.load().iter().filter(|running| running.levels.of(line.category) >= line.level) {
            is_recent = true;
            if self.log.takes(&running.target) {
                running.writer.write(line.clone());
            }
        }
        if is_recent {
            self.log.recent.add(&line);
        }
    }

    // There are no spans.

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
