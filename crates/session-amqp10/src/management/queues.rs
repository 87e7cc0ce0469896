//! `/queues/:queue` and `/queues/:queue/messages`.

use leveret_amqp10::value::{OwnedArray, OwnedMap, OwnedValue};
use leveret_model::{
    Action, Arguments, Command, ConnectionId, DeclareQueue, DeleteQueue, Permit, RefusedKind, Resource,
};
use leveret_queue::DeleteIf;

use crate::connection::Connection;
use crate::pairs::arguments;
use crate::pairs::fields::{self, Taken};
use crate::pairs::names;
use crate::pairs::refusal::{Refusal, Result, Status};
use crate::pairs::request;
use crate::pairs::response::{Body, Done, message_count};
use crate::pairs::{Changing, Served, describe};
use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::{LedgerQueueRef, Size};
use leveret_broker::registry::{ChangeRequest, Snapshot};
use leveret_broker::ticket::Ticket;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

/// RabbitMQ's name for the queue type of a requester of direct reply-to, which has no queue.
const VOLATILE: &str = "rabbit_volatile_queue";
const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";

/// The body of PUT.
struct Declaration {
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: Arguments,
}

impl Declaration {
    fn parse(body: request::Body<'_>) -> Result<Self> {
        let mut it = Self { durable: true, exclusive: false, auto_delete: false, arguments: Arguments::default() };
        fields::each(body, "queue property", |name, value| match name {
            "durable" => fields::flag(&mut it.durable, value),
            "exclusive" => fields::flag(&mut it.exclusive, value),
            "auto_delete" => fields::flag(&mut it.auto_delete, value),
            "arguments" => fields::table(&mut it.arguments, value),
            _ => Ok(Taken::No),
        })?;
        Ok(it)
    }
}

impl Connection {
    /// The permit for an action that a request needs.
    pub(super) fn permit(&self, action: Action<'_>) -> Result<Permit> {
        self.authorize(action).map_err(Refusal::Access)
    }

    /// GET of a queue. Any permission on it will do.
    pub(super) fn look_at_queue(&mut self, name: &str) -> Result<Done> {
        self.permit(Action::Inspect(Resource::Queue(name)))?;
        if self.is_live_requester(name) {
            return Ok(Done { status: Status::Ok, body: self.describe_requester(name), wait: WaitFor::default() });
        }
        let snapshot = self.client.broker.registry.snapshot();
        let Some(queue) = snapshot.queue(&self.client.vhost, name) else {
            let text = format!("queue '{name}' in vhost '{}' not found", self.client.vhost);
            return Err(Refusal::Answer(Status::NotFound, text));
        };
        let node = self.client.broker.settings.node_name.as_str();
        let body = match queue.ask(Size { used: None }) {
            NowOrLater::Now(size) => Body::Value(describe(node, queue.info(), size)),
            NowOrLater::Later(answer) => Body::Declared { node: node.to_owned(), queue: queue.info().clone(), answer },
        };
        Ok(Done { status: Status::Ok, body, wait: WaitFor::default() })
    }

    /// PUT of a queue.
    pub(super) fn put_queue(&mut self, name: &str, body: request::Body<'_>, now: Now) -> Result<Served> {
        let Declaration { durable, exclusive, auto_delete, arguments } = Declaration::parse(body)?;
        if name.is_empty() {
            return Err(Refusal::bad_request("declare queue with empty name not allowed"));
        }
        names::check_text(name)?;
        names::check_not_reserved("queue", &self.client.vhost, name)?;
        let dead_letter_exchange = fields::exchange_name(&arguments, DEAD_LETTER_EXCHANGE)?;
        let permit =
            self.permit(Action::DeclareQueue { queue: name, dead_letter_exchange: dead_letter_exchange.as_deref() })?;
        let declared = DeclareQueue {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            server_named: false,
            durable,
            auto_delete,
            exclusive,
            connection: Some(self.client.id),
            arguments,
        };
        self.change(Changing::DeclareQueue, ChangeRequest::new(permit, Command::DeclareQueue(declared)), now)
    }

    /// DELETE of a queue. One that doesn't exist counts as deleted.
    pub(super) fn remove_queue(&mut self, name: &str, now: Now) -> Result<Served> {
        names::check_text(name)?;
        let permit = self.permit(Action::DeleteQueue(name))?;
        let command = DeleteQueue {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            connection: Some(self.client.id),
            id: None,
        };
        let request = ChangeRequest::delete_queue(permit, command, DeleteIf::default());
        self.change(Changing::DeleteQueue, request, now)
    }

    /// DELETE of a queue's messages.
    pub(super) fn purge_queue(&mut self, name: &str, now: Now) -> Result<Done> {
        self.check_purge(name)?;
        if self.is_live_requester(name) {
            // The answers that wait belong to the requester's connection already.
            return Ok(Done { status: Status::Ok, body: Body::Value(message_count(0)), wait: WaitFor::default() });
        }
        let snapshot = self.client.broker.registry.snapshot();
        let queue = purgeable(&snapshot, &self.client.vhost, self.client.id, name)?;
        let (body, ticket) = match queue.purge(now.monotonic) {
            NowOrLater::Now(purged) => {
                let (count, ticket) = purged.ok_or_else(|| Refusal::of_model(queue.not_removed()))?;
                (Body::Value(message_count(count)), ticket)
            }
            NowOrLater::Later(answer) => (Body::Purged(queue, answer), Ticket::default()),
        };
        Ok(Done { status: Status::Ok, body, wait: ticket.into() })
    }

    /// Checks that the user may purge this queue.
    pub(super) fn check_purge(&self, name: &str) -> Result<()> {
        self.permit(Action::Consume(name)).map(|_| ())
    }

    /// Whether a requester waits for answers under this name (direct reply-to).
    fn is_live_requester(&self, name: &str) -> bool {
        self.client.broker.replies.find(name.as_bytes()).is_some()
    }

    fn describe_requester(&self, name: &str) -> Body {
        let mut map = OwnedMap::default();
        map.push("leader", self.client.broker.settings.node_name.as_str())
            .push("message_count", 0u64)
            .push("consumer_count", 1u32)
            .push("name", name)
            .push("vhost", &*self.client.vhost)
            .push("durable", false)
            .push("auto_delete", true)
            .push("exclusive", false)
            .push("type", VOLATILE)
            .push("arguments", arguments::to_map(&Arguments::default()))
            .push("replicas", OwnedValue::Array(OwnedArray::default()));
        Body::Value(OwnedValue::Map(map))
    }
}

/// A queue whose messages this connection may delete.
pub(super) fn purgeable(
    snapshot: &Snapshot,
    vhost: &str,
    connection: ConnectionId,
    name: &str,
) -> Result<LedgerQueueRef> {
    let info = snapshot.topology.usable_queue(vhost, name, Some(connection)).map_err(|refused| match refused.kind {
        RefusedKind::NotFound => Refusal::Answer(Status::NotFound, refused.text),
        _ => Refusal::of_model(refused),
    })?;
    let Some(queue) = snapshot.queues.get(&info.id) else {
        return Err(Refusal::Answer(Status::NotFound, format!("no queue '{name}' in vhost '{vhost}'")));
    };
    let refused = || Refusal::bad_request(format!("purge not supported by queue '{name}' in vhost '{vhost}'"));
    queue.as_ledger().ok_or_else(refused)
}
