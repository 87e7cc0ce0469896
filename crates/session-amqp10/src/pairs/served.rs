//! Requests that were served.

use leveret_broker::asked::Later;
use leveret_broker::registry::ChangeOutcome;

use super::response::Done;

/// The request whose change was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changing {
    DeclareQueue,
    DeleteQueue,
    DeclareExchange,
    DeleteExchange,
    Bind,
    Unbind,
}

/// A request that was served.
pub(crate) enum Served {
    Done(Done),
    /// The outcome of its change comes later.
    Asked(Changing, Later<ChangeOutcome>),
}

impl From<Done> for Served {
    fn from(done: Done) -> Self {
        Self::Done(done)
    }
}
