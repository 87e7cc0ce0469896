use leveret_model::Value;

/// A header of a message, borrowed from it where that is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Header<'a> {
    /// A string or the short form of one.
    String(&'a [u8]),
    /// A time.
    Time {
        /// In milliseconds since the Unix epoch.
        time_ms: i128,
    },
    /// Anything else.
    Value(Value),
}

/// How routing sees the headers of a message.
pub trait Headers {
    /// The header of this name, if the message has one.
    fn lookup(&self, name: &str) -> Option<Header<'_>>;
}

/// The headers of a message that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn lookup(&self, _: &str) -> Option<Header<'_>> {
        None
    }
}

impl Header<'_> {
    /// Whether the header is what a binding asks for, as RabbitMQ compares: strings and bytes by their bytes, integers
    /// whatever their width, but never with a float, and times also with their number of milliseconds. A binding
    /// without a value asks for presence only.
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
