//! Filters on the fields of messages.

use leveret_message::Batch;
use leveret_selector::{Budget, Dialect, PropertyFilter, Selector, Verdict};

use super::filter_fields::FilterFields;
use crate::planted::{Bug, is_planted};

/// The messages that a consumer wants, by an expression or by their fields.
#[derive(Debug, Default)]
pub struct MessageFilter {
    /// An SQL filter expression, or a JMS selector.
    pub expression: Option<Selector>,
    /// Fields that a message has to have, each of a section of its own.
    pub fields: Vec<PropertyFilter>,
}

impl MessageFilter {
    /// A filter with an SQL filter expression.
    ///
    /// # Errors
    /// The problem with it.
    pub fn sql(text: &str) -> Result<Self, String> {
        let expression = Selector::parse(text, Dialect::Amqp).map_err(|error| error.to_string())?;
        Ok(Self { expression: Some(expression), fields: Vec::new() })
    }

    /// Whether it lets all messages through.
    pub fn is_empty(&self) -> bool {
        self.expression.is_none() && self.fields.is_empty()
    }

    /// Whether a message is wanted, however much work it is to find out. `now_ms` is the present time in milliseconds since the
    /// Unix epoch. `None` if nobody knows, as its fields are in a file and weren't read.
    pub fn is_match(&self, batch: &Batch, index: usize, now_ms: u64) -> Option<bool> {
        let verdict = self.evaluate(batch, index, now_ms, &mut Budget::new(u64::MAX));
        verdict.map(|verdict| verdict == Verdict::Match)
    }

    /// Whether a message is wanted. `now_ms` is the present time in milliseconds since the Unix epoch. `None` if nobody knows, as its
    /// fields are in a file and weren't read.
    pub fn evaluate(&self, batch: &Batch, index: usize, now_ms: u64, budget: &mut Budget) -> Option<Verdict> {
        if !self.is_empty() && budget.is_spent() {
            return Some(Verdict::OutOfBudget);
        }
        let view = batch.message(index).view_fields()?;
        let fields = FilterFields::new(&view);
        // A message that has begun is finished: filters that need more than the budget of a turn would never come to an end.
        let fields_match = self.fields.iter().all(|filter| {
            let verdict = with_rest(budget, |budget| filter.evaluate(&fields, budget));
            verdict == Verdict::Match
        });
        Some(match &self.expression {
            _ if !fields_match || is_planted(Bug::SkipMatch) && index == 1 => Verdict::NoMatch,
            Some(expression) => with_rest(budget, |budget| expression.evaluate(&fields, now_ms, budget)),
            None => Verdict::Match,
        })
    }
}

/// Evaluates with the rest of a budget, even if that is nothing.
fn with_rest(budget: &mut Budget, evaluate: impl FnOnce(&mut Budget) -> Verdict) -> Verdict {
    if budget.is_spent() {
        return evaluate(&mut Budget::new(1));
    }
    evaluate(budget)
}
