use leveret_model::Value;

/// A header of a message, borrowed from it where that is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Header<'a> {
    /// A string or the short form of one.
    String(&'a [u8]),
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
    /// Whether the header is what a binding asks for. A binding without a value asks for presence only.
    pub(crate) fn satisfies(&self, wanted: &Value) -> bool {
        match (wanted, self) {
            (Value::Void, _) => true,
            (Value::String(wanted), Header::String(text)) => wanted[..] == **text,
            (_, Header::String(_)) => false,
            (wanted, Header::Value(value)) => wanted.equivalent(value),
        }
    }
}
