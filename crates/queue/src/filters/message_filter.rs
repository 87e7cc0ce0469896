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

    /// Its bytes, as nodes of a cluster tell it to each other: the dialect of its expression, empty without one, the expression if it has
    /// one, and each filter on fields. Each is behind its length (4, little endian).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        let mut put = |bytes: &[u8]| {
            to.extend((bytes.len() as u32).to_le_bytes());
            to.extend(bytes);
        };
        if let Some(expression) = &self.expression {
            let dialect: &[u8] = match expression.dialect() {
                Dialect::Amqp => b"amqp",
                Dialect::Jms => b"jms",
            };
            put(dialect);
            put(expression.text().as_bytes());
        } else {
            put(b"");
        }
        self.fields.iter().for_each(|filter| put(&filter.to_bytes()));
        to
    }

    /// The filter that these bytes are, compiled; `None` if they are none.
    pub fn from_bytes(mut from: &[u8]) -> Option<Self> {
        let mut take = || {
            let (length, rest) = from.split_first_chunk()?;
            let (found, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            from = rest;
            Some(found)
        };
        let dialect = match take()? {
            b"" => None,
            b"amqp" => Some(Dialect::Amqp),
            b"jms" => Some(Dialect::Jms),
            _ => return None,
        };
        let expression = match dialect {
            Some(dialect) => Some(Selector::parse(std::str::from_utf8(take()?).ok()?, dialect).ok()?),
            None => None,
        };
        let mut fields = Vec::new();
        while let Some(filter) = take() {
            fields.push(PropertyFilter::from_bytes(filter)?);
        }
        from.is_empty().then_some(Self { expression, fields })
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

#[cfg(test)]
mod tests {
    use leveret_selector::Reference;

    use super::*;

    #[test]
    fn filters_are_compiled_again_from_their_bytes() {
        let subject = || PropertyFilter::properties([("subject", Reference::String("x"))]).expect("a filter");
        let jms = Selector::parse("JMSPriority > 3 AND a LIKE 'b%'", Dialect::Jms).expect("a selector");
        let filters = [
            MessageFilter::default(),
            MessageFilter::sql("p.subject = 'x' AND y IS NULL").expect("an expression"),
            MessageFilter { expression: Some(jms), fields: vec![subject(), subject()] },
            MessageFilter { expression: None, fields: vec![subject()] },
        ];
        for filter in filters {
            let bytes = filter.to_bytes();
            let again = MessageFilter::from_bytes(&bytes).expect("the same filter");
            assert_eq!((&again.expression, &again.fields), (&filter.expression, &filter.fields));
            assert!(MessageFilter::from_bytes(&bytes[..bytes.len() - 1]).is_none());
        }
    }
}
