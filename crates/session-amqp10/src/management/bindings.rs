//! `/bindings` and `/bindings/:location`.

use std::sync::Arc;

use leveret_amqp10::value::{OwnedMap, OwnedValue};
use leveret_model::{
    Action, Arguments, Bind, Binding, Command, ConnectionId, DestinationName, Permit, Resource, Topology,
};

use crate::connection::Connection;
use crate::pairs::arguments;
use crate::pairs::fields::{self, Taken};
use crate::pairs::location::{self, End, Location};
use crate::pairs::names;
use crate::pairs::path::Path;
use crate::pairs::refusal::{Refusal, Result, Status};
use crate::pairs::request;
use crate::pairs::response::{Body, Done};
use crate::pairs::{Changing, Served};
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

/// The body of POST.
#[derive(Default)]
struct Declaration {
    source: Option<String>,
    queue: Option<String>,
    exchange: Option<String>,
    key: String,
    arguments: Arguments,
}

impl Declaration {
    fn parse(body: request::Body<'_>) -> Result<Self> {
        let mut it = Self::default();
        let text = |field: &mut Option<String>, value| {
            let mut text = String::new();
            let taken = fields::text(&mut text, value)?;
            *field = Some(text);
            Ok(taken)
        };
        fields::each(body, "binding field", |name, value| match name {
            "source" => text(&mut it.source, value),
            "destination_queue" => text(&mut it.queue, value),
            "destination_exchange" => text(&mut it.exchange, value),
            "binding_key" => fields::text(&mut it.key, value),
            "arguments" => fields::table(&mut it.arguments, value),
            _ => Ok(Taken::No),
        })?;
        Ok(it)
    }
}

impl From<End> for DestinationName {
    fn from(end: End) -> Self {
        match end {
            End::Queue(name) => Self::Queue(name.into()),
            End::Exchange(name) => Self::Exchange(name.into()),
        }
    }
}

impl End {
    fn name(&self) -> &str {
        match self {
            End::Queue(name) | End::Exchange(name) => name,
        }
    }

    fn resource(&self) -> Resource<'_> {
        match self {
            End::Queue(name) => Resource::Queue(name),
            End::Exchange(name) => Resource::Exchange(name),
        }
    }
}

impl Connection {
    /// POST of a binding.
    pub(super) fn post_binding(&mut self, body: request::Body<'_>, now: Now) -> Result<Served> {
        let Declaration { source, queue, exchange, key, arguments } = Declaration::parse(body)?;
        let missing = |what: &str| Refusal::bad_request(format!("missing binding field {what}"));
        let source = source.ok_or_else(|| missing("'source'"))?;
        let destination = match (queue, exchange) {
            (Some(queue), None) => End::Queue(queue),
            (None, Some(exchange)) => End::Exchange(exchange),
            (None, None) => return Err(missing("'destination_queue' or 'destination_exchange'")),
            (Some(_), Some(_)) => {
                return Err(Refusal::bad_request(
                    "bad binding fields: either 'destination_queue' or 'destination_exchange', not both",
                ));
            }
        };
        let permit = self.check_binding(&source, &destination, key.as_bytes())?;
        let bind = Bind {
            vhost: self.client.vhost.clone(),
            source: source.into(),
            destination: destination.into(),
            routing_key: key.as_bytes().into(),
            arguments,
            connection: Some(self.client.id),
        };
        self.change(Changing::Bind, ChangeRequest::new(permit, Command::Bind(bind)), now)
    }

    /// DELETE of a binding. One that doesn't exist counts as deleted.
    pub(super) fn remove_binding(&mut self, segment: &str, now: Now) -> Result<Served> {
        let location = Location::parse(segment)?;
        let permit = self.check_location(&location)?;
        let snapshot = self.client.broker.registry.snapshot_full();
        match unbind(&snapshot.topology, &self.client.vhost, self.client.id, location) {
            Some(unbind) => self.change(Changing::Unbind, ChangeRequest::new(permit, unbind), now),
            None if self.client.may_be_behind() => Err(not_found()),
            None => Ok(Done::no_content(WaitFor::default()).into()),
        }
    }

    /// Checks that the user may remove the binding at this location.
    pub(super) fn check_location(&self, location: &Location) -> Result<Permit> {
        self.check_binding(&location.source, &location.destination, location.key.as_bytes())
    }

    /// GET of the bindings between two ends with a key.
    pub(super) fn list_bindings(&mut self, path: &Path<'_>) -> Result<Done> {
        let missing = |what: &str| Refusal::bad_request(format!("missing {what} in query"));
        let source = path.query("src")?.ok_or_else(|| missing("'src'"))?;
        let key = path.query("key")?.ok_or_else(|| missing("'key'"))?;
        let destination = match (path.query("dste")?, path.query("dstq")?) {
            (Some(exchange), _) => End::Exchange(exchange),
            (None, Some(queue)) => End::Queue(queue),
            (None, None) => return Err(missing("'dste' or 'dstq'")),
        };
        self.check_binding(&source, &destination, key.as_bytes())?;
        let snapshot = self.client.broker.registry.snapshot();
        let list: Vec<_> = between(&snapshot.topology, &self.client.vhost, &source, &destination)
            .into_iter()
            .filter(|binding| *binding.routing_key == *key.as_bytes())
            .filter_map(|binding| describe(binding))
            .collect();
        if list.is_empty() && self.client.may_be_behind() {
            return Err(not_found());
        }
        Ok(Done { status: Status::Ok, body: Body::Value(OwnedValue::List(list)), wait: WaitFor::default() })
    }

    fn check_binding(&self, source: &str, destination: &End, key: &[u8]) -> Result<Permit> {
        names::check_not_default(source)?;
        names::check_text(source)?;
        if let End::Exchange(name) = destination {
            names::check_not_default(name)?;
        }
        names::check_text(destination.name())?;
        self.permit(Action::Bind { source, destination: destination.resource(), routing_key: key })
    }
}

/// The refusal of a request that finds no binding, which is served again once this node has caught up.
fn not_found() -> Refusal {
    Refusal::Answer(Status::NotFound, "no such binding".to_owned())
}

/// The command that removes the binding at this location. `None` if there is none.
pub(super) fn unbind(
    topology: &Topology,
    vhost: &Arc<str>,
    connection: ConnectionId,
    location: Location,
) -> Option<Command> {
    let bindings = between(topology, vhost, &location.source, &location.destination);
    let binding = bindings.into_iter().find(|binding| location.is_of(binding))?;
    Some(Command::Unbind(Bind {
        vhost: vhost.clone(),
        source: location.source.into(),
        destination: location.destination.into(),
        routing_key: binding.routing_key.clone(),
        arguments: binding.arguments.clone(),
        connection: Some(connection),
    }))
}

/// The bindings from `source` to `destination`.
fn between<'a>(topology: &'a Topology, vhost: &str, source: &str, destination: &End) -> Vec<&'a Arc<Binding>> {
    let found = match destination {
        End::Queue(name) => topology.queue(vhost, name).map(|queue| queue.destination()),
        End::Exchange(name) => topology.exchange(vhost, name).map(|exchange| exchange.destination()),
    };
    let Some(found) = found else { return Vec::new() };
    let bindings = topology.bindings_of_destination(vhost, &found);
    bindings.filter(|binding| *binding.source == *source).collect()
}

/// A binding as a map. None if the key isn't UTF-8: no request can name such a binding, so none gets here.
fn describe(binding: &Binding) -> Option<OwnedValue> {
    let destination = format!("destination_{}", binding.destination.kind());
    let mut map = OwnedMap::default();
    map.push("source", &*binding.source)
        .push(destination.as_str(), &**binding.destination.name())
        .push("binding_key", str::from_utf8(&binding.routing_key).ok()?)
        .push("arguments", arguments::to_map(&binding.arguments))
        .push("location", location::of(binding)?.as_str());
    Some(OwnedValue::Map(map))
}
