use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leveret_model::{Refused, RefusedKind};
use serde_json::json;

use crate::percent::NotText;

/// An error response, in RabbitMQ's format.
#[derive(Debug)]
pub(crate) enum Error {
    /// The request has no credentials.
    Unauthenticated,
    /// The credentials are wrong.
    WrongPassword,
    /// Basic authentication is disabled (`management.disable_basic_auth`).
    BasicAuthIsOff(&'static str),
    /// The user may not do this.
    Forbidden(String),
    /// The header or body is invalid.
    BadRequest(String),
    /// The header or body is invalid; the reason has RabbitMQ's form, which isn't always a text.
    BadRequestOf(serde_json::Value),
    /// The object or route doesn't exist.
    NotFound,
    /// Something that the object depends on doesn't exist.
    Missing(String),
    /// The same, where RabbitMQ takes it for a wrong request.
    MissingReference(&'static str),
    /// Known, but not supported.
    NotImplemented(String),
    /// This status with `error` and `reason`.
    Of(StatusCode, &'static str, String),
    /// The node can't do it now.
    Unavailable(String),
}

impl Error {
    /// The same error, with its place in the input.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            Error::BadRequest(reason) => Error::BadRequest(format!("{reason} ({place})")),
            Error::BadRequestOf(reason) => Error::BadRequest(format!("{reason} ({place})")),
            Error::NotImplemented(reason) => Error::NotImplemented(format!("{reason} ({place})")),
            other => other,
        }
    }
}

impl Error {
    /// Whether something wasn't found, an object or the right to something, that another node may have said is there.
    pub(crate) fn may_be_behind(&self) -> bool {
        matches!(
            self,
            Error::NotFound
                | Error::Missing(_)
                | Error::MissingReference(_)
                | Error::Forbidden(_)
                | Error::WrongPassword
        )
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused.kind {
            RefusedKind::NotFound => Error::NotFound,
            RefusedKind::AccessRefused | RefusedKind::NotAllowed | RefusedKind::Unanswered => {
                Error::Forbidden(format!("Access refused. {}", refused.text))
            }
            RefusedKind::Protected => Error::Of(StatusCode::PRECONDITION_FAILED, "precondition_failed", refused.text),
            RefusedKind::NotImplemented => Error::NotImplemented(refused.text),
            RefusedKind::ResourceLocked
            | RefusedKind::PreconditionFailed
            | RefusedKind::WrongProperty
            | RefusedKind::AlreadyExists
            | RefusedKind::LimitReached
            | RefusedKind::CommandInvalid
            | RefusedKind::WrongQueueType
            | RefusedKind::InternalError
            | RefusedKind::Undecided => Error::BadRequest(refused.text),
        }
    }
}

impl From<NotText> for Error {
    fn from(reason: NotText) -> Self {
        Error::BadRequest(reason.to_string())
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let body = |status: StatusCode, error: &str, reason: &str| {
            (status, Json(json!({"error": error, "reason": reason}))).into_response()
        };
        match self {
            Error::Unauthenticated => {
                let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"RabbitMQ Management\"")];
                (StatusCode::UNAUTHORIZED, challenge).into_response()
            }
            Error::WrongPassword => body(StatusCode::UNAUTHORIZED, "not_authorized", "Not_Authorized"),
            Error::BasicAuthIsOff(what) => {
                let reason = format!("HTTP access denied: {what} (management.disable_basic_auth)");
                body(StatusCode::UNAUTHORIZED, "not_authorised", &reason)
            }
            Error::Forbidden(reason) => body(StatusCode::UNAUTHORIZED, "not_authorised", &reason),
            Error::BadRequest(reason) => body(StatusCode::BAD_REQUEST, "bad_request", &reason),
            Error::MissingReference(reason) => body(StatusCode::BAD_REQUEST, "bad_request", reason),
            Error::BadRequestOf(reason) => {
                (StatusCode::BAD_REQUEST, Json(json!({"error": "bad_request", "reason": reason}))).into_response()
            }
            Error::NotFound => body(StatusCode::NOT_FOUND, "Object Not Found", "Not Found"),
            Error::Missing(reason) => body(StatusCode::NOT_FOUND, "not_found", &reason),
            Error::NotImplemented(reason) => body(StatusCode::NOT_IMPLEMENTED, "not_implemented", &reason),
            Error::Of(status, error, reason) => body(status, error, &reason),
            Error::Unavailable(reason) => {
                let later = [(header::RETRY_AFTER, "1")];
                (later, body(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &reason)).into_response()
            }
        }
    }
}
