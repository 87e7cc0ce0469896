//! A message whose body is read from its file.

use bytes::Bytes;
use leveret_broker::bodies::WholeBody;
use leveret_queue::Taken;

use super::subscriptions::Level;

/// A message whose body is read from its file. Others wait behind it.
pub(crate) struct LargeDelivery {
    level: Level,
    /// The message, the only one of these.
    taken: Taken,
    body: WholeBody,
}

impl LargeDelivery {
    pub(crate) fn new(level: Level, taken: Taken, body: WholeBody) -> Self {
        Self { level, taken, body }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn taken(&self) -> &Taken {
        &self.taken
    }

    /// Whether its body was read.
    pub(crate) fn has_news(&self) -> bool {
        self.body.has_news()
    }

    /// The message, and its body or the reason why it can't be read; `None` while the read isn't finished.
    pub(crate) fn look(&mut self) -> Option<(&Taken, Result<&Bytes, &str>)> {
        let taken = &self.taken;
        self.body.look().map(|body| (taken, body))
    }
}
