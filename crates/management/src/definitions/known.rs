//! Objects of a document that exist already, told by their text: in a document that was imported before, these are nearly all.

use leveret_model::{KnownObjects, Topology};

use super::document::{Document, Scope, Wrong};
use super::raw_entry::RawEntry;
use super::shape::{self, Ignored};

/// Parses a document, and leaves out objects that exist in `topology`.
///
/// # Errors
/// See [`Document::parse`].
pub(super) fn parse<'a>(text: &'a [u8], scope: &Scope, topology: &Topology) -> Result<(Document<'a>, Ignored), Wrong> {
    let mut known = Known::new(topology, scope);
    Document::parse(text, scope, &mut |list, entry| known.has(list, entry))
}

/// The objects of a list, and the numbers of the fields that tell them.
struct KnownList<'a, const N: usize> {
    objects: KnownObjects<'a>,
    fields: [usize; N],
}

impl<'a, const N: usize> KnownList<'a, N> {
    fn new(topology: &'a Topology, list: &str, fields: [&str; N]) -> Self {
        Self { objects: topology.known_objects(), fields: shape::numbers(list, fields) }
    }
}

/// Tells of objects of a document whether they exist as the document has them. It may say no of one that exists.
struct Known<'a> {
    scope: &'a Scope,
    // One for each list: neighbours in a list are mostly neighbours in the topology.
    queues: KnownList<'a, 2>,
    exchanges: KnownList<'a, 2>,
    bindings: KnownList<'a, 6>,
}

impl<'a> Known<'a> {
    fn new(topology: &'a Topology, scope: &'a Scope) -> Self {
        let bindings = ["source", "vhost", "destination", "destination_type", "routing_key", "arguments"];
        Self {
            scope,
            queues: KnownList::new(topology, "queues", ["name", "vhost"]),
            exchanges: KnownList::new(topology, "exchanges", ["name", "vhost"]),
            bindings: KnownList::new(topology, "bindings", bindings),
        }
    }

    /// Whether the object of the list with this name exists.
    fn has(&mut self, list: &str, entry: &RawEntry<'_>) -> bool {
        let scope = self.scope;
        match list {
            "queues" => {
                let KnownList { objects, fields } = &mut self.queues;
                named(scope, entry, *fields).is_some_and(|(vhost, name)| objects.has_queue(vhost, name))
            }
            "exchanges" => {
                let KnownList { objects, fields } = &mut self.exchanges;
                named(scope, entry, *fields).is_some_and(|(vhost, name)| objects.has_exchange(vhost, name))
            }
            "bindings" => has_binding(&mut self.bindings, scope, entry).unwrap_or(false),
            // Others may differ from what exists, and are few.
            _ => false,
        }
    }
}

/// The vhost and the name of an object.
fn named<'a>(scope: &'a Scope, entry: &RawEntry<'a>, [name, vhost]: [usize; 2]) -> Option<(&'a str, &'a str)> {
    scope.named(entry.plain_text(vhost)).zip(entry.plain_text(name))
}

/// Whether a binding exists. `None` if its text has to be parsed to find out.
fn has_binding(known: &mut KnownList<'_, 6>, scope: &Scope, entry: &RawEntry<'_>) -> Option<bool> {
    let [source, vhost, destination, kind, key, arguments] = known.fields;
    let to_queue = match entry.plain_text_or(kind, "queue")? {
        "queue" => true,
        "exchange" => false,
        _ => return None,
    };
    let vhost = scope.named(entry.plain_text(vhost))?;
    let to = (to_queue, entry.plain_text(destination)?);
    let (source, key) = (entry.plain_text(source)?, entry.plain_text_or(key, "")?);
    Some(known.objects.has_binding(vhost, source, to, key, &entry.arguments(arguments)?))
}
