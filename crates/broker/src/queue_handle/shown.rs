//! Status and statistics of a queue.

use leveret_message::deliver::timestamp;
use leveret_queue::{ConsumerId, ConsumerStatus, Count, Peeked, QueueCounts, QueueGauges, QueueState, QueueStatus};

use super::QueueHandle;

impl QueueHandle {
    /// The queue as a listing shows it.
    pub(crate) fn status(&self) -> QueueStatus {
        self.inner.lock().status()
    }

    /// Its gauges after the last call, read without its lock.
    pub(crate) fn gauges(&self) -> QueueGauges {
        self.place.read()
    }

    /// Its counts, with rates; `None` if nothing has been counted at all.
    pub(crate) fn counts_if_any(&self) -> Option<QueueCounts> {
        self.gauges().counted.then(|| self.inner.lock().counts()).flatten()
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub(crate) fn counted(&self, count: Count) -> Option<u64> {
        self.gauges().counted.then(|| self.inner.lock().counted(count)).flatten()
    }

    /// One consumer as a listing shows it; `None` if it is gone.
    pub(crate) fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        self.inner.lock().consumer_status(id)
    }

    /// See [`leveret_queue::Queue::peek`].
    pub(crate) fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        self.inner.lock().peek(offset, count)
    }

    /// The property `timestamp` of the next message, in seconds since the Unix epoch; `None` while the message is only on disk.
    pub(crate) fn head_timestamp(&self) -> Option<u64> {
        if self.gauges().ready == 0 {
            return None;
        }
        let (batch, index) = self.peek(0, 1).pop()?.held?;
        timestamp(&batch.message(index as usize).view())
    }

    /// Ready messages and consumers.
    pub(crate) fn counts(&self) -> (u64, usize) {
        self.inner.lock().size()
    }

    /// Whether it is running, failed or deleted.
    pub(crate) fn state(&self) -> QueueState {
        self.inner.lock().state().clone()
    }
}
