//! A message's headers as routing asks for them.

use leveret_message::headers::Header as MessageHeader;
use leveret_model::Value;
use leveret_routing::{Header, Headers};

/// Application properties and annotations of a message being routed.
pub(crate) struct MessageHeaders<'a, 'm>(pub &'a leveret_message::headers::Headers<'m>);

impl Headers for MessageHeaders<'_, '_> {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        let value = match self.0.lookup(name)? {
            MessageHeader::Bytes(bytes) => return Some(Header::String(bytes)),
            MessageHeader::Uuid(bytes) => Value::String(bytes.as_slice().into()),
            MessageHeader::Integer(value) => Value::Int(i64::try_from(value).ok()?),
            MessageHeader::Double(value) => Value::Double(value),
            MessageHeader::Bool(value) => Value::Bool(value),
            MessageHeader::Timestamp(value) => Value::Timestamp(u64::try_from(value / 1000).ok()?),
            MessageHeader::Void => Value::Void,
            MessageHeader::Complex(_) => return None,
        };
        Some(Header::Value(value))
    }
}
