//! Fields of request bodies, interpreted as by RabbitMQ.

use leveret_model::Arguments;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// The name by which paths and permissions call the default exchange.
const DEFAULT_EXCHANGE: &str = "amq.default";

type Object = Map<String, Value>;

/// The name of the exchange for a segment of a path, or a field.
pub(crate) fn exchange_named(word: &str) -> &str {
    if word == DEFAULT_EXCHANGE { "" } else { word }
}

/// Requires a name of what is declared: a path can have an empty one, which no client could use.
///
/// # Errors
/// It is empty.
pub(crate) fn check_name(kind: &str, name: &str) -> Result<(), Error> {
    match name.is_empty() {
        true => Err(Error::BadRequest(format!("the name of a {kind} is empty; it needs at least one character"))),
        false => Ok(()),
    }
}

/// Requires all of these fields.
///
/// # Errors
/// Names the missing ones, in RabbitMQ's format.
pub(crate) fn require(body: &Object, keys: &[&str]) -> Result<(), Error> {
    let missing: Vec<String> =
        keys.iter().filter(|key| !body.contains_key(**key)).map(|key| format!("{{key_missing,{key}}}")).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::BadRequest(format!("[{}]", missing.join(",")))) }
}

/// A mandatory text.
///
/// # Errors
/// It is missing or not a text.
pub(crate) fn text<'a>(body: &'a Object, key: &str) -> Result<&'a str, Error> {
    match body.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(Error::BadRequestOf(json!(["not_string", other]))),
        None => Err(Error::BadRequest(format!("[{{key_missing,{key}}}]"))),
    }
}

/// An optional text.
///
/// # Errors
/// It isn't a text.
pub(crate) fn text_or<'a>(body: &'a Object, key: &str, default: &'a str) -> Result<&'a str, Error> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(_) => text(body, key),
    }
}

/// A boolean, which clients also send as text.
///
/// # Errors
/// It is something else.
pub(crate) fn flag(body: &Object, key: &str) -> Result<bool, Error> {
    flag_or(body, key, false)
}

/// A flag, if it is given.
///
/// # Errors
/// It is something else.
pub(crate) fn optional_flag(body: &Object, key: &str) -> Result<Option<bool>, Error> {
    let is_given = body.get(key).is_some_and(|value| !value.is_null());
    is_given.then(|| flag(body, key)).transpose()
}

/// As [`flag`], with a default.
///
/// # Errors
/// It is something else.
pub(crate) fn flag_or(body: &Object, key: &str, default: bool) -> Result<bool, Error> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(other) => Err(Error::BadRequestOf(json!(["not_boolean", other]))),
    }
}

/// A number that isn't negative, which clients also send as text.
///
/// # Errors
/// It is something else.
pub(crate) fn count(value: &Value) -> Result<u64, Error> {
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    number.ok_or_else(|| Error::BadRequestOf(json!(["not_integer", value])))
}

/// Arguments of a declaration. Clients written in PHP send an empty table as an empty list.
///
/// # Errors
/// They aren't an object.
pub(crate) fn arguments(body: &Object) -> Result<Arguments, Error> {
    match body.get("arguments") {
        None | Some(Value::Null) => Ok(Arguments::default()),
        Some(json @ Value::Object(_)) => Ok(Arguments::from_json(json)),
        Some(Value::Array(list)) if list.is_empty() => Ok(Arguments::default()),
        Some(_) => Err(Error::BadRequest("arguments is no object".to_owned())),
    }
}

/// Tags: a list of texts, or one text separated by commas.
///
/// # Errors
/// They are something else.
pub(crate) fn tags(value: &Value) -> Result<Vec<std::sync::Arc<str>>, Error> {
    let split = |text: &str| -> Vec<std::sync::Arc<str>> {
        text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(Into::into).collect()
    };
    let wrong = || Error::BadRequest("tags are neither a text nor a list of texts".to_owned());
    match value {
        Value::String(text) => Ok(split(text)),
        Value::Array(list) => list.iter().map(|tag| tag.as_str().map(Into::into).ok_or_else(wrong)).collect(),
        Value::Null => Ok(Vec::new()),
        _ => Err(wrong()),
    }
}

/// Checks the node on which something is to be created, if the request names one.
///
/// # Errors
/// It isn't this one, which is the only member.
pub(crate) fn check_node(body: &Map<String, Value>, own: &str) -> Result<(), Error> {
    match text_or(body, "node", own)? {
        "" => Ok(()),
        node if node == own => Ok(()),
        other => Err(Error::BadRequest(format!("Node {other} is not a cluster member"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn flags_and_counts_come_as_text_too() {
        let body = object(json!({"a": true, "b": "true", "c": "false", "d": "x"}));
        let flags: Vec<_> = ["a", "b", "c", "none"].iter().map(|key| flag(&body, key).ok()).collect();
        assert_eq!(flags, [Some(true), Some(true), Some(false), Some(false)]);
        assert!(flag(&body, "d").is_err());
        assert_eq!(count(&json!("12")).ok(), Some(12));
        assert!(count(&json!(-1)).is_err());
    }

    #[test]
    fn every_missing_key_is_named() {
        let Err(Error::BadRequest(reason)) = require(&object(json!({"b": 1})), &["a", "b", "c"]) else {
            panic!("two are missing")
        };
        assert_eq!(reason, "[{key_missing,a},{key_missing,c}]");
    }

    #[test]
    fn tags_are_a_text_or_a_list() {
        let tags =
            |value: Value| tags(&value).map(|tags| tags.iter().map(ToString::to_string).collect::<Vec<_>>()).ok();
        assert_eq!(tags(json!("a , b,")), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(tags(json!(["a", "b"])), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(tags(json!("")), Some(vec![]));
        assert_eq!(tags(json!(5)), None);
    }
}
