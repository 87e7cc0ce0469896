//! A message's headers as routing asks for them.

use leveret_amqp091::{Table, Value};
use leveret_routing::{Header, Headers};

use super::arguments;

/// The headers of a message being routed; none when it has none.
pub(crate) struct MessageHeaders<'a>(pub Option<Table<'a>>);

impl Headers for MessageHeaders<'_> {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        match self.0.as_ref()?.lookup(name)? {
            Value::LongString(bytes) => Some(Header::String(bytes)),
            other => Some(Header::Value(arguments::value(other))),
        }
    }
}
