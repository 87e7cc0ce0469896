//! Status and statistics of a queue.

use leveret_message::deliver::timestamp;
use leveret_queue::{ConsumerId, ConsumerStatus, Count, Peeked, QueueCounts, QueueGauges, QueueState, QueueStatus};

use super::QueueHandle;

impl QueueHandle {
    /// The queue as a listing shows it.
    pub(crate) fn status(&self) -> QueueStatus {
        self.look(|queue| queue.status())
    }

    /// Its gauges after the last call, read without its lock.
    pub(crate) fn gauges(&self) -> QueueGauges {
        let gauges = self.place.read();
        // After a conversion, which is to be seen before the gauges of this handle are overwritten, the successor has its own.
        self.successor().map_or(gauges, |successor| successor.gauges())
    }

    /// Its counts, with rates; `None` if nothing has been counted at all.
    pub(crate) fn counts_if_any(&self) -> Option<QueueCounts> {
        self.gauges().counted.then(|| self.look(|queue| queue.counts())).flatten()
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub(crate) fn counted(&self, count: Count) -> Option<u64> {
        self.gauges().counted.then(|| self.look(|queue| queue.counted(count))).flatten()
    }

    /// One consumer as a listing shows it; `None` if it is gone.
    pub(crate) fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        self.look(|queue| queue.consumer_status(id))
    }

    /// See [`leveret_queue::Queue::peek`].
    pub(crate) fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        self.look(|queue| queue.peek(offset, count))
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
        self.look(|queue| queue.size())
    }

    /// Whether it is running, failed or deleted.
    pub(crate) fn state(&self) -> QueueState {
        self.look(|queue| queue.state().clone())
    }
}
