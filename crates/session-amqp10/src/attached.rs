//! Attaches at the head of the input that don't go on: what a queue or the control plane was asked for them is forgotten.

use leveret_model::Queue;
use leveret_queue::DeleteIf;

use super::attaching::Attaching;
use super::connection::Connection;
use leveret_broker::time::Now;
use leveret_session::gone::GoneAt;

impl Connection {
    /// Cancels the consumer that the held attach asked for, if that is an attach of such a link: it isn't attached.
    pub(crate) fn forget_attaching(&mut self, is_meant: impl FnOnce((u16, u32)) -> bool, now: Now) {
        if let Some(attaching) = self.attaching.take_if(|attaching| is_meant(attaching.link)) {
            let Attaching { queue, id, .. } = *attaching;
            // It comes behind the call that adds the consumer.
            let left = queue.cancel(id, now.monotonic);
            self.client.delete_if_unused(&queue, left, now);
        }
    }

    /// Forgets the queue that is being declared for the held attach, if that is an attach of such a link.
    pub(crate) fn forget_declaring(&mut self, is_meant: impl FnOnce((u16, u32)) -> bool) {
        self.declaring.take_if(|declaring| is_meant(declaring.link()));
    }

    /// Deletes the queue of a dynamic terminus with its link. Returns the time from which on it is gone.
    pub(crate) fn delete_queue(&self, queue: &Queue, now: Now) -> GoneAt {
        self.client.broker.delete_queue(queue, DeleteIf::default(), now).into()
    }
}
