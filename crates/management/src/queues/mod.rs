//! `/api/queues`.

mod browse;
mod change;
mod get;
mod list;
mod view;

pub(crate) use browse::browse;
pub(crate) use change::{actions, declare, delete, purge};
pub(crate) use get::{get, message_view};
pub(crate) use list::{detailed, list, list_of_vhost};
pub(crate) use view::{consumer_capacity, consumer_view, waiting};

use crate::call::{Answer, Call, json};
use crate::columns::Columns;
use crate::error::Error;

/// One queue, with its consumers.
pub(crate) async fn show(call: Call) -> Answer {
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(call.word(0), call.word(1)).ok_or(Error::NotFound)?;
    json(Columns::of(&call.query).pick(view::full(&call.api, queue)))
}
