use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Refused, Value};

/// Deepest nesting of arrays and tables in arguments. The JSON of records allows for a little more.
pub const ARGUMENT_DEPTH_MAX: usize = 16;

/// The arguments of an exchange, queue, binding or consumer: a table sorted by key. Of a duplicate key only the last
/// value is kept. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arguments(Option<Arc<[Pair]>>);

type Pair = (Arc<str>, Value);

impl Arguments {
    /// The table of these pairs.
    pub fn new(mut pairs: Vec<Pair>) -> Self {
        if pairs.is_empty() {
            return Arguments(None);
        }
        // Reversed, the stable sort puts the last pair of a key first, and `dedup` keeps the first.
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| later.0 == kept.0);
        Arguments(Some(pairs.into()))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let pairs = self.as_slice();
        let at = pairs.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&pairs[at].1)
    }

    /// All pairs in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.as_slice().iter().map(|(key, value)| (&**key, value))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The same table with one pair added or replaced.
    pub fn with(&self, key: &str, value: Value) -> Self {
        let mut pairs = self.as_slice().to_vec();
        pairs.push((Arc::from(key), value));
        Arguments::new(pairs)
    }

    /// Depth of nested arrays and tables; 0 without arguments.
    pub fn depth(&self) -> usize {
        self.iter().map(|(_, value)| value.depth()).max().unwrap_or(0)
    }

    /// The table as JSON of the HTTP API.
    pub fn to_json(&self) -> serde_json::Value {
        let pairs = self.iter().map(|(key, value)| (key.to_owned(), value.to_json()));
        serde_json::Value::Object(pairs.collect())
    }

    /// The table for a JSON object of the HTTP API; any other JSON value means no arguments.
    pub fn from_json(json: &serde_json::Value) -> Self {
        let pairs = json.as_object().into_iter().flatten();
        pairs.map(|(key, value)| (&**key, Value::from_json(value))).collect()
    }

    pub(crate) fn check_depth(&self) -> Result<(), Refused> {
        match self.depth() {
            depth if depth > ARGUMENT_DEPTH_MAX => Err(Refused::precondition(format!(
                "invalid arguments: nested {depth} deep, at most {ARGUMENT_DEPTH_MAX} are allowed"
            ))),
            _ => Ok(()),
        }
    }

    fn as_slice(&self) -> &[Pair] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, Value)> for Arguments {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(pairs: I) -> Self {
        Arguments::new(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let pairs = std::collections::BTreeMap::<String, Value>::deserialize(input)?;
        Ok(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_wins_and_order_does_not_matter() {
        let a = Arguments::from_iter([("b", Value::Int(1)), ("a", Value::Int(2)), ("b", Value::Int(3))]);
        let b = Arguments::from_iter([("a", Value::Int(2)), ("b", Value::Int(3))]);
        assert_eq!(a, b);
        assert_eq!(a.get("b"), Some(&Value::Int(3)));
        assert_eq!(a.get("c"), None);
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused_and_up_to_it_logged() {
        let nest = |depth: usize| {
            let mut value = Value::Int(1);
            for _ in 1..depth {
                value = Value::Table(Arguments::from_iter([("k", value)]));
            }
            Arguments::from_iter([("k", value)])
        };
        assert!(nest(ARGUMENT_DEPTH_MAX + 1).check_depth().is_err());
        let deepest = nest(ARGUMENT_DEPTH_MAX);
        assert!(deepest.check_depth().is_ok());
        let json = serde_json::to_string(&vec![&deepest]).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Arguments>>(&json).unwrap(), [deepest]);
    }
}
