//! Builder for headers of AMQP 0-9-1.

use leveret_amqp091::{FieldTable, FieldValue};

/// Longest name of a header in bytes: a short string.
pub(super) const NAME_MAX: usize = 255;

/// Names and values in order of precedence.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pairs: Vec<(Vec<u8>, FieldValue)>,
}

impl Pairs {
    /// Adds a header, unless one of this name was added before or the name is too long.
    pub(super) fn push(&mut self, name: &[u8], value: FieldValue) {
        if name.len() <= NAME_MAX {
            self.pairs.push((name.to_vec(), value));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The headers in order of their names, as RabbitMQ writes them. Of headers with the same name only the first is
    /// kept.
    pub(super) fn into_table(mut self) -> FieldTable {
        self.pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.pairs.dedup_by(|(later, _), (first, _)| later == first);
        self.pairs.into_iter().collect()
    }
}
