//! A message's headers as routing asks for them.

use leveret_amqp091::{Table, Value};
use leveret_model as model;
use leveret_routing::Headers;

use super::arguments;

/// The headers of a message being routed; none when it has none.
pub(crate) struct MessageHeaders<'a>(pub Option<Table<'a>>);

impl Headers for MessageHeaders<'_> {
    fn get(&self, name: &str) -> Option<model::Value> {
        let value: Value<'_> = self.0.as_ref()?.lookup(name)?;
        Some(arguments::value(value))
    }
}
