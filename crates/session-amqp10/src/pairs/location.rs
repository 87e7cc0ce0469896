//! The location of a binding: `/bindings/src=:exchange;dstq=:queue;key=:key;args=:hash`, with `dste` for an exchange.
//! Names and key are percent-encoded. The hash distinguishes bindings that only differ in their arguments.

use leveret_model::{Arguments, Binding, Destination, Value};

use super::path::decode;
use super::refusal::{Refusal, Result};
use crate::address::percent_encode;

/// The binding that a path segment names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub source: String,
    pub destination: End,
    pub key: String,
    /// The hash of the arguments; see [`hash`].
    pub hash: String,
}

/// The destination of a binding, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Queue(String),
    Exchange(String),
}

impl Location {
    /// Reads a path segment.
    ///
    /// # Errors
    /// 400 if it is no location.
    pub(crate) fn parse(segment: &str) -> Result<Self> {
        let bad = || Refusal::bad_request(format!("bad binding path segment '{segment}'"));
        let mut parts = segment.splitn(4, ';');
        let mut part = |key: &str, empty: bool| {
            let value = parts.next()?.strip_prefix(key)?;
            (value.bytes().all(is_encoded) && (empty || !value.is_empty())).then_some(value)
        };
        let source = part("src=", false).ok_or_else(bad)?;
        let (kind, destination) = part("dst", false).and_then(|part| part.split_once('=')).ok_or_else(bad)?;
        let key = part("key=", true).ok_or_else(bad)?;
        let hash = part("args=", true).ok_or_else(bad)?;
        let destination = match (kind, destination) {
            (_, "") => return Err(bad()),
            ("q", queue) => End::Queue(decode(queue)?),
            ("e", exchange) => End::Exchange(decode(exchange)?),
            _ => return Err(bad()),
        };
        Ok(Self { source: decode(source)?, destination, key: decode(key)?, hash: hash.to_owned() })
    }

    /// Whether this binding has the key and the arguments.
    pub(crate) fn is_of(&self, binding: &Binding) -> bool {
        *binding.routing_key == *self.key.as_bytes() && hash(&binding.arguments) == self.hash
    }
}

/// The address of a binding, as clients get it. None if its key isn't UTF-8: such a binding has no address.
pub(crate) fn of(binding: &Binding) -> Option<String> {
    let kind = match binding.destination {
        Destination::Queue { .. } => 'q',
        Destination::Exchange { .. } => 'e',
    };
    Some(format!(
        "/bindings/src={};dst{kind}={};key={};args={}",
        percent_encode(&binding.source),
        percent_encode(binding.destination.name()),
        percent_encode(str::from_utf8(&binding.routing_key).ok()?),
        hash(&binding.arguments)
    ))
}

/// Whether a byte is unreserved or part of an escape; `=` separates kind and name of a destination.
fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'=')
}

/// Arguments in letters and digits: empty for none, FNV-1a of 64 bits in hexadecimal otherwise. It is the same after
/// a restart.
fn hash(arguments: &Arguments) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.table(arguments);
    format!("{:016x}", hash.0)
}

struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Hashes a text with its length, so that neighbours can't be confused.
    fn text(&mut self, tag: u8, bytes: &[u8]) {
        self.bytes(&[tag]);
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }

    fn table(&mut self, arguments: &Arguments) {
        self.text(b'F', &(arguments.len() as u64).to_le_bytes());
        for (key, value) in arguments.iter() {
            self.text(b'k', key.as_bytes());
            self.value(value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Void => self.text(b'V', &[]),
            Value::Bool(flag) => self.text(b't', &[u8::from(*flag)]),
            Value::Int(number) => self.text(b'l', &number.to_le_bytes()),
            Value::UInt(number) => self.text(b'L', &number.to_le_bytes()),
            Value::Double(number) => self.text(b'd', &number.to_bits().to_le_bytes()),
            Value::Decimal { scale, unscaled } => {
                self.text(b'D', &[*scale]);
                self.bytes(&unscaled.to_le_bytes());
            }
            Value::Timestamp(seconds) => self.text(b'T', &seconds.to_le_bytes()),
            Value::String(bytes) => self.text(b'S', bytes),
            Value::Bytes(bytes) => self.text(b'x', bytes),
            Value::Array(values) => {
                self.text(b'A', &(values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| self.value(value));
            }
            Value::Table(table) => self.table(table),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leveret_model::{ExchangeId, QueueId};

    use super::*;

    fn binding(arguments: Arguments) -> Binding {
        Binding {
            vhost: "/".into(),
            source: "x/ü".into(),
            destination: Destination::Queue { name: "q;=".into(), id: QueueId(1) },
            routing_key: Arc::from(&b"a.*=#"[..]),
            arguments,
            source_id: ExchangeId(1),
            logged: true,
        }
    }

    #[test]
    fn a_location_comes_back_to_its_binding_and_to_no_other() {
        let plain = binding(Arguments::default());
        let arguments = [
            Arguments::from_iter([("x-match", Value::from("all"))]),
            Arguments::from_iter([("a", Value::Int(1)), ("b", Value::from("c"))]),
            Arguments::from_iter([("a", Value::UInt(1)), ("b", Value::from("c"))]),
            Arguments::from_iter([("a", Value::Array(vec![Value::Void])), ("b", Value::Table(Arguments::default()))]),
        ];
        let mut all = vec![plain];
        all.extend(arguments.map(binding));
        for one in &all {
            let path = of(one).unwrap();
            let location = Location::parse(path.strip_prefix("/bindings/").unwrap()).unwrap();
            assert_eq!((&*location.source, &location.destination), ("x/ü", &End::Queue("q;=".into())));
            let found: Vec<_> = all.iter().filter(|other| location.is_of(other)).collect();
            assert_eq!(found, [one]);
        }
    }

    #[test]
    fn the_form_is_rabbitmqs() {
        assert_eq!(
            of(&binding(Arguments::default())).unwrap(),
            "/bindings/src=x%2F%C3%BC;dstq=q%3B%3D;key=a.%2A%3D%23;args="
        );
        let hashed = of(&binding(Arguments::from_iter([("x-match", Value::from("all"))]))).unwrap();
        // The hash must not change between versions: clients keep locations.
        assert!(hashed.ends_with(";args=90f5fa26e40e62f7"), "{hashed}");
        let exchange = Location::parse("src=a;dste=b;key=;args=").unwrap();
        assert_eq!(exchange.destination, End::Exchange("b".into()));
        assert_eq!(exchange.key, "");
    }

    #[test]
    fn an_invalid_location_is_refused() {
        for wrong in [
            "",
            "src=x",
            "src=x;key=k;args=",
            "src=;dstq=q;key=k;args=",
            "src=x;dstq=;key=k;args=",
            "src=x;dstx=q;key=k;args=",
            "src=x;dstq=q;key=k",
            "src=x;dstq=q;key=k;args=a;b",
            "src=x y;dstq=q;key=k;args=",
            "src=x;dstq=q;key=%zz;args=",
        ] {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
    }
}
