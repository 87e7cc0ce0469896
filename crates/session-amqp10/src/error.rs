//! Failures of a connection, session or link, and their scope.

use std::ops::{Deref, DerefMut};

use leveret_amqp10::{DecodeError, Symbol, condition};
use leveret_model::{Refused, RefusedKind};

use leveret_broker::partial::TooManyPartialBytes;
use leveret_broker::quota::LimitReached;

/// The scope that a failure ends (specification 2.4.5, 2.5.6 and 2.6.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The link is detached.
    Link,
    /// The session is ended.
    Session,
    /// The connection is closed.
    Connection,
}

/// An error that is sent to the peer (specification 2.8.14). Boxed, since functions that may fail with it are called
/// for every message, and would move its hundred bytes each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure(Box<Told>);

/// The contents of a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub scope: Scope,
    pub condition: Symbol<'static>,
    pub description: String,
    /// The delivery-tag that a routing error of a pre-settled message names (anonymous terminus, section 2.2.2).
    pub delivery_tag: Option<Vec<u8>>,
}

pub(crate) type Result<T, E = Failure> = core::result::Result<T, E>;

/// Largest description in bytes: the client's names and addresses in it may be as long as its frames.
const DESCRIPTION_MAX: usize = 1024;

impl Failure {
    #[cold]
    fn new(scope: Scope, condition: Symbol<'static>, description: impl Into<String>) -> Self {
        let mut description = description.into();
        description.truncate(description.floor_char_boundary(DESCRIPTION_MAX));
        Self(Box::new(Told { scope, condition, description, delivery_tag: None }))
    }

    pub(crate) fn link(condition: Symbol<'static>, description: impl Into<String>) -> Self {
        Self::new(Scope::Link, condition, description)
    }

    pub(crate) fn session(condition: Symbol<'static>, description: impl Into<String>) -> Self {
        Self::new(Scope::Session, condition, description)
    }

    pub(crate) fn connection(condition: Symbol<'static>, description: impl Into<String>) -> Self {
        Self::new(Scope::Connection, condition, description)
    }

    /// The same failure with another scope.
    pub(crate) fn ending(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }
}

impl Deref for Failure {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Told {
        &mut self.0
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::connection(error.condition(), error.to_string())
    }
}

impl From<TooManyPartialBytes> for Failure {
    fn from(error: TooManyPartialBytes) -> Self {
        Self::link(condition::RESOURCE_LIMIT_EXCEEDED, error.to_string())
    }
}

impl From<LimitReached> for Failure {
    fn from(reached: LimitReached) -> Self {
        Self::link(condition::RESOURCE_LIMIT_EXCEEDED, reached.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let condition = match refused.kind {
            RefusedKind::AccessRefused | RefusedKind::Unanswered => condition::UNAUTHORIZED_ACCESS,
            RefusedKind::NotFound => condition::NOT_FOUND,
            RefusedKind::ResourceLocked => condition::RESOURCE_LOCKED,
            RefusedKind::PreconditionFailed
            | RefusedKind::WrongProperty
            | RefusedKind::AlreadyExists
            | RefusedKind::Protected => condition::PRECONDITION_FAILED,
            RefusedKind::LimitReached => condition::RESOURCE_LIMIT_EXCEEDED,
            RefusedKind::CommandInvalid => condition::ILLEGAL_STATE,
            RefusedKind::NotAllowed => condition::NOT_ALLOWED,
            RefusedKind::NotImplemented | RefusedKind::WrongQueueType => condition::NOT_IMPLEMENTED,
            RefusedKind::InternalError | RefusedKind::Undecided => condition::INTERNAL_ERROR,
        };
        Self::link(condition, refused.text)
    }
}
