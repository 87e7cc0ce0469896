//! The reason why a request is refused.

use std::fmt;

use leveret_model::{Refused, RefusedKind};

/// Status codes (RFC 9110, 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Created,
    NoContent,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    InternalServerError,
    NotImplemented,
}

impl Status {
    /// The `subject` of a response.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Status::Ok => "200",
            Status::Created => "201",
            Status::NoContent => "204",
            Status::BadRequest => "400",
            Status::Forbidden => "403",
            Status::NotFound => "404",
            Status::MethodNotAllowed => "405",
            Status::Conflict => "409",
            Status::InternalServerError => "500",
            Status::NotImplemented => "501",
        }
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A response with this status, and a text as body.
    Answer(Status, String),
    /// The user has no permission: the session ends, as clients of RabbitMQ expect.
    Access(Refused),
}

pub(crate) type Result<T> = core::result::Result<T, Refusal>;

impl Refusal {
    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::Answer(Status::BadRequest, text.into())
    }

    /// The refusal for an error of the model, which checks no permissions. RabbitMQ's rule: a conflict with an existing
    /// object, or a bad argument, is 409. Everything else is 400, even if the object doesn't exist.
    pub(crate) fn of_model(refused: Refused) -> Self {
        let status = match refused.kind {
            RefusedKind::PreconditionFailed | RefusedKind::Protected | RefusedKind::AlreadyExists => Status::Conflict,
            RefusedKind::AccessRefused | RefusedKind::LimitReached | RefusedKind::Unanswered => Status::Forbidden,
            RefusedKind::NotImplemented => Status::NotImplemented,
            RefusedKind::NotFound
            | RefusedKind::ResourceLocked
            | RefusedKind::CommandInvalid
            | RefusedKind::NotAllowed
            | RefusedKind::WrongQueueType
            | RefusedKind::WrongProperty
            | RefusedKind::InternalError
            | RefusedKind::Undecided => Status::BadRequest,
        };
        Self::Answer(status, refused.text)
    }

    /// The refusal for an error of the model, where RabbitMQ knows no conflict.
    pub(crate) fn without_conflict(refused: Refused) -> Self {
        match Self::of_model(refused) {
            Self::Answer(Status::Conflict, text) => Self::Answer(Status::BadRequest, text),
            other => other,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(status, text) => write!(f, "{} {text}", status.code()),
            Self::Access(refused) => refused.fmt(f),
        }
    }
}
