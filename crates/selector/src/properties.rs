//! Property filters (AMQP Filter Expressions 1.0, section 4): references, all of which a message's fields must match.

use crate::{Budget, Fields, FilterValue, MessageField, Verdict};

/// The largest number of fields of a property filter.
pub const FIELDS_MAX: usize = 16;

/// A reference as a client wrote it, with the type that decides whether it fits its field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reference<'a> {
    /// Matches each value of an application property; properties don't take it.
    Null,
    /// A boolean.
    Bool(bool),
    /// A string. `&p:` and `&s:` at its beginning mean that the rest is a prefix or suffix of the value, `&&` means `&`.
    String(&'a str),
    /// A symbol.
    Symbol(&'a str),
    /// A binary.
    Binary(&'a [u8]),
    /// A UUID.
    Uuid([u8; 16]),
    /// An unsigned integer of 32 bits.
    Uint(u32),
    /// An unsigned integer of 64 bits.
    Ulong(u64),
    /// A timestamp in milliseconds since the Unix epoch.
    Timestamp(i64),
    /// An integer of another width, or a character.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A value of another type, which equals no field.
    Other,
}

/// Reasons why a property filter can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyFilterError {
    /// The number of fields is outside of the limits.
    #[error("the property filter has {fields} fields; give it 1 to {FIELDS_MAX}")]
    Fields {
        /// The number of fields.
        fields: usize,
    },
    /// The properties section has no such field.
    #[error("the properties section has no field {name:?}; its names have hyphens, such as message-id")]
    UnknownField {
        /// The name.
        name: String,
    },
    /// A reference has another type than its field.
    #[error("the reference of {name} has the wrong type; give it {expected}")]
    Type {
        /// The field.
        name: String,
        /// The types that it takes.
        expected: &'static str,
    },
    /// A string begins with `&` and no modifier.
    #[error("the reference {reference:?} begins with & and neither &p:, &s: nor &&; write && for one &")]
    Modifier {
        /// The string.
        reference: String,
    },
}

/// A compiled property filter.
#[derive(Debug, Clone, PartialEq)]
pub struct PropertyFilter {
    pub(crate) fields: Box<[(MessageField, Test)]>,
}

/// A reference as it is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    Anything,
    Never,
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes(Box<[u8]>),
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
}

impl PropertyFilter {
    /// A filter on fields of the properties section, by their symbols such as `message-id`.
    ///
    /// # Errors
    /// [`PropertyFilterError`] for too many fields or none, unknown fields, and references of the wrong type.
    pub fn properties<'a>(
        references: impl IntoIterator<Item = (&'a str, Reference<'a>)>,
    ) -> Result<Self, PropertyFilterError> {
        Self::new(references, |name, reference| {
            let field = MessageField::of_symbol(name);
            let field = field.ok_or_else(|| PropertyFilterError::UnknownField { name: name.to_owned() })?;
            match expected(&field, reference) {
                None => Ok((field, Test::of(reference)?)),
                Some(expected) => Err(PropertyFilterError::Type { name: name.to_owned(), expected }),
            }
        })
    }

    /// A filter on application properties.
    ///
    /// # Errors
    /// [`PropertyFilterError`] for too many fields or none, and for an unknown modifier.
    pub fn application_properties<'a>(
        references: impl IntoIterator<Item = (&'a str, Reference<'a>)>,
    ) -> Result<Self, PropertyFilterError> {
        Self::new(references, |name, reference| Ok((MessageField::Application(name.into()), Test::of(reference)?)))
    }

    fn new<'a>(
        references: impl IntoIterator<Item = (&'a str, Reference<'a>)>,
        compile: impl Fn(&str, Reference<'a>) -> Result<(MessageField, Test), PropertyFilterError>,
    ) -> Result<Self, PropertyFilterError> {
        let mut references = references.into_iter();
        let mut fields = Vec::new();
        for (name, reference) in references.by_ref() {
            if fields.len() == FIELDS_MAX {
                return Err(PropertyFilterError::Fields { fields: FIELDS_MAX + 1 + references.count() });
            }
            fields.push(compile(name, reference)?);
        }
        if fields.is_empty() {
            return Err(PropertyFilterError::Fields { fields: 0 });
        }
        Ok(Self { fields: fields.into() })
    }

    /// Whether all fields match.
    pub fn evaluate(&self, fields: &impl Fields, budget: &mut Budget) -> Verdict {
        if budget.is_spent() {
            return Verdict::OutOfBudget;
        }
        Verdict::of(self.fields.iter().all(|(field, test)| {
            budget.pay(1);
            budget.pay_for_bytes(fields.bytes(field));
            match test {
                Test::Anything => fields.has(field),
                test => test.holds(fields.field(field), budget),
            }
        }))
    }
}

/// The types that a field of the properties section takes, if the reference has none of them.
fn expected(field: &MessageField, reference: Reference<'_>) -> Option<&'static str> {
    let (fits, expected) = match field {
        MessageField::MessageId | MessageField::CorrelationId => (
            matches!(reference, Reference::Ulong(_) | Reference::Uuid(_) | Reference::Binary(_) | Reference::String(_)),
            "a string, ulong, UUID or binary",
        ),
        MessageField::UserId => (matches!(reference, Reference::Binary(_)), "a binary"),
        MessageField::ContentType | MessageField::ContentEncoding => {
            (matches!(reference, Reference::Symbol(_)), "a symbol")
        }
        MessageField::AbsoluteExpiryTime | MessageField::CreationTime => {
            (matches!(reference, Reference::Timestamp(_)), "a timestamp")
        }
        MessageField::GroupSequence => (matches!(reference, Reference::Uint(_)), "a uint"),
        _ => (matches!(reference, Reference::String(_)), "a string"),
    };
    (!fits).then_some(expected)
}

impl Test {
    fn of(reference: Reference<'_>) -> Result<Self, PropertyFilterError> {
        Ok(match reference {
            Reference::Null => Self::Anything,
            Reference::Bool(value) => Self::Bool(value),
            Reference::String(text) => return Self::of_string(text),
            Reference::Symbol(text) => Self::Bytes(text.as_bytes().into()),
            Reference::Binary(bytes) => Self::Bytes(bytes.into()),
            Reference::Uuid(bytes) => Self::Bytes(bytes.into()),
            Reference::Uint(value) => Self::Int(value.into()),
            Reference::Ulong(value) => Self::Int(value.into()),
            Reference::Timestamp(value) | Reference::Int(value) => Self::Int(value.into()),
            Reference::Float(value) if value.is_finite() => Self::Float(value),
            Reference::Float(_) | Reference::Other => Self::Never,
        })
    }

    fn of_string(text: &str) -> Result<Self, PropertyFilterError> {
        if let Some(suffix) = text.strip_prefix("&s:") {
            return Ok(Self::Suffix(suffix.as_bytes().into()));
        }
        if let Some(prefix) = text.strip_prefix("&p:") {
            return Ok(Self::Prefix(prefix.as_bytes().into()));
        }
        match text.strip_prefix('&') {
            None => Ok(Self::Bytes(text.as_bytes().into())),
            Some(escaped) if escaped.starts_with('&') => Ok(Self::Bytes(escaped.as_bytes().into())),
            Some(_) => Err(PropertyFilterError::Modifier { reference: text.to_owned() }),
        }
    }

    fn holds(&self, value: FilterValue<'_>, budget: &mut Budget) -> bool {
        let reference = match self {
            Self::Anything => return true,
            Self::Never => return false,
            Self::Prefix(part) | Self::Suffix(part) => {
                let Some(bytes) = value.bytes() else { return false };
                budget.pay_for_bytes(part.len());
                return if matches!(self, Self::Prefix(_)) { bytes.starts_with(part) } else { bytes.ends_with(part) };
            }
            Self::Bool(value) => FilterValue::Bool(*value),
            Self::Int(value) => FilterValue::Int(*value),
            Self::Float(value) => FilterValue::Float(*value),
            Self::Bytes(bytes) => FilterValue::Bytes(bytes),
        };
        value.equals(reference, budget)
    }
}
