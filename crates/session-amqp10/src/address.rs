//! Addresses of targets and sources: version 2, and version 1 where the operator permits it.
//!
//! Version 2 is `/exchanges/:exchange/:routing-key`, `/exchanges/:exchange` and `/queues/:queue`, each segment
//! percent-encoded (RFC 3986). Version 1 is RabbitMQ 3's: `/exchange/:exchange/:key`, `/topic/:key`,
//! `/amq/queue/:queue`, `/queue/:queue`, `:queue`, `/queue`.

use std::sync::Arc;

/// Bytes of a routing key.
const ROUTING_KEY_MAX: usize = 255;

/// The destination of a sending client's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An exchange with a fixed routing key.
    Exchange { exchange: Arc<str>, key: Arc<str> },
    /// An exchange; each message's subject is its routing key (version 1 only).
    Subject { exchange: Arc<str> },
    /// A queue, which must exist.
    Queue(Arc<str>),
    /// A queue that is declared when it doesn't exist (version 1 only).
    DeclaredQueue(Arc<str>),
}

/// The source of a receiving client's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A queue, which must exist.
    Queue(Arc<str>),
    /// A queue that is declared when it doesn't exist (version 1 only).
    DeclaredQueue(Arc<str>),
    /// A queue of the link's own, bound to an exchange (version 1 only).
    Bound { exchange: Arc<str>, key: Arc<str> },
}

/// An invalid address; the text is the description that the client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadAddress(pub String);

fn bad(address: &str) -> BadAddress {
    BadAddress(format!("Attach refused: {{bad_address_string,<<\"{address}\">>}}"))
}

fn not_permitted(address: &str) -> BadAddress {
    BadAddress(format!(
        "Attach refused: {{amqp_address_v1_not_permitted,{{utf8,<<\"{address}\">>}}}}: use /exchanges/:exchange/:routing-key \
         or /queues/:queue, or set deprecated_features.permit.amqp_address_v1 = true"
    ))
}

/// A target's address.
///
/// # Errors
/// [`BadAddress`] when it is no address, or one of version 1 that isn't permitted.
pub(crate) fn target(address: &str, version_1: bool) -> Result<Target, BadAddress> {
    if let Some(target) = target_2(address) {
        return target.ok_or_else(|| bad(address));
    }
    if !version_1 {
        return Err(not_permitted(address));
    }
    let target = match version_1_parts(address) {
        Some(("exchange", rest)) => match rest.split_once('/') {
            Some((exchange, key)) => Target::Exchange { exchange: decode(exchange)?, key: decode_key(key, address)? },
            None => Target::Subject { exchange: decode(rest)? },
        },
        Some(("topic", key)) if !key.is_empty() => {
            Target::Exchange { exchange: "amq.topic".into(), key: decode_key(key, address)? }
        }
        Some(("amq/queue", queue)) if !queue.is_empty() => Target::Queue(decode(queue)?),
        Some(("queue", "")) => Target::Subject { exchange: "".into() },
        Some(("queue", queue)) => Target::DeclaredQueue(decode(queue)?),
        None if !address.is_empty() && !address.starts_with('/') => Target::DeclaredQueue(decode(address)?),
        _ => return Err(bad(address)),
    };
    Ok(target)
}

/// The address in a message's `to` field: version 2 only, as in RabbitMQ. None when it isn't one.
pub(crate) fn to_field(address: &str) -> Option<Target> {
    target_2(address).flatten()
}

/// None if it isn't version 2 at all; inner none if it is an invalid one.
#[allow(clippy::option_option)]
fn target_2(address: &str) -> Option<Option<Target>> {
    if let Some(rest) = address.strip_prefix("/exchanges/") {
        let (exchange, key) = rest.split_once('/').unwrap_or((rest, ""));
        let parts = segment(exchange).zip(segment(key));
        let target = parts.and_then(|(exchange, key)| {
            let named = !exchange.is_empty() && exchange != "amq.default" && is_routing_key(&key);
            named.then(|| Target::Exchange { exchange: exchange.into(), key: key.into() })
        });
        return Some(target);
    }
    let queue = address.strip_prefix("/queues/")?;
    Some(segment(queue).filter(|name| !name.is_empty()).map(|name| Target::Queue(name.into())))
}

/// A source's address.
///
/// # Errors
/// [`BadAddress`] if it is no address, or one of version 1 that isn't permitted.
pub(crate) fn source(address: &str, version_1: bool) -> Result<Source, BadAddress> {
    if let Some(queue) = address.strip_prefix("/queues/") {
        let name = segment(queue).ok_or_else(|| bad(address))?;
        return Ok(Source::Queue(name.into()));
    }
    if !version_1 {
        return Err(not_permitted(address));
    }
    let source = match version_1_parts(address) {
        Some(("exchange", rest)) => match rest.split_once('/') {
            Some((exchange, key)) => Source::Bound { exchange: decode(exchange)?, key: decode(key)? },
            None => return Err(bad(address)),
        },
        Some(("topic", key)) if !key.is_empty() => Source::Bound { exchange: "amq.topic".into(), key: decode(key)? },
        Some(("amq/queue", queue)) if !queue.is_empty() => Source::Queue(decode(queue)?),
        Some(("queue", queue)) if !queue.is_empty() => Source::DeclaredQueue(decode(queue)?),
        None if !address.is_empty() && !address.starts_with('/') => Source::DeclaredQueue(decode(address)?),
        _ => return Err(bad(address)),
    };
    Ok(source)
}

/// Whether a routing key can be stored and sent to clients of AMQP 0-9-1, where it is a short string.
pub(crate) fn is_routing_key(key: &str) -> bool {
    key.len() <= ROUTING_KEY_MAX
}

/// A part of an address of version 2, decoded. None if it has characters that must be percent-encoded: anything but
/// letters, digits and the marks of a path segment (RFC 3986, 3.3).
fn segment(part: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte);
    part.bytes().all(allowed).then(|| percent_decode(part)).flatten()
}

/// Splits `/kind/rest`; clients also begin it with two slashes.
fn version_1_parts(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix('/')?;
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    if let Some(queue) = rest.strip_prefix("amq/queue/") {
        return Some(("amq/queue", queue));
    }
    Some(rest.split_once('/').unwrap_or((rest, "")))
}

fn decode_key(segment: &str, address: &str) -> Result<Arc<str>, BadAddress> {
    decode(segment).and_then(|key| if is_routing_key(&key) { Ok(key) } else { Err(bad(address)) })
}

fn decode(segment: &str) -> Result<Arc<str>, BadAddress> {
    percent_decode(segment).map(Into::into).ok_or_else(|| bad(segment))
}

/// Decodes percent escapes. None for a bad escape or bytes that aren't UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).ok()
}

/// Escapes everything but unreserved characters (RFC 3986, 2.3).
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(exchange: &str, key: &str) -> Target {
        Target::Exchange { exchange: exchange.into(), key: key.into() }
    }

    #[test]
    fn version_2_targets() {
        assert_eq!(target("/exchanges/x/k", false), Ok(exchange("x", "k")));
        assert_eq!(target("/exchanges/x", false), Ok(exchange("x", "")));
        assert_eq!(target("/exchanges/a%2Fb/k%20%C3%BC", false), Ok(exchange("a/b", "k ü")));
        assert_eq!(target("/queues/q%2F1", false), Ok(Target::Queue("q/1".into())));
        for wrong in
            ["/exchanges/", "/exchanges//k", "/exchanges/amq.default/k", "/exchanges/x/k/l", "/exchanges/x/k l"]
        {
            assert!(target(wrong, true).is_err(), "{wrong}");
        }
        for wrong in
            ["/queues/", "/queues/a/b", "/queues/%zz", "/queues/%ff", "/queues/a b", "/queues/ü", "/queues/q?x"]
        {
            assert!(target(wrong, true).is_err(), "{wrong}");
        }
        for wrong in ["/queues/a/b", "/queues/a b", "/queues/ü", "/queues/q#x", "/queues/[x]"] {
            assert!(source(wrong, true).is_err(), "{wrong}");
        }
        let marks = "a-._~!$&'()*+,;=:@b";
        assert_eq!(target(&format!("/queues/{marks}"), false), Ok(Target::Queue(marks.into())));
        let (longest, longer) = ("k".repeat(255), "k".repeat(256));
        assert_eq!(target(&format!("/exchanges/x/{longest}"), false), Ok(exchange("x", &longest)));
        assert!(target(&format!("/exchanges/x/{longer}"), false).is_err());
        assert!(target(&format!("/exchange/x/{longer}"), true).is_err());
        assert!(target(&format!("/topic/{longer}"), true).is_err());
        assert!(target("q", false).unwrap_err().0.contains("amqp_address_v1_not_permitted"));
    }

    #[test]
    fn version_1_targets() {
        assert_eq!(target("/exchange/x/k", true), Ok(exchange("x", "k")));
        assert_eq!(target("/exchange/x", true), Ok(Target::Subject { exchange: "x".into() }));
        assert_eq!(target("/topic/a.b", true), Ok(exchange("amq.topic", "a.b")));
        assert_eq!(target("//amq/queue/q", true), Ok(Target::Queue("q".into())));
        assert_eq!(target("/amq/queue/q", true), Ok(Target::Queue("q".into())));
        assert_eq!(target("/queue/q", true), Ok(Target::DeclaredQueue("q".into())));
        assert_eq!(target("q", true), Ok(Target::DeclaredQueue("q".into())));
        assert_eq!(target("/queue", true), Ok(Target::Subject { exchange: "".into() }));
        assert!(target("/nonsense/q", true).is_err());
        assert!(target("", true).is_err());
    }

    #[test]
    fn sources() {
        assert_eq!(source("/queues/q", false), Ok(Source::Queue("q".into())));
        assert_eq!(source("/queues/a%2Fb", false), Ok(Source::Queue("a/b".into())));
        assert_eq!(source("/queues/", false), Ok(Source::Queue("".into())));
        assert!(source("/exchanges/x/k", false).is_err());
        assert_eq!(source("/exchange/x/k", true), Ok(Source::Bound { exchange: "x".into(), key: "k".into() }));
        assert_eq!(source("/topic/#", true), Ok(Source::Bound { exchange: "amq.topic".into(), key: "#".into() }));
        assert_eq!(source("q", true), Ok(Source::DeclaredQueue("q".into())));
        assert!(source("/queue", true).is_err());
    }

    #[test]
    fn escapes_come_back() {
        let name = "a/b c%ü~";
        assert_eq!(percent_decode(&percent_encode(name)).as_deref(), Some(name));
    }
}
