//! A response as a message (HTTP over AMQP, 5).

use std::sync::Arc;

use leveret_amqp10::{
    message::{MapSection, MessageId, OwnedMessageId, Properties, write_map_section, write_value_raw},
    value::{EncodedMap, OwnedMap, OwnedValue, Value},
};
use leveret_model::{Queue, Refused};

use super::described::describe;
use super::refusal::{Refusal, Result, Status};
use super::served::{Changing, Served};
use leveret_broker::asked::Later;
use leveret_broker::outbox::Outbox;
use leveret_broker::queue_handle::{LedgerQueueRef, QueueRef, Removed};
use leveret_broker::registry::ChangeOutcome;
use leveret_broker::wait_for::WaitFor;

const VERSION_KEY: &str = "http:response";
const VERSION: &str = "1.1";

/// The result of a request.
pub(crate) struct Done {
    pub status: Status,
    pub body: Body,
    /// The position that the response waits for.
    pub wait: WaitFor,
}

/// The body of a response.
pub(crate) enum Body {
    Value(OwnedValue),
    /// The number of messages that these queues had when they were deleted, known once the deletion is durable.
    Deleted(Vec<QueueRef>),
    /// The number of messages that this queue purges.
    Purged(LedgerQueueRef, Later<Removed>),
    /// The description of a queue on this node by name, once it has given its numbers of messages and consumers.
    Declared {
        node: String,
        queue: Arc<Queue>,
        answer: Later<(u64, usize)>,
    },
}

impl Done {
    /// A result without a body.
    pub(crate) fn no_content(wait: WaitFor) -> Self {
        Self { status: Status::NoContent, body: Body::Value(OwnedValue::Null), wait }
    }
}

/// A response that waits.
pub(crate) struct Response {
    /// The position that it waits for.
    pub wait: WaitFor,
    /// The message-id of its request.
    id: Option<OwnedMessageId>,
    content: Content,
}

enum Content {
    /// Status and body.
    Message(Status, Body),
    /// The session ends instead of a response.
    Access(Refused),
    /// The change of the request was asked for.
    Asked(Changing, Later<ChangeOutcome>),
    /// The request, which is served when those before it are answered.
    Unserved(Box<[u8]>),
}

impl Content {
    /// In place of a content that is being made.
    fn nothing() -> Self {
        Self::Message(Status::NoContent, Body::Value(OwnedValue::Null))
    }

    fn of(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Answer(status, text) => Self::Message(status, Body::Value(OwnedValue::String(text))),
            Refusal::Access(refused) => Self::Access(refused),
        }
    }
}

impl Response {
    pub(crate) fn new(id: Option<MessageId<'_>>, result: Result<Served>) -> Self {
        let mut response =
            Self { wait: WaitFor::default(), id: id.map(OwnedMessageId::from), content: Content::nothing() };
        match result {
            Ok(Served::Done(done)) => response.be(Ok(done)),
            Ok(Served::Asked(changing, answer)) => response.content = Content::Asked(changing, answer),
            Err(refusal) => response.be(Err(refusal)),
        }
        response
    }

    /// The place of a request that is served later.
    pub(crate) fn unserved(request: &[u8]) -> Self {
        Self { wait: WaitFor::default(), id: None, content: Content::Unserved(request.into()) }
    }

    /// Whether the request isn't served.
    pub(crate) fn is_unserved(&self) -> bool {
        matches!(self.content, Content::Unserved(_))
    }

    /// The request, if it isn't served.
    pub(crate) fn take_unserved(&mut self) -> Option<Box<[u8]>> {
        match std::mem::replace(&mut self.content, Content::nothing()) {
            Content::Unserved(request) => Some(request),
            other => {
                self.content = other;
                None
            }
        }
    }

    /// The change that was asked for.
    pub(crate) fn asked(&self) -> Option<(Changing, &Later<ChangeOutcome>)> {
        match &self.content {
            Content::Asked(changing, answer) => Some((*changing, answer)),
            _ => None,
        }
    }

    /// The change that was asked for and isn't made, or the condition that it waits for.
    pub(crate) fn into_awaited(self) -> core::result::Result<WaitFor, Later<ChangeOutcome>> {
        match self.content {
            Content::Asked(_, answer) => Err(answer),
            _ => Ok(self.wait),
        }
    }

    /// Becomes the response with this result.
    pub(crate) fn be(&mut self, result: Result<Done>) {
        (self.content, self.wait) = match result {
            Ok(done) => (Content::Message(done.status, done.body), done.wait),
            Err(refusal) => (Content::of(refusal), WaitFor::default()),
        };
    }

    /// Whether it waits for nobody's answer any more. The answer of a queue becomes part of it.
    pub(crate) fn is_answered(&mut self) -> bool {
        let body = match &mut self.content {
            Content::Message(_, body) => body,
            Content::Access(_) => return true,
            Content::Asked(..) | Content::Unserved(_) => return false,
        };
        let value = match &*body {
            Body::Value(_) | Body::Deleted(_) => return true,
            Body::Purged(queue, answer) => match answer.take() {
                None => None,
                Some(Some((count, ticket))) => {
                    self.wait.and(ticket.into());
                    Some(message_count(count))
                }
                Some(None) => {
                    let refused = queue.not_removed();
                    self.be(Err(Refusal::of_model(refused)));
                    return true;
                }
            },
            Body::Declared { node, queue, answer } => answer.take().map(|size| describe(node, queue, size)),
        };
        let is_answered = value.is_some();
        if let Some(value) = value {
            *body = Body::Value(value);
        }
        is_answered
    }

    /// Has `outbox` signalled when the answer is there that it waits for.
    pub(crate) fn notify(&self, outbox: &Arc<Outbox>, key: u64) {
        match &self.content {
            Content::Message(_, Body::Purged(_, answer)) => answer.notify(outbox.clone(), key),
            Content::Message(_, Body::Declared { answer, .. }) => answer.notify(outbox.clone(), key),
            Content::Asked(_, answer) => answer.notify(outbox.clone(), key),
            Content::Message(..) | Content::Access(_) | Content::Unserved(_) => {}
        }
    }

    /// The message, once it may be sent: everybody whom it waits for has answered.
    ///
    /// # Errors
    /// The refusal that ends the session instead.
    pub(crate) fn into_message(self) -> core::result::Result<Vec<u8>, Refused> {
        let (status, body) = match self.content {
            Content::Message(status, body) => (status, body),
            Content::Access(refused) => return Err(refused),
            Content::Asked(..) | Content::Unserved(_) => (Status::BadRequest, Body::Value(OwnedValue::Null)),
        };
        let value = match body {
            Body::Value(value) => value,
            Body::Deleted(queues) => message_count(queues.iter().map(|queue| queue.deleted_messages()).sum()),
            Body::Purged(..) | Body::Declared { .. } => OwnedValue::Null,
        };
        let mut message = Vec::new();
        let correlation_id = self.id.as_ref().map(OwnedMessageId::borrowed);
        let properties = Properties { subject: Some(status.code()), correlation_id, ..Properties::default() };
        properties.encode(&mut message);
        let mut application = EncodedMap::new();
        application.push(VERSION_KEY, Value::String(VERSION));
        write_map_section(&mut message, MapSection::ApplicationProperties, application.as_map());
        write_value_raw(&mut message, |out| value.encode(out));
        Ok(message)
    }
}

/// The body with the number of messages that were deleted.
pub(crate) fn message_count(count: u64) -> OwnedValue {
    let mut map = OwnedMap::default();
    map.push("message_count", count);
    OwnedValue::Map(map)
}
