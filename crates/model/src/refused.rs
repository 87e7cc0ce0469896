use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a refusal, in the terms of AMQP 0-9-1's reply codes (section 1.8 of its XML).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RefusedKind {
    /// 403: the user lacks a permission, or the name is reserved.
    AccessRefused,
    /// 404: the object doesn't exist.
    NotFound,
    /// 405: another connection owns the queue.
    ResourceLocked,
    /// 406: the object exists with other properties, or an argument is wrong.
    PreconditionFailed,
    /// 406: queues of this type can't have the property, or an argument of this size.
    WrongProperty,
    /// 406: the object exists, and a new one was asked for.
    AlreadyExists,
    /// 406: a limit is reached.
    LimitReached,
    /// 406: the object is protected.
    Protected,
    /// 503: the command makes no sense.
    CommandInvalid,
    /// 530: the user may not do this in this vhost.
    NotAllowed,
    /// 540: known, but not supported.
    NotImplemented,
    /// 540: queues of this type don't have the operation.
    WrongQueueType,
    /// 541: RabbitMQ's answer to features that it withdrew.
    InternalError,
    /// 541: nobody has decided on it, as far as is known: there is no leader, or the node stops.
    Undecided,
    /// 403: the backend that knows the permission hasn't answered yet. A connection takes the frame again when it has.
    Unanswered,
}

impl RefusedKind {
    /// The reply code.
    pub fn code(self) -> u16 {
        match self {
            RefusedKind::AccessRefused | RefusedKind::Unanswered => 403,
            RefusedKind::NotFound => 404,
            RefusedKind::ResourceLocked => 405,
            RefusedKind::PreconditionFailed
            | RefusedKind::WrongProperty
            | RefusedKind::AlreadyExists
            | RefusedKind::LimitReached
            | RefusedKind::Protected => 406,
            RefusedKind::CommandInvalid => 503,
            RefusedKind::NotAllowed => 530,
            RefusedKind::NotImplemented | RefusedKind::WrongQueueType => 540,
            RefusedKind::InternalError | RefusedKind::Undecided => 541,
        }
    }

    /// The name of the code, with which a reply text begins.
    pub fn name(self) -> &'static str {
        match self {
            RefusedKind::AccessRefused | RefusedKind::Unanswered => "ACCESS_REFUSED",
            RefusedKind::NotFound => "NOT_FOUND",
            RefusedKind::ResourceLocked => "RESOURCE_LOCKED",
            RefusedKind::PreconditionFailed
            | RefusedKind::WrongProperty
            | RefusedKind::AlreadyExists
            | RefusedKind::LimitReached
            | RefusedKind::Protected => "PRECONDITION_FAILED",
            RefusedKind::CommandInvalid => "COMMAND_INVALID",
            RefusedKind::NotAllowed => "NOT_ALLOWED",
            RefusedKind::NotImplemented | RefusedKind::WrongQueueType => "NOT_IMPLEMENTED",
            RefusedKind::InternalError | RefusedKind::Undecided => "INTERNAL_ERROR",
        }
    }

    /// Whether this code closes the connection in 0-9-1, rather than only the channel.
    pub fn closes_connection(self) -> bool {
        self.code() >= 500
    }
}

/// A refusal: its kind and a text that begins with RabbitMQ's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Refused {
    /// The kind of the refusal.
    pub kind: RefusedKind,
    /// The reason, without the name of the kind.
    pub text: String,
}

impl Refused {
    /// A refusal of this kind.
    pub fn new(kind: RefusedKind, text: impl Into<String>) -> Self {
        Refused { kind, text: text.into() }
    }

    /// The text as 0-9-1 sends it: the name of the code, a dash, the reason.
    pub fn reply_text(&self) -> String {
        format!("{} - {}", self.kind.name(), self.text)
    }

    /// The queue doesn't exist.
    pub fn no_queue(vhost: &str, name: &str) -> Self {
        Refused::not_found(format!("no queue '{name}' in vhost '{vhost}'"))
    }

    /// The exchange doesn't exist.
    pub fn no_exchange(vhost: &str, name: &str) -> Self {
        Refused::not_found(format!("no exchange '{name}' in vhost '{vhost}'"))
    }

    /// The vhost doesn't exist.
    pub fn no_vhost(vhost: &str) -> Self {
        Refused::not_found(format!("no vhost '{vhost}'"))
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Refused::new(RefusedKind::NotFound, text)
    }

    pub(crate) fn access(text: impl Into<String>) -> Self {
        Refused::new(RefusedKind::AccessRefused, text)
    }

    /// 406: a precondition isn't met.
    pub fn precondition(text: impl Into<String>) -> Self {
        Refused::new(RefusedKind::PreconditionFailed, text)
    }

    pub(crate) fn default_exchange() -> Self {
        Refused::access("operation not permitted on the default exchange")
    }

    pub(crate) fn system_exchange(vhost: &str, name: &str) -> Self {
        Refused::access(format!("deletion of system exchange '{name}' in vhost '{vhost}' not allowed"))
    }

    pub(crate) fn reserved(kind: &str, name: &str) -> Self {
        Refused::access(format!("{kind} name '{name}' contains reserved prefix 'amq.*'"))
    }

    pub(crate) fn locked(vhost: &str, queue: &str) -> Self {
        Refused::new(
            RefusedKind::ResourceLocked,
            format!(
                "cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. It could be \
                 originally declared on another connection or the exclusive property value does not match \
                 that of the original declaration."
            ),
        )
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
