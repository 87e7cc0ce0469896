//! Work on many things at once that was begun and isn't finished.

use std::collections::{btree_map, hash_map};
use std::sync::Arc;

use leveret_model::QueueId;

use super::channel::Channel;
use super::held::Answer;
use super::run::RunOnItsWay;
use super::tx::Committing;
use leveret_broker::settlement::Settlement;
use leveret_session::fan_out::FanOut;
use leveret_session::gone::GoneAt;

/// A piece of work that was begun and isn't finished.
pub(crate) enum Unfinished {
    /// Handing a run to many queues.
    FanOut(RunOnItsWay, Box<FanOut>),
    /// Settling deliveries of a channel.
    Settling(Settling),
    /// Committing a transaction.
    Commit(Box<Committing>),
    /// Ending a channel.
    Channel(EndingChannel),
    /// Ending the connection.
    Connection(EndingConnection),
}

pub(crate) struct Settling {
    pub channel: u16,
    /// The last delivery-tag to settle.
    pub up_to: u64,
    pub settlement: Settlement,
    /// `basic.recover-ok` is sent afterwards.
    pub recover_ok: bool,
}

/// A channel that is ending and that frames no longer reach: its consumers are removed, its deliveries requeued in
/// place.
pub(crate) struct EndingChannel {
    pub(super) channel: Box<Channel>,
    /// Keys of its consumers.
    pub(super) consumers: btree_map::IntoIter<Arc<[u8]>, u64>,
    /// The time from which on the queues that are deleted with it are gone.
    pub(super) gone_at: GoneAt,
    /// The answer to the client. None if the broker closed the channel, as its close was sent already.
    pub(super) answer: Option<Answer>,
}

/// A connection that is ending with everything that it owns.
pub(crate) struct EndingConnection {
    pub(super) answer: Option<Answer>,
    pub(super) gone_at: GoneAt,
    /// None until earlier unfinished work is done.
    pub(super) left: Option<Remains>,
}

pub(super) struct Remains {
    /// The channel that is being ended.
    pub(super) channel: Option<EndingChannel>,
    pub(super) channels: hash_map::IntoIter<u16, Box<Channel>>,
    /// The first id of the exclusive queues that are left; none if no more are.
    pub(super) exclusive_queues: Option<QueueId>,
}
