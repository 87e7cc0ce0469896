use leveret_model::{HashProperty, QueueId, Value};

/// A header of a message, borrowed from it if possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Header<'a> {
    /// A string or short string.
    String(&'a [u8]),
    /// A timestamp.
    Time {
        /// In milliseconds since the Unix epoch.
        time_ms: i128,
    },
    /// Any other value.
    Value(Value),
}

/// Access to the headers and properties of a message for routing.
pub trait Headers {
    /// The header of this name, if the message has one.
    fn lookup(&self, name: &str) -> Option<Header<'_>>;

    /// Whether it has no headers.
    fn is_empty(&self) -> bool;

    /// The queue of an exchange in which the message waited for that exchange to route it, if it comes from there.
    fn released_from(&self) -> Option<QueueId> {
        None
    }

    /// A property that an exchange may hash, if the message has it.
    fn property(&self, property: HashProperty) -> Option<Header<'_>>;
}

/// A message without headers and properties.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn lookup(&self, _: &str) -> Option<Header<'_>> {
        None
    }

    fn is_empty(&self) -> bool {
        true
    }

    fn property(&self, _: HashProperty) -> Option<Header<'_>> {
        None
    }
}

impl Header<'_> {
    /// Whether the header matches a binding's value by RabbitMQ's rules. Strings and bytes are compared by their
    /// bytes. Integers are compared whatever their width, but never with a float. Times also match their number of
    /// milliseconds. A binding without a value asks for presence only.
    pub fn satisfies(&self, wanted: &Value) -> bool {
        match (wanted, self) {
            (Value::Void, _) => true,
            (Value::String(wanted) | Value::Bytes(wanted), Header::String(bytes)) => wanted[..] == **bytes,
            (
                Value::String(wanted) | Value::Bytes(wanted),
                Header::Value(Value::String(bytes) | Value::Bytes(bytes)),
            ) => wanted == bytes,
            (_, Header::String(_)) => false,
            (Value::Timestamp(seconds), Header::Time { time_ms }) => i128::from(*seconds) * 1000 == *time_ms,
            (Value::Int(wanted), Header::Time { time_ms }) => i128::from(*wanted) == *time_ms,
            (_, Header::Time { .. }) => false,
            (wanted, Header::Value(value)) => {
                matches!(wanted, Value::Double(_)) == matches!(value, Value::Double(_)) && wanted.equivalent(value)
            }
        }
    }
}
