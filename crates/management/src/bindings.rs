//! `/api/bindings`, and the bindings of one exchange or queue. Every queue is bound to the default exchange by its
//! name, although that binding isn't stored.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{
    Action, Arguments, Bind, Binding, Command, DestinationName, Resource, Topology, without_line_ends,
};
use serde_json::json;

use crate::call::{Call, HandlerResult, json, no_content};
use crate::columns::Cell;
use crate::error::Error;
use crate::fields::exchange_named as named;
use crate::list::{self, Rows};
use crate::row::{self, Shown};
use crate::{fields, percent};

/// A stored binding, or a queue's implicit binding to the default exchange.
#[derive(Clone)]
enum Row {
    Kept(Arc<Binding>),
    Default { vhost: Arc<str>, queue: Arc<str> },
}

impl Row {
    fn key(&self) -> String {
        match self {
            Row::Kept(binding) => key_of(&binding.routing_key, &binding.arguments),
            Row::Default { queue, .. } => key_of(queue.as_bytes(), &Arguments::default()),
        }
    }
}

struct Listed;

impl Rows for Listed {
    type Row = Row;

    fn name<'a>(&'a self, row: &'a Row) -> &'a str {
        match row {
            Row::Kept(binding) => binding.destination.name(),
            Row::Default { queue, .. } => queue,
        }
    }

    fn show(&self, row: &Row) -> Shown {
        match row {
            Row::Kept(binding) => {
                let mut body = definition(binding);
                body.add("properties_key", row.key());
                Shown::Row(body)
            }
            Row::Default { vhost, queue } => Shown::Value(json!({
                "source": "",
                "vhost": vhost,
                "destination": queue,
                "destination_type": "queue",
                "routing_key": queue,
                "arguments": {},
                "properties_key": row.key(),
            })),
        }
    }

    fn cell(&self, row: &Row, column: &str) -> Cell {
        match (row, column) {
            (_, "properties_key") => row.key().into(),
            (Row::Kept(binding), "source") => (&*binding.source).into(),
            (Row::Kept(binding), "vhost") => (&*binding.vhost).into(),
            (Row::Kept(binding), "destination") => (&**binding.destination.name()).into(),
            (Row::Kept(binding), "destination_type") => binding.destination.kind().into(),
            (Row::Kept(binding), "routing_key") => String::from_utf8_lossy(&binding.routing_key).into_owned().into(),
            (Row::Kept(binding), "arguments") => binding.arguments.to_json().into(),
            (Row::Default { .. }, "source") => "".into(),
            (Row::Default { vhost, .. }, "vhost") => (&**vhost).into(),
            (Row::Default { queue, .. }, "destination" | "routing_key") => (&**queue).into(),
            (Row::Default { .. }, "destination_type") => "queue".into(),
            (Row::Default { .. }, "arguments") => json!({}).into(),
            _ => Cell::Absent,
        }
    }
}

/// GET: bindings of all vhosts visible to the user.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let rows = call.identity.vhosts(&topology).flat_map(|vhost| rows(&topology, vhost)).collect();
    list::answer(&call.query, Listed, rows)
}

/// GET: bindings of one vhost.
pub(crate) async fn of_vhost(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    list::answer(&call.query, Listed, rows(&topology, call.word(0)))
}

/// GET: bindings whose source is an exchange.
pub(crate) async fn of_source(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let (vhost, exchange) = (call.word(0), named(call.word(1)));
    let rows = match exchange {
        "" => topology.queues(vhost).map(|queue| default(&queue.vhost, &queue.name)).collect(),
        exchange => topology.bindings_of_source(vhost, exchange).cloned().map(Row::Kept).collect(),
    };
    list::answer(&call.query, Listed, rows)
}

/// GET: bindings whose destination is an exchange.
pub(crate) async fn of_exchange(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let exchange = topology.exchange(call.word(0), named(call.word(1)));
    let rows = exchange.map_or_else(Vec::new, |exchange| {
        topology.bindings_of_destination(call.word(0), &exchange.destination()).cloned().map(Row::Kept).collect()
    });
    list::answer(&call.query, Listed, rows)
}

/// GET: bindings whose destination is a queue.
pub(crate) async fn of_queue(call: Call) -> HandlerResult {
    let topology = call.api.topology();
    let rows = topology.queue(call.word(0), call.word(1)).map_or_else(Vec::new, |queue| {
        let destination = queue.destination();
        let kept = topology.bindings_of_destination(call.word(0), &destination).cloned().map(Row::Kept);
        std::iter::once(default(&queue.vhost, &queue.name)).chain(kept).collect()
    });
    list::answer(&call.query, Listed, rows)
}

/// GET: bindings between an exchange and a queue or exchange.
pub(crate) async fn between(call: Call) -> HandlerResult {
    let pair = Pair::of(&call)?;
    list::answer(&call.query, Listed, pair.rows(&call.api.topology()))
}

/// GET of one.
pub(crate) async fn one(call: Call) -> HandlerResult {
    let rows = Pair::of(&call)?.rows(&call.api.topology());
    keyed(rows, call.word(4)).map_or(Err(Error::NotFound), |row| json(Listed.show(&row).into_value()))
}

/// POST: responds with 201 and the binding's path.
pub(crate) async fn post(mut call: Call) -> HandlerResult {
    for end in [1, 3] {
        if let Some(name) = call.path.get_mut(end) {
            *name = without_line_ends(name).into_owned();
        }
    }
    let pair = Pair::of(&call)?;
    let body = call.object()?;
    let arguments = fields::arguments(&body)?;
    let routing_key = fields::text_or(&body, "routing_key", "")?;
    let topology = call.topology();
    pair.check(&topology)?;
    let bind = pair.bind(routing_key.as_bytes(), &arguments);
    let permit = call.permit(pair.vhost, pair.action(routing_key.as_bytes()))?;
    call.api.submit(permit, Command::Bind(bind)).await?;
    // The key is quoted like any segment of a path, although it already contains quoting.
    let key = key_of(routing_key.as_bytes(), &arguments);
    let place = format!("{}/{}", percent::segment(pair.destination), percent::segment(&key));
    Ok((StatusCode::CREATED, [(header::LOCATION, place)]).into_response())
}

/// DELETE of one.
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let pair = Pair::of(&call)?;
    let Some(Row::Kept(binding)) = keyed(pair.rows(&call.topology()), call.word(4)) else {
        return Err(Error::NotFound);
    };
    let permit = call.permit(pair.vhost, pair.action(&binding.routing_key))?;
    let unbind = pair.bind(&binding.routing_key, &binding.arguments);
    call.api.delete(ChangeRequest::new(permit, Command::Unbind(unbind))).await?;
    no_content()
}

/// Both ends of a binding, as named by a path: vhost, `e`, source, `q` or `e`, destination.
struct Pair<'a> {
    vhost: &'a str,
    source: &'a str,
    to_queue: bool,
    destination: &'a str,
}

impl<'a> Pair<'a> {
    fn of(call: &'a Call) -> Result<Self, Error> {
        let to_queue = match call.word(2) {
            "q" => true,
            "e" => false,
            _ => return Err(Error::NotFound),
        };
        let destination = if to_queue { call.word(3) } else { named(call.word(3)) };
        Ok(Pair { vhost: call.word(0), source: named(call.word(1)), to_queue, destination })
    }

    fn check(&self, topology: &Topology) -> Result<(), Error> {
        let missing =
            |kind: &str, name: &str| Err(Error::Missing(format!("no {kind} '{name}' in vhost '{}'", self.vhost)));
        if topology.exchange(self.vhost, self.source).is_none() {
            return missing("exchange", self.source);
        }
        match self.to_queue {
            true if topology.queue(self.vhost, self.destination).is_none() => missing("queue", self.destination),
            false if topology.exchange(self.vhost, self.destination).is_none() => missing("exchange", self.destination),
            _ => Ok(()),
        }
    }

    fn rows(&self, topology: &Topology) -> Vec<Row> {
        if self.source.is_empty() {
            let queue = topology.queue(self.vhost, self.destination).filter(|_| self.to_queue);
            return queue.map(|queue| default(&queue.vhost, &queue.name)).into_iter().collect();
        }
        let kind = if self.to_queue { "queue" } else { "exchange" };
        let ours = |binding: &&Arc<Binding>| {
            binding.destination.kind() == kind && **binding.destination.name() == *self.destination
        };
        topology.bindings_of_source(self.vhost, self.source).filter(ours).cloned().map(Row::Kept).collect()
    }

    fn action(&self, routing_key: &'a [u8]) -> Action<'a> {
        let destination = match self.to_queue {
            true => Resource::Queue(self.destination),
            false => Resource::Exchange(self.destination),
        };
        Action::Bind { source: self.source, destination, routing_key }
    }

    fn bind(&self, routing_key: &[u8], arguments: &Arguments) -> Bind {
        Bind {
            vhost: self.vhost.into(),
            source: self.source.into(),
            destination: match self.to_queue {
                true => DestinationName::Queue(self.destination.into()),
                false => DestinationName::Exchange(self.destination.into()),
            },
            routing_key: routing_key.into(),
            arguments: arguments.clone(),
            connection: None,
        }
    }
}

fn rows(topology: &Topology, vhost: &str) -> Vec<Row> {
    let defaults = topology.queues(vhost).map(|queue| default(&queue.vhost, &queue.name));
    defaults.chain(topology.bindings(vhost).cloned().map(Row::Kept)).collect()
}

fn default(vhost: &Arc<str>, queue: &Arc<str>) -> Row {
    Row::Default { vhost: vhost.clone(), queue: queue.clone() }
}

/// The binding as exported.
pub(crate) fn definition(binding: &Binding) -> row::Row {
    let mut body = row::Row::with_capacity(7);
    body.extend([
        ("source", json!(binding.source)),
        ("vhost", json!(binding.vhost)),
        ("destination", json!(binding.destination.name())),
        ("destination_type", json!(binding.destination.kind())),
        ("routing_key", json!(String::from_utf8_lossy(&binding.routing_key))),
        ("arguments", binding.arguments.to_json()),
    ]);
    body
}

/// The identifier of a binding among those between the same ends, which never changes: the routing key, `~` for an
/// empty one, followed by a hash of the arguments if there are any.
fn key_of(routing_key: &[u8], arguments: &Arguments) -> String {
    let key = percent::quoted(routing_key).replace('~', "%7E");
    match (key.is_empty(), arguments.is_empty()) {
        (true, true) => "~".to_owned(),
        (false, true) => key,
        (_, false) => format!("{key}~{}", hash(arguments)),
    }
}

/// FNV-1a over the arguments as JSON, which is sorted by key.
fn hash(arguments: &Arguments) -> String {
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in arguments.to_json().to_string().bytes() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    URL_SAFE_NO_PAD.encode(sum.to_be_bytes())
}

/// The row with this key. Clients put the key into a path unchanged or quote it again, and the key itself may look
/// quoted: a row whose key equals the segment is preferred to one whose key equals it after decoding.
fn keyed(mut rows: Vec<Row>, word: &str) -> Option<Row> {
    let with = |fits: &dyn Fn(String) -> bool| rows.iter().position(|row| fits(row.key()));
    let at = with(&|key| key == word).or_else(|| with(&|key| percent::decoded(&key).is_ok_and(|key| key == word)))?;
    Some(rows.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use leveret_model::Value as Argument;

    use super::*;

    #[test]
    fn properties_keys_are_rabbitmqs_and_never_change() {
        let none = Arguments::default();
        assert_eq!(key_of(b"a.#", &none), "a.%23");
        assert_eq!(key_of(b"", &none), "~");
        assert_eq!(key_of(b"a~b", &none), "a%7Eb");
        let some = Arguments::from_iter([("x", Argument::Int(1)), ("a", Argument::string("y"))]);
        let same = Arguments::from_iter([("a", Argument::string("y")), ("x", Argument::Int(1))]);
        assert_eq!(key_of(b"k", &some), key_of(b"k", &same));
        assert_ne!(key_of(b"k", &some), key_of(b"k", &Arguments::from_iter([("x", Argument::Int(2))])));
        assert!(key_of(b"", &some).starts_with('~'));
        // A client that stored a key must find its binding after an upgrade.
        assert_eq!(key_of(b"k", &Arguments::from_iter([("x", Argument::Int(1))])), "k~vdPVPDoLP9Y");
    }

    #[test]
    fn a_key_is_found_quoted_or_not() {
        let rows: Vec<Row> = ["a.%23", "a.#", "b"].map(|queue| default(&"/".into(), &queue.into())).into();
        let found = |word: &str| match keyed(rows.clone(), word) {
            Some(Row::Default { queue, .. }) => queue.to_string(),
            _ => String::new(),
        };
        assert_eq!((found("a.#"), found("a.%23"), found("a.%2523")), ("a.#".into(), "a.#".into(), "a.%23".into()));
        assert_eq!((found("b"), found("a.*")), ("b".to_owned(), String::new()));
        let alone = vec![default(&"/".into(), &"a.%23".into())];
        assert!(keyed(alone, "a.%23").is_some());
    }
}
