use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Arguments;

/// A value in the arguments of an exchange, queue, binding or consumer.
///
/// Integers keep their value, not their width: RabbitMQ treats arguments that differ only in width as equivalent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Value {
    /// No value (0-9-1 type `V`).
    Void,
    /// A boolean.
    Bool(bool),
    /// Any integer that fits.
    Int(i64),
    /// An unsigned integer that `Int` can't hold.
    UInt(u64),
    /// A float or double.
    Double(#[serde(with = "bits")] f64),
    /// `unscaled` divided by ten to the power of `scale`.
    Decimal {
        /// Number of digits after the decimal point.
        scale: u8,
        /// The digits.
        unscaled: i32,
    },
    /// Seconds since 1970.
    Timestamp(u64),
    /// A 0-9-1 long string; UTF-8 by convention only.
    String(#[serde(with = "text")] Arc<[u8]>),
    /// Opaque bytes (0-9-1 type `x`).
    Bytes(#[serde(with = "text")] Arc<[u8]>),
    /// A list.
    Array(Vec<Value>),
    /// A nested table.
    Table(Arguments),
}

impl Value {
    /// A string value.
    pub fn string(text: impl AsRef<[u8]>) -> Self {
        Value::String(Arc::from(text.as_ref()))
    }

    /// The text, if this is a string of valid UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The number, if this is an integer that fits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            Value::UInt(n) => i64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// The name of the type, as in RabbitMQ's error texts. The width of an integer isn't kept, so the name is that of
    /// the narrowest type that clients use for the value.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Void => "void",
            Value::Bool(_) => "bool",
            Value::Int(n) if i32::try_from(*n).is_ok() => "signedint",
            Value::Int(_) | Value::UInt(_) => "long",
            Value::Double(_) => "double",
            Value::Decimal { .. } => "decimal",
            Value::Timestamp(_) => "timestamp",
            Value::String(_) => "longstr",
            Value::Bytes(_) => "binary",
            Value::Array(_) => "array",
            Value::Table(_) => "table",
        }
    }

    /// Whether RabbitMQ treats both values as the same argument: integers of any width by value, everything else by
    /// type and value.
    pub fn equivalent(&self, other: &Value) -> bool {
        match (self.integer(), other.integer()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self == other,
            _ => false,
        }
    }

    /// Depth of nested arrays and tables; 1 for a plain value.
    pub fn depth(&self) -> usize {
        match self {
            Value::Array(values) => 1 + values.iter().map(Value::depth).max().unwrap_or(0),
            Value::Table(table) => 1 + table.depth(),
            _ => 1,
        }
    }

    /// The value as JSON of RabbitMQ's HTTP API, where a string and a list of bytes look alike.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Value::Void => Json::Null,
            Value::Bool(b) => Json::from(*b),
            Value::Int(n) => Json::from(*n),
            Value::UInt(n) | Value::Timestamp(n) => Json::from(*n),
            Value::Double(n) => Json::from(*n),
            Value::Decimal { scale, unscaled } => Json::from(f64::from(*unscaled) / 10f64.powi(i32::from(*scale))),
            Value::String(bytes) | Value::Bytes(bytes) => Json::from(String::from_utf8_lossy(bytes).into_owned()),
            Value::Array(values) => values.iter().map(Value::to_json).collect(),
            Value::Table(table) => table.to_json(),
        }
    }

    /// The value for a JSON value of the HTTP API.
    pub fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Void,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Value::Int(n),
                (None, Some(n)) => Value::UInt(n),
                (None, None) => Value::Double(n.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(s) => Value::string(s),
            Json::Array(values) => Value::Array(values.iter().map(Value::from_json).collect()),
            Json::Object(_) => Value::Table(Arguments::from_json(json)),
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(i128::from(*n)),
            Value::UInt(n) => Some(i128::from(*n)),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Void => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::UInt(_) => 3,
            Value::Double(_) => 4,
            Value::Decimal { .. } => 5,
            Value::Timestamp(_) => 6,
            Value::String(_) => 7,
            Value::Bytes(_) => 8,
            Value::Array(_) => 9,
            Value::Table(_) => 10,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::string(text)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

/// The text in error messages: numbers and strings bare, the rest as RabbitMQ's JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(bytes) | Value::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            other => other.to_json().fmt(f),
        }
    }
}

/// A total order, so that values can be part of a binding's identity: doubles are compared by their bits.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::UInt(a), Value::UInt(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            (Value::Double(a), Value::Double(b)) => a.to_bits().cmp(&b.to_bits()),
            (Value::Decimal { scale, unscaled }, Value::Decimal { scale: other_scale, unscaled: other_unscaled }) => {
                (scale, unscaled).cmp(&(other_scale, other_unscaled))
            }
            (Value::String(a), Value::String(b)) | (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Array(a), Value::Array(b)) => a.cmp(b),
            (Value::Table(a), Value::Table(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

/// Encodes doubles as their bits: JSON has no NaN and no infinity.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        u64::deserialize(input).map(f64::from_bits)
    }
}

/// Encodes bytes as text if they are UTF-8, otherwise as a list of numbers.
pub(crate) mod text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, out: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => out.serialize_str(text),
            Err(_) => bytes[..].serialize(out),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Arc<[u8]>, D::Error> {
        Ok(match Either::deserialize(input)? {
            Either::Text(text) => Arc::from(text.into_bytes()),
            Either::Bytes(bytes) => Arc::from(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_equivalent_by_value_and_to_nothing_else() {
        assert!(Value::Int(5).equivalent(&Value::UInt(5)));
        assert!(!Value::Int(5).equivalent(&Value::Double(5.0)));
        assert!(!Value::Int(5).equivalent(&Value::from("5")));
        assert!(Value::from("a").equivalent(&Value::from("a")));
    }

    #[test]
    fn every_value_survives_the_record() {
        let values = vec![
            Value::Void,
            Value::Bool(true),
            Value::Int(-5),
            Value::UInt(u64::MAX),
            Value::Double(f64::NAN),
            Value::Double(f64::NEG_INFINITY),
            Value::Decimal { scale: 2, unscaled: -314 },
            Value::Timestamp(7),
            Value::from("text"),
            Value::string([0xff, 0x00]),
            Value::Bytes(Arc::from([1u8, 2])),
            Value::Array(vec![Value::Int(1), Value::from("x")]),
            Value::Table(Arguments::from_iter([("k", Value::Int(1))])),
        ];
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Value>>(&json).unwrap(), values);
    }
}
