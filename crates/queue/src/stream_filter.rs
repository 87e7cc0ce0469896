//! Filters of a stream's readers.

use leveret_message::chunk::may_match;
use leveret_message::{Batch, Encoding};
use leveret_selector::{Budget, PropertyFilter, Selector, Verdict};

use crate::filter_fields::FilterFields;
use crate::planted::{Bug, is_planted};

/// The messages that a reader wants. Chunks are chosen by the values that their publishers gave (`x-stream-filter-value`), and
/// messages of such chunks by an expression or by their fields.
#[derive(Debug, Default)]
pub struct StreamFilter {
    /// One of these values; any if there are none.
    pub values: Vec<Box<str>>,
    /// Whether messages without a value are wanted as well, if there are values.
    pub match_unfiltered: bool,
    /// An SQL filter expression.
    pub expression: Option<Selector>,
    /// Fields that a message has to have, each of a section of its own.
    pub fields: Vec<PropertyFilter>,
}

impl StreamFilter {
    /// Whether a chunk with this Bloom filter may contain wanted messages.
    pub fn may_match(&self, bloom: &[u8]) -> bool {
        self.values.is_empty() || may_match(bloom, self.values.iter().map(|value| &**value), self.match_unfiltered)
    }

    /// Whether messages have to be looked at one by one.
    pub fn looks_at_messages(&self) -> bool {
        self.expression.is_some() || !self.fields.is_empty()
    }

    /// Whether a message is wanted, however much work it is to find out.
    pub fn is_match(&self, batch: &Batch, index: usize, now_ms: u64) -> bool {
        self.evaluate(batch, index, now_ms, &mut Budget::new(u64::MAX)) == Verdict::Match
    }

    /// Whether a message is wanted. `now_ms` is the present time in milliseconds since the Unix epoch.
    pub fn evaluate(&self, batch: &Batch, index: usize, now_ms: u64, budget: &mut Budget) -> Verdict {
        let view = batch.message(index).view();
        debug_assert_eq!(view.encoding, Encoding::Amqp10, "streams have messages of AMQP 1.0");
        if self.looks_at_messages() && budget.is_spent() {
            return Verdict::OutOfBudget;
        }
        let fields = FilterFields::new(&view);
        // A message that has begun is finished: filters that need more than the budget of a turn would never come to an end.
        let fields_match = self.fields.iter().all(|filter| {
            let verdict = with_rest(budget, |budget| filter.evaluate(&fields, budget));
            verdict == Verdict::Match
        });
        match &self.expression {
            _ if !fields_match || is_planted(Bug::SkipMatch) && index == 1 => Verdict::NoMatch,
            Some(expression) => with_rest(budget, |budget| expression.evaluate(&fields, now_ms, budget)),
            None => Verdict::Match,
        }
    }
}

/// Evaluates with the rest of a budget, even if that is nothing.
fn with_rest(budget: &mut Budget, evaluate: impl FnOnce(&mut Budget) -> Verdict) -> Verdict {
    if budget.is_spent() {
        return evaluate(&mut Budget::new(1));
    }
    evaluate(budget)
}
