//! Annotations that were added to a message: by consumers with the outcome `modified` of AMQP 1.0 (3.4.5).

use std::fmt;

use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{MapRef, Value};
use thiserror::Error;

use crate::annotations::{
    X_ACQUIRED_COUNT, X_DELAY, X_DELIVERY_COUNT, X_EXCHANGE, X_OPT_DEFERRAL_TOKEN, X_OPT_DELIVERY_TIME, X_ROUTING_KEY,
    X_STREAM_SKIPPED, is_death_annotation,
};
use crate::delivery_time;

/// Most bytes that one outcome may add, keys and values encoded.
pub const ADDED_BYTES_MAX: usize = 8 * 1024;
/// Most bytes of all annotations that were added to a message. If there would be more, the latest outcome's replace the others.
pub const ADDED_TOTAL_MAX: usize = 32 * 1024;
/// Most bytes of a deferral token.
pub const DEFERRAL_TOKEN_BYTES_MAX: usize = 256;
const MAP_32: u8 = 0xd1;
/// Bytes of a map with 32-bit size and count before its keys and values.
const MAP_HEAD: usize = 9;

/// Annotations in their encoded form: a map of AMQP 1.0 with 32-bit size and count.
#[derive(Clone, PartialEq, Eq)]
pub struct Added(Box<[u8]>);

/// An outcome has too many annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} bytes of message-annotations in a modified outcome are more than {ADDED_BYTES_MAX}")]
pub struct TooManyAdded(pub usize);

/// A deferral token isn't one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadToken {
    /// It isn't a string.
    #[error("a deferral token has to be a string (utf8), and is {0}")]
    NoString(String),
    /// It is too long.
    #[error("a deferral token of {0} bytes is longer than {DEFERRAL_TOKEN_BYTES_MAX}")]
    TooLong(usize),
}

/// A deferral token: a string of at most [`DEFERRAL_TOKEN_BYTES_MAX`] bytes.
///
/// # Errors
/// It has another type, or is too long.
pub fn deferral_token(value: Value<'_>) -> Result<&str, BadToken> {
    match value {
        Value::String(token) if token.len() > DEFERRAL_TOKEN_BYTES_MAX => Err(BadToken::TooLong(token.len())),
        Value::String(token) => Ok(token),
        other => Err(BadToken::NoString(format!("{other:?}"))),
    }
}

impl Added {
    /// The annotations of an outcome, without those that only the broker sets; `None` if there are none.
    ///
    /// # Errors
    /// There are too many of them.
    pub fn of(map: MapRef<'_>) -> Result<Option<Self>, TooManyAdded> {
        let length = map.as_bytes().len();
        if length > ADDED_BYTES_MAX {
            return Err(TooManyAdded(length));
        }
        let added = Self::from_pairs(raw_pairs(map).filter(|(name, _)| !name.is_some_and(is_of_the_broker)));
        Ok(Some(added).filter(|added| !added.map().is_empty()))
    }

    fn from_pairs<'a>(pairs: impl Iterator<Item = (Option<&'a str>, &'a [u8])>) -> Self {
        let mut bytes = vec![MAP_32, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut count = 0u32;
        for (_, raw) in pairs {
            count += 2;
            bytes.extend_from_slice(raw);
        }
        let size = (bytes.len() - MAP_HEAD + 4) as u32;
        bytes[1..5].copy_from_slice(&size.to_be_bytes());
        bytes[5..9].copy_from_slice(&count.to_be_bytes());
        Self(bytes.into())
    }

    /// These annotations with newer ones, which replace those of the same name. A newer time of delivery without a token replaces
    /// the token, too, which belongs to the older time.
    #[must_use]
    pub fn merged(&self, newer: &Self) -> Self {
        if self.0.len() + newer.0.len() > ADDED_TOTAL_MAX {
            return newer.clone();
        }
        let has = |name: &str| raw_pairs(newer.map()).any(|(other, _)| other == Some(name));
        let is_replaced = |name: &str| has(name) || name == X_OPT_DEFERRAL_TOKEN && has(X_OPT_DELIVERY_TIME);
        let kept = raw_pairs(self.map()).filter(|(name, _)| !name.is_some_and(is_replaced));
        Self::from_pairs(kept.chain(raw_pairs(newer.map())))
    }

    /// The annotations of a message that waits in a delayed exchange until `due_ms`, in milliseconds since the Unix epoch: that
    /// time, and its `x-delay` negated, which says that it has been delayed.
    pub fn of_delay(due_ms: u64, delay_ms: u32) -> Self {
        let negated = -i64::from(delay_ms);
        let negated = i32::try_from(negated).map_or(Value::Long(negated), Value::Int);
        let map = EncodedMap::new().with(X_DELAY, negated).with(X_OPT_DELIVERY_TIME, Value::Ulong(due_ms));
        Self::from_pairs(raw_pairs(map.as_map()))
    }

    /// The annotations of a message that waits in an exchange's queue until `due_ms`, in milliseconds since the Unix epoch.
    pub fn of_time(due_ms: u64) -> Self {
        Self::from_pairs(raw_pairs(EncodedMap::new().with(X_OPT_DELIVERY_TIME, Value::Ulong(due_ms)).as_map()))
    }

    /// The annotation of a message of a stream before which so many were skipped, because they can't be read.
    pub fn of_skipped(messages: u64) -> Self {
        let skipped = i64::try_from(messages).unwrap_or(i64::MAX);
        Self::from_pairs(raw_pairs(EncodedMap::new().with(X_STREAM_SKIPPED, Value::Long(skipped)).as_map()))
    }

    /// These annotations without the time of delivery.
    #[must_use]
    pub(crate) fn without_delivery_time(&self) -> Self {
        Self::from_pairs(raw_pairs(self.map()).filter(|(name, _)| *name != Some(X_OPT_DELIVERY_TIME)))
    }

    /// The annotations.
    pub fn map(&self) -> MapRef<'_> {
        map_of(&self.0).unwrap_or(MapRef::EMPTY)
    }

    /// The time before which the message isn't to be delivered again, in milliseconds since the Unix epoch: an integer or timestamp
    /// of the name `x-opt-delivery-time`.
    pub fn delivery_ms(&self) -> Option<u64> {
        delivery_time::annotated(self.map())
    }

    /// The token by which the message can be fetched before [its time](Self::delivery_ms); none without a time.
    ///
    /// # Errors
    /// It isn't a string of at most [`DEFERRAL_TOKEN_BYTES_MAX`] bytes.
    pub fn deferral_token(&self) -> Result<Option<&str>, BadToken> {
        let token = self.map().lookup(X_OPT_DEFERRAL_TOKEN).map(deferral_token).transpose()?;
        Ok(token.filter(|_| self.delivery_ms().is_some()))
    }

    /// The encoded form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Annotations from their encoded form. `None` if it isn't one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        map_of(bytes).map(|_| Self(bytes.into()))
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map().fmt(f)
    }
}

/// The map that consists of these bytes.
pub(crate) fn map_of(bytes: &[u8]) -> Option<MapRef<'_>> {
    match Value::decode_all(bytes) {
        Ok(Value::Map(map)) => Some(map),
        _ => None,
    }
}

/// The pairs of a map: the text of the key, if it has one, and both encoded.
pub(crate) fn raw_pairs(map: MapRef<'_>) -> impl Iterator<Item = (Option<&str>, &[u8])> {
    let mut pairs = map.iter();
    std::iter::from_fn(move || pairs.next_raw().map(|(key, raw)| (key.as_text(), raw)))
}

/// Whether only the broker sets an annotation of this name.
fn is_of_the_broker(name: &str) -> bool {
    matches!(name, X_EXCHANGE | X_ROUTING_KEY | X_ACQUIRED_COUNT | X_DELIVERY_COUNT) || is_death_annotation(name)
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::OwnedValue;
    use leveret_amqp10::value::OwnedMap;

    use super::*;

    fn added(pairs: &[(&str, OwnedValue)]) -> Option<Added> {
        let pairs = pairs.iter().map(|(key, value)| (OwnedValue::Symbol((*key).into()), value.clone()));
        let mut bytes = Vec::new();
        OwnedValue::Map(OwnedMap(pairs.collect())).encode(&mut bytes);
        Added::of(map_of(&bytes).expect("it is a map")).expect("it is short")
    }

    #[test]
    fn newer_annotations_replace_those_of_the_same_name() {
        let first = added(&[("x-opt-a", OwnedValue::Int(1)), ("x-opt-b", OwnedValue::Int(2))]).unwrap();
        let second = added(&[("x-opt-b", OwnedValue::Null), ("x-exchange", OwnedValue::Int(4))]).unwrap();
        let merged = first.merged(&second);
        assert_eq!(merged.map().len(), 2);
        assert_eq!(merged.map().lookup("x-opt-a"), Some(Value::Int(1)));
        assert_eq!(merged.map().lookup("x-opt-b"), Some(Value::Null));
        assert_eq!(Added::from_bytes(merged.as_bytes()), Some(merged.clone()));
        assert_eq!(Added::from_bytes(&merged.as_bytes()[1..]), None);
        assert_eq!(added(&[("x-exchange", OwnedValue::Int(4)), ("x-delivery-count", OwnedValue::Int(4))]), None);
    }

    #[test]
    fn a_time_of_delivery_is_an_integer_or_a_timestamp() {
        let time = |value| added(&[("x-opt-delivery-time", value)]).unwrap().delivery_ms();
        assert_eq!(time(OwnedValue::Timestamp(5_000)), Some(5_000));
        assert_eq!(time(OwnedValue::Ulong(5_000)), Some(5_000));
        assert_eq!(time(OwnedValue::Long(-1)), None);
        assert_eq!(time(OwnedValue::String("5000".into())), None);
    }

    #[test]
    fn a_deferral_token_is_a_string_beside_a_time() {
        let time = ("x-opt-delivery-time", OwnedValue::Ulong(5_000));
        let with = |token| added(&[("x-opt-deferral-token", token), time.clone()]).unwrap();
        let first = with(OwnedValue::String("a".into()));
        assert_eq!(first.deferral_token(), Ok(Some("a")));
        assert_eq!(with(OwnedValue::String("é".repeat(128))).deferral_token(), Ok(Some(&*"é".repeat(128))));
        assert_eq!(with(OwnedValue::String("é".repeat(129))).deferral_token(), Err(BadToken::TooLong(258)));
        let other = with(OwnedValue::Symbol("a".into())).deferral_token().unwrap_err();
        assert!(matches!(&other, BadToken::NoString(_)), "{other}");
        let alone = added(&[("x-opt-deferral-token", OwnedValue::String("b".into()))]).unwrap();
        assert_eq!(alone.deferral_token(), Ok(None));
        assert_eq!(first.merged(&alone).deferral_token(), Ok(Some("b")));
        assert_eq!(first.merged(&added(&[time]).unwrap()).map().lookup("x-opt-deferral-token"), None);
    }

    #[test]
    fn annotations_are_limited() {
        let large = |length: usize| OwnedValue::String("x".repeat(length));
        let mut bytes = Vec::new();
        let pairs = vec![(OwnedValue::Symbol("x-opt-a".into()), large(ADDED_BYTES_MAX))];
        OwnedValue::Map(OwnedMap(pairs)).encode(&mut bytes);
        assert!(matches!(Added::of(map_of(&bytes).unwrap()), Err(TooManyAdded(length)) if length > ADDED_BYTES_MAX));
        let of = |name: &str| added(&[(name, large(8_000))]).unwrap();
        let mut all = of("x-opt-0");
        for number in 1..4 {
            all = all.merged(&of(&format!("x-opt-{number}")));
        }
        assert_eq!(all.map().len(), 4);
        assert_eq!(all.merged(&of("x-opt-4")).map().len(), 1, "the latest is left");
    }
}
