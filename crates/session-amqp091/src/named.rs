//! The queues that methods name, and what a user may do.

use std::sync::Arc;

use leveret_amqp091::{ReplyCode, ShortStr};
use leveret_model::{Action, Permit};

use super::arguments;
use super::error::{ProtocolError, Result};
use super::session::Session;
use leveret_broker::queue_handle::QueueRef;

impl Session {
    /// The queue that a method means: by name, or the last one declared on the channel.
    pub(crate) fn queue_name(&mut self, channel: u16, name: ShortStr<'_>) -> Result<Arc<str>> {
        let name = arguments::name("queue", name)?;
        if !name.is_empty() {
            return Ok(name.into());
        }
        let last = self.channel(channel)?.last_queue().cloned();
        last.ok_or_else(|| ProtocolError::new(ReplyCode::NotFound, "no previously declared queue"))
    }

    /// The same for queues that are bound or deleted.
    pub(crate) fn declared_queue_name(&mut self, channel: u16, name: ShortStr<'_>) -> Result<Arc<str>> {
        match &*arguments::declared_name("queue", name)? {
            "" => self.queue_name(channel, name),
            name => Ok(name.into()),
        }
    }

    /// A queue that this connection may use for `action`.
    pub(crate) fn known_queue(&self, name: &str, action: Action<'_>) -> Result<QueueRef> {
        Ok(self.client.known_queue(name, action)?)
    }

    /// Like [`Session::known_queue`], but only a queue that runs.
    pub(crate) fn usable_queue(&self, name: &str, action: Action<'_>) -> Result<QueueRef> {
        let queue = self.known_queue(name, action)?;
        queue.check_runs().map_err(|text| ProtocolError::new(ReplyCode::NotFound, text))?;
        Ok(queue)
    }

    /// The permit for an action of this connection's user in its vhost.
    pub(crate) fn authorize(&self, action: Action<'_>) -> Result<Permit> {
        Ok(self.client.authorize(action)?)
    }
}
