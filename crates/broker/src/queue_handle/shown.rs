//! Status and statistics of a queue.

use leveret_message::deliver::timestamp;
use leveret_queue::{ConsumerId, ConsumerStatus, Count, Peeked, QueueCounts, QueueGauges, QueueState, QueueStatus};

use super::QueueHandle;

impl QueueHandle {
    /// The queue as a listing shows it.
    pub fn status(&self) -> QueueStatus {
        self.inner.lock().status()
    }

    /// Its gauges after the last call, read without its lock.
    pub fn gauges(&self) -> QueueGauges {
        self.place.read()
    }

    /// Its counts, with rates; `None` if nothing has been counted at all.
    pub fn counts_if_any(&self) -> Option<QueueCounts> {
        self.gauges().counted.then(|| self.inner.lock().counts()).flatten()
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub fn counted(&self, count: Count) -> Option<u64> {
        self.gauges().counted.then(|| self.inner.lock().counted(count)).flatten()
    }

    /// One consumer as a listing shows it; `None` if it is gone.
    pub fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        self.inner.lock().consumer_status(id)
    }

    /// See [`leveret_queue::Queue::peek`].
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        self.inner.lock().peek(offset, count)
    }

    /// The property `timestamp` of the next message, in seconds since the Unix epoch; `None` while the message is only on disk.
    pub fn head_timestamp(&self) -> Option<u64> {
        if self.gauges().ready == 0 {
            return None;
        }
        let (batch, index) = self.peek(0, 1).pop()?.held?;
        timestamp(&batch.message(index as usize).view())
    }

    /// Ready messages and consumers.
    pub fn counts(&self) -> (u64, usize) {
        self.inner.lock().size()
    }

    /// Whether it is running, failed or deleted.
    pub fn state(&self) -> QueueState {
        self.inner.lock().state().clone()
    }

    /// Checks that the queue hasn't failed.
    ///
    /// # Errors
    /// The text for clients, see [`QueueHandle::crashed`].
    pub fn check_runs(&self) -> Result<(), String> {
        match self.state() {
            QueueState::Failed(reason) => Err(self.crashed(&reason)),
            _ => Ok(()),
        }
    }

    /// The text for clients that need a queue that has failed, in RabbitMQ's words.
    pub fn crashed(&self, reason: &str) -> String {
        let info = self.info();
        format!("queue '{}' in vhost '{}' has crashed and failed to restart: {reason}", info.name, info.vhost)
    }
}
