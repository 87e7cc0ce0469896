//! Policies aren't built yet: lists are empty, single ones don't exist, and changes are refused with their name.

use crate::call::{Answer, Call};
use crate::error::Error;
use crate::list;

/// GET of a list.
pub(crate) async fn none(call: Call) -> Answer {
    list::values(&call.query, Vec::new())
}

/// GET or DELETE of one.
pub(crate) async fn no_such(_: Call) -> Answer {
    Err(Error::NotFound)
}

/// PUT of a policy.
pub(crate) async fn put(_: Call) -> Answer {
    Err(Error::NotImplemented("policies aren't built yet".to_owned()))
}

/// PUT of an operator policy.
pub(crate) async fn put_operator(_: Call) -> Answer {
    Err(Error::NotImplemented("operator policies aren't built yet".to_owned()))
}

/// What concerns members of quorum queues.
pub(crate) async fn quorum(_: Call) -> Answer {
    Err(Error::NotImplemented("quorum queues aren't built yet".to_owned()))
}

/// What concerns streams.
pub(crate) async fn streams(_: Call) -> Answer {
    Err(Error::NotImplemented("streams aren't built yet".to_owned()))
}
