//! Events, by RabbitMQ's names and with its properties: what is left as a [notice](crate::notices) when something happened.
//!
//! RabbitMQ writes some values as Erlang shows them: arguments, addresses, processes.

mod changes;
mod clients;

use core::net::{IpAddr, Ipv6Addr};

use leveret_message::own::{HeaderTable, HeaderValue, erlang};
use leveret_model::{Arguments, Value};

pub(crate) use changes::{changed, queue_policy_changed};
pub use clients::{
    ConsumerEvent, alarm_changed, channel_closed, channel_opened, connection_closed, connection_opened, consumer_added,
    consumer_removed, logged_in, login_failed,
};

/// The user that RabbitMQ names for what the broker does by itself.
const INTERNAL_USER: &str = "rmq-internal";

/// A table in the making.
#[derive(Default)]
struct Event(HeaderTable);

impl Event {
    fn new() -> Self {
        Self::default()
    }

    fn with(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.0.push((name.into(), value));
        self
    }

    fn text(self, name: &'static str, text: impl AsRef<[u8]>) -> Self {
        self.with(name, HeaderValue::text(text))
    }

    fn flag(self, name: &'static str, flag: bool) -> Self {
        self.with(name, HeaderValue::Bool(flag))
    }

    fn number(self, name: &'static str, number: impl TryInto<i64>) -> Self {
        self.with(name, HeaderValue::Long(number.try_into().unwrap_or(i64::MAX)))
    }

    fn texts<T: AsRef<str>>(self, name: &'static str, texts: impl IntoIterator<Item = T>) -> Self {
        let texts = texts.into_iter().map(|text| HeaderValue::text(text.as_ref())).collect();
        self.with(name, HeaderValue::List(texts))
    }

    fn arguments(self, name: &'static str, arguments: &Arguments) -> Self {
        self.with(name, terms(arguments))
    }

    /// The user whose action it was; none for the broker itself.
    fn by(self, actor: &str) -> Self {
        self.text("user_who_performed_action", if actor.is_empty() { INTERNAL_USER } else { actor })
    }

    fn table(self) -> HeaderTable {
        self.0
    }
}

fn terms(arguments: &Arguments) -> HeaderValue {
    HeaderValue::Terms(table(arguments))
}

fn table(arguments: &Arguments) -> HeaderTable {
    arguments.iter().map(|(name, value)| (name.to_string().into(), header_value(value))).collect()
}

fn header_value(value: &Value) -> HeaderValue {
    match value {
        Value::Void => HeaderValue::text("undefined"),
        Value::Bool(flag) => HeaderValue::Bool(*flag),
        Value::Int(number) => i32::try_from(*number).map_or(HeaderValue::Long(*number), HeaderValue::Int),
        Value::UInt(number) | Value::Timestamp(number) => HeaderValue::Long(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Double(number) => HeaderValue::Double(*number),
        Value::Decimal { scale, unscaled } => HeaderValue::Double(f64::from(*unscaled) / 10f64.powi(i32::from(*scale))),
        Value::String(bytes) | Value::Bytes(bytes) => HeaderValue::Text(bytes.to_vec()),
        Value::Array(values) => HeaderValue::List(values.iter().map(header_value).collect()),
        Value::Table(arguments) => HeaderValue::Table(table(arguments)),
    }
}

/// A value that came as JSON, whose integers RabbitMQ always writes with 64 bits.
fn wide(value: &Value) -> HeaderValue {
    match value {
        Value::Int(number) => HeaderValue::Long(*number),
        Value::Array(values) => HeaderValue::List(values.iter().map(wide).collect()),
        Value::Table(arguments) => HeaderValue::Table(wide_table(arguments)),
        other => header_value(other),
    }
}

fn wide_table(arguments: &Arguments) -> HeaderTable {
    arguments.iter().map(|(name, value)| (name.to_string().into(), wide(value))).collect()
}

/// Arguments as Erlang shows them, each such as `{<<"name">>,longstr,<<"text">>}`.
pub fn erlang_pairs(arguments: &Arguments) -> Vec<String> {
    erlang::pairs(&table(arguments)).collect()
}

/// Texts as Erlang shows a list of them, such as `[<<"a">>,<<"b">>]`.
pub fn erlang_texts<'a>(texts: impl Iterator<Item = &'a [u8]>) -> String {
    erlang::binaries(texts)
}

/// An address as Erlang shows it, such as `{127,0,0,1}`.
fn address(address: IpAddr) -> String {
    let join = |parts: Vec<String>| format!("{{{}}}", parts.join(","));
    match address.to_canonical() {
        IpAddr::V4(address) => join(address.octets().iter().map(u8::to_string).collect()),
        IpAddr::V6(address) => join(Ipv6Addr::segments(&address).iter().map(u16::to_string).collect()),
    }
}

/// A connection or a channel as Erlang shows a process of a node.
fn process(node: &str, connection: u64, channel: u16) -> String {
    format!("<{node}.0.{connection}.{channel}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_values_look_as_in_rabbitmq() {
        assert_eq!(address("::ffff:127.0.0.1".parse().expect("an address")), "{127,0,0,1}");
        assert_eq!(address("::1".parse().expect("an address")), "{0,0,0,0,0,0,0,1}");
        assert_eq!(process("a@b", 7, 1), "<a@b.0.7.1>");
        let arguments = Arguments::new(vec![("n".into(), Value::Int(5)), ("l".into(), Value::Int(1 << 40))]);
        let expected = vec![("l".into(), HeaderValue::Long(1 << 40)), ("n".into(), HeaderValue::Int(5))];
        assert_eq!(terms(&arguments), HeaderValue::Terms(expected));
        let table = Value::Table(Arguments::new(vec![("a".into(), Value::Int(1))]));
        assert_eq!(wide(&table), HeaderValue::Table(vec![("a".into(), HeaderValue::Long(1))]));
    }
}
