//! Objects of a document that exist already, told by their text: in a document that was imported before, these are nearly all.

use leveret_model::{Arguments, KnownObjects, Topology};

use super::document::{Document, Scope, Wrong};
use super::raw_entry::{RawEntry, RawValue};
use super::shape::Ignored;

/// Parses a document, and leaves out objects that exist in `topology`.
///
/// # Errors
/// See [`Document::parse`].
pub(super) fn parse<'a>(text: &'a [u8], scope: &Scope, topology: &Topology) -> Result<(Document<'a>, Ignored), Wrong> {
    let mut known = Known::new(topology, scope);
    Document::parse(text, scope, &mut |list, entry| known.has(list, entry))
}

/// Tells of objects of a document whether they exist as the document has them. It may say no of one that exists.
struct Known<'a> {
    scope: &'a Scope,
    // One for each list: neighbours in a list are mostly neighbours in the topology.
    queues: KnownObjects<'a>,
    exchanges: KnownObjects<'a>,
    bindings: KnownObjects<'a>,
}

impl<'a> Known<'a> {
    fn new(topology: &'a Topology, scope: &'a Scope) -> Self {
        let [queues, exchanges, bindings] = std::array::from_fn(|_| topology.known_objects());
        Self { scope, queues, exchanges, bindings }
    }

    /// Whether the object of the list with this name exists.
    fn has(&mut self, list: &str, entry: &RawEntry<'_>) -> bool {
        match list {
            "queues" => named(self.scope, entry).is_some_and(|(vhost, name)| self.queues.has_queue(vhost, name)),
            "exchanges" => {
                named(self.scope, entry).is_some_and(|(vhost, name)| self.exchanges.has_exchange(vhost, name))
            }
            "bindings" => has_binding(&mut self.bindings, self.scope, entry).unwrap_or(false),
            // Others may differ from what exists, and are few.
            _ => false,
        }
    }
}

/// The vhost and the name of an object.
fn named<'a>(scope: &'a Scope, entry: &RawEntry<'a>) -> Option<(&'a str, &'a str)> {
    let [name, vhost] = plain_texts(entry, ["name", "vhost"]);
    scope.named(vhost).zip(name)
}

fn plain_texts<'a, const N: usize>(entry: &RawEntry<'a>, names: [&str; N]) -> [Option<&'a str>; N] {
    entry.values(names).map(|value| value.and_then(RawValue::plain_text))
}

fn text_or<'a>(value: Option<RawValue<'a>>, default: &'a str) -> Option<&'a str> {
    value.map_or(Some(default), RawValue::plain_text)
}

/// Whether a binding exists. `None` if its text has to be parsed to find out.
fn has_binding(known: &mut KnownObjects<'_>, scope: &Scope, entry: &RawEntry<'_>) -> Option<bool> {
    let names = ["source", "vhost", "destination", "destination_type", "routing_key", "arguments"];
    let [source, vhost, destination, kind, key, arguments] = entry.values(names);
    let to_queue = match text_or(kind, "queue")? {
        "queue" => true,
        "exchange" => false,
        _ => return None,
    };
    let vhost = scope.named(vhost.and_then(RawValue::plain_text))?;
    let to = (to_queue, destination?.plain_text()?);
    let arguments = arguments.map_or(Some(Arguments::default()), RawValue::arguments)?;
    Some(known.has_binding(vhost, source?.plain_text()?, to, text_or(key, "")?, &arguments))
}
