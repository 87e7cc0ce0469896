//! A response as a message (HTTP over AMQP, 5).

use std::sync::Arc;

use leveret_amqp10::{
    message::{MapSection, MessageId, Properties, write_map_section, write_value_raw},
    value::{EncodedMap, OwnedMap, OwnedValue, Value},
};
use leveret_model::{Queue, Refused};

use super::queues::describe;
use super::refusal::{Refusal, Result, Status};
use leveret_broker::outbox::Outbox;
use leveret_broker::queue_handle::{Later, QueueRef};
use leveret_broker::ticket::Ticket;
use leveret_broker::wait_for::WaitFor;

const VERSION_KEY: &str = "http:response";
const VERSION: &str = "1.1";

/// The result of a request.
pub(super) struct Done {
    pub status: Status,
    pub body: Body,
    /// The position that the response waits for.
    pub wait: WaitFor,
}

/// The body of a response.
pub(super) enum Body {
    Value(OwnedValue),
    /// The number of messages that these queues had when they were deleted, known once the deletion is durable.
    Deleted(Vec<QueueRef>),
    /// The number of messages that a queue purges, with the ticket that the response waits for.
    Purged(Later<(u64, Ticket)>),
    /// The description of a queue on this node by name, once it has given its numbers of messages and consumers.
    Declared {
        node: String,
        queue: Arc<Queue>,
        answer: Later<(u64, usize)>,
    },
}

impl Done {
    /// A result without a body.
    pub(super) fn no_content(ticket: Ticket) -> Self {
        Self { status: Status::NoContent, body: Body::Value(OwnedValue::Null), wait: ticket.into() }
    }
}

/// A response that waits.
pub(crate) struct Response {
    /// The position that it waits for.
    pub wait: WaitFor,
    content: Content,
}

enum Content {
    /// Sections before the body, encoded, and the body.
    Message { head: Vec<u8>, body: Body },
    /// The session ends instead of a response.
    Access(Refused),
}

impl Response {
    pub(super) fn new(id: Option<MessageId<'_>>, result: Result<Done>) -> Self {
        let (status, body, wait) = match result {
            Ok(done) => (done.status, done.body, done.wait),
            Err(Refusal::Answer(status, text)) => (status, Body::Value(OwnedValue::String(text)), WaitFor::default()),
            Err(Refusal::Access(refused)) => {
                return Self { wait: WaitFor::default(), content: Content::Access(refused) };
            }
        };
        let mut head = Vec::new();
        let properties = Properties { subject: Some(status.code()), correlation_id: id, ..Properties::default() };
        properties.encode(&mut head);
        let mut application = EncodedMap::new();
        application.push(VERSION_KEY, Value::String(VERSION));
        write_map_section(&mut head, MapSection::ApplicationProperties, application.as_map());
        Self { wait, content: Content::Message { head, body } }
    }

    /// Whether it waits for no queue any more. The answer of a queue becomes part of it.
    pub(super) fn is_answered(&mut self) -> bool {
        let Content::Message { body, .. } = &mut self.content else { return true };
        let value = match &*body {
            Body::Value(_) | Body::Deleted(_) => return true,
            Body::Purged(answer) => answer.take().map(|(count, ticket)| {
                self.wait.and(ticket.into());
                message_count(count)
            }),
            Body::Declared { node, queue, answer } => answer.take().map(|size| describe(node, queue, size)),
        };
        let is_answered = value.is_some();
        if let Some(value) = value {
            *body = Body::Value(value);
        }
        is_answered
    }

    /// Has `outbox` signalled when the queue answers that it waits for.
    pub(super) fn notify(&self, outbox: &Arc<Outbox>, key: u64) {
        match &self.content {
            Content::Message { body: Body::Purged(answer), .. } => answer.notify(outbox.clone(), key),
            Content::Message { body: Body::Declared { answer, .. }, .. } => answer.notify(outbox.clone(), key),
            Content::Message { .. } | Content::Access(_) => {}
        }
    }

    /// The message, once it may be sent. A queue that it waits for has answered.
    ///
    /// # Errors
    /// The refusal that ends the session instead.
    pub(super) fn into_message(self) -> core::result::Result<Vec<u8>, Refused> {
        let (mut message, body) = match self.content {
            Content::Message { head, body } => (head, body),
            Content::Access(refused) => return Err(refused),
        };
        let value = match body {
            Body::Value(value) => value,
            Body::Deleted(queues) => message_count(queues.iter().map(|queue| queue.deleted_messages()).sum()),
            Body::Purged(_) | Body::Declared { .. } => OwnedValue::Null,
        };
        write_value_raw(&mut message, |out| value.encode(out));
        Ok(message)
    }
}

/// The body with the number of messages that were deleted.
pub(super) fn message_count(count: u64) -> OwnedValue {
    let mut map = OwnedMap::default();
    map.push("message_count", count);
    OwnedValue::Map(map)
}
