use serde_json::{Map, Value};

/// Where definitions go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Every object says where it belongs.
    Cluster,
    /// All into this vhost.
    Vhost(String),
}

/// A document; none if it isn't one.
pub(super) fn parse(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)) {
        Ok(Value::Object(document)) => Some(document),
        _ => None,
    }
}

/// The objects of one kind.
pub(super) fn entries<'a>(
    document: &'a Map<String, Value>,
    kind: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    let list = document.get(kind).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

impl Scope {
    /// The vhost that an object belongs to.
    pub(super) fn vhost_of<'a>(&'a self, entry: &'a Map<String, Value>) -> &'a str {
        match self {
            Scope::Vhost(vhost) => vhost,
            Scope::Cluster => entry.get("vhost").and_then(Value::as_str).unwrap_or("/"),
        }
    }
}
