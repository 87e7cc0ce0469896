//! Filter expressions: any text is compiled or refused, evaluation allocates nothing, and its cost is bounded.
#![no_main]

use leveret_selector::{Budget, Dialect, Fields, FilterValue, MessageField, Selector, Verdict};
use libfuzzer_sys::fuzz_target;

/// The first byte chooses the dialect, the rest is the expression. The values of fields come from their names and the text,
/// so that expressions can compare fields of the same and of different types.
struct Message<'a> {
    text: &'a str,
}

impl Fields for Message<'_> {
    fn field(&self, field: &MessageField) -> FilterValue<'_> {
        match field {
            MessageField::Application(name) => match name.len() % 7 {
                0 => FilterValue::Null,
                1 => FilterValue::Int(i128::from(name.as_bytes()[0]) - 100),
                2 => FilterValue::float(f64::from(name.as_bytes()[0]) / 4.0),
                3 => FilterValue::Bool(name.as_bytes()[0] % 2 == 0),
                4 => FilterValue::text(self.text),
                5 => FilterValue::Bytes(&self.text.as_bytes()[self.text.len() / 2..]),
                _ => FilterValue::Uuid([name.as_bytes()[0]; 16]),
            },
            MessageField::Subject => FilterValue::text(self.text),
            MessageField::CorrelationId => FilterValue::Int(i128::MAX),
            MessageField::MessageId => FilterValue::Int(i128::MIN),
            _ => FilterValue::Null,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let dialect = if first % 2 == 0 { Dialect::Amqp } else { Dialect::Jms };
    let selector = match Selector::parse(text, dialect) {
        Ok(selector) => selector,
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.at));
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    selector.equality();
    let message = Message { text };
    let mut budget = Budget::new(u64::MAX);
    let mut verdict = Verdict::NoMatch;
    let cost = allocation_counter::measure(|| verdict = selector.evaluate(&message, 1_800_000_000_000, &mut budget));
    assert_eq!(cost.count_total, 0);
    // Each token costs a step, a comparison its bytes, and a pattern looks at no byte more often than it is long.
    let bytes = text.len() as u64;
    assert!(u64::MAX - budget.steps() <= 200 + 200 * bytes + bytes * bytes);
    assert_eq!(selector.evaluate(&message, 1_800_000_000_000, &mut Budget::new(1)), verdict);
    assert_eq!(selector.evaluate(&message, 0, &mut Budget::new(0)), Verdict::OutOfBudget);
});
