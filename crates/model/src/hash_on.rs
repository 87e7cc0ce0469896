//! The part of a message that a consistent hash exchange hashes, and the weights of its bindings.

use std::sync::Arc;

use crate::{Arguments, Refused, Value};

/// The part of a message that a consistent hash exchange hashes (arguments `hash-header` and `hash-property`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HashOn {
    /// The routing key.
    #[default]
    RoutingKey,
    /// The header of this name.
    Header(Arc<str>),
    /// A property.
    Property(HashProperty),
}

/// A property that a consistent hash exchange can hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashProperty {
    /// `message_id`
    MessageId,
    /// `correlation_id`
    CorrelationId,
    /// `timestamp`
    Timestamp,
}

impl HashOn {
    /// Reads it from the arguments of the exchange.
    ///
    /// # Errors
    /// Both arguments are there, one isn't a string, or there is no such property.
    pub fn of(arguments: &Arguments) -> Result<Self, Refused> {
        match (text(arguments, "hash-header")?, text(arguments, "hash-property")?) {
            (None, None) => Ok(Self::RoutingKey),
            (Some(header), None) => Ok(Self::Header(header.into())),
            (None, Some("message_id")) => Ok(Self::Property(HashProperty::MessageId)),
            (None, Some("correlation_id")) => Ok(Self::Property(HashProperty::CorrelationId)),
            (None, Some("timestamp")) => Ok(Self::Property(HashProperty::Timestamp)),
            (None, Some(other)) => Err(Refused::precondition(format!("Unsupported property: {other}"))),
            (Some(_), Some(_)) => Err(Refused::precondition("hash-header and hash-property are mutually exclusive")),
        }
    }
}

fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<Option<&'a str>, Refused> {
    match arguments.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| wrong_type(name, value)),
    }
}

fn wrong_type(name: &str, value: &Value) -> Refused {
    Refused::precondition(format!(
        "invalid arg '{name}': expected a string, got '{value}' of type {}",
        value.type_name()
    ))
}

/// The weight that is the key of a binding of a consistent hash exchange.
///
/// # Errors
/// The key isn't an integer from 1 on, in RabbitMQ's words; or it is above 4294967295.
pub fn hash_weight(key: &[u8]) -> Result<u64, Refused> {
    let not_an_integer =
        || Refused::precondition(format!("The binding key must be an integer: {}", erlang_binary(key)));
    let text = std::str::from_utf8(key).map_err(|_| not_an_integer())?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(not_an_integer());
    }
    if text.starts_with('-') || digits.bytes().all(|byte| byte == b'0') {
        return Err(Refused::precondition("The binding key must be greater than 0"));
    }
    digits.parse::<u32>().map(u64::from).map_err(|_| {
        Refused::precondition(format!("The binding key is a weight of at most {}: received {text}", u32::MAX))
    })
}

/// Bytes as RabbitMQ shows them in this text: as Erlang does.
fn erlang_binary(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "<<>>".to_owned(),
        Ok(text) if !text.contains(char::is_control) => {
            let kind = if text.is_ascii() { "" } else { "/utf8" };
            format!("<<\"{}\"{kind}>>", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        _ => format!("<<{}>>", bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_integers_above_zero() {
        for (key, weight) in [("1", 1), ("+7", 7), ("007", 7), ("4294967295", 4_294_967_295)] {
            assert_eq!(hash_weight(key.as_bytes()), Ok(weight), "{key}");
        }
        for (key, text) in [
            ("", "The binding key must be an integer: <<>>"),
            ("\u{e9}", "The binding key must be an integer: <<\"\u{e9}\"/utf8>>"),
            ("\n\"", "The binding key must be an integer: <<10,34>>"),
            ("\"", "The binding key must be an integer: <<\"\\\"\">>"),
            ("a", "The binding key must be an integer: <<\"a\">>"),
            ("1.5", "The binding key must be an integer: <<\"1.5\">>"),
            (" 1", "The binding key must be an integer: <<\" 1\">>"),
            ("-", "The binding key must be an integer: <<\"-\">>"),
            ("0", "The binding key must be greater than 0"),
            ("-3", "The binding key must be greater than 0"),
            ("4294967296", "The binding key is a weight of at most 4294967295: received 4294967296"),
        ] {
            assert_eq!(hash_weight(key.as_bytes()).map_err(|refused| refused.text), Err(text.to_owned()));
        }
        assert!(hash_weight(b"\xff").is_err());
    }

    #[test]
    fn one_argument_at_most_says_what_is_hashed() {
        let of = |pairs: &[(&'static str, Value)]| {
            HashOn::of(&Arguments::from_iter(pairs.iter().cloned())).map_err(|refused| refused.text)
        };
        let header = ("hash-header", Value::from("h"));
        let property = |name: &str| ("hash-property", Value::from(name));
        assert_eq!(of(&[]), Ok(HashOn::RoutingKey));
        assert_eq!(of(std::slice::from_ref(&header)), Ok(HashOn::Header("h".into())));
        assert_eq!(of(&[property("timestamp")]), Ok(HashOn::Property(HashProperty::Timestamp)));
        assert_eq!(of(&[property("app_id")]), Err("Unsupported property: app_id".to_owned()));
        let both = "hash-header and hash-property are mutually exclusive";
        assert_eq!(of(&[header, property("message_id")]), Err(both.to_owned()));
        let text = "invalid arg 'hash-header': expected a string, got '5' of type signedint";
        assert_eq!(of(&[("hash-header", Value::Int(5))]), Err(text.to_owned()));
    }
}
