//! Status and statistics of a queue, and its answers to questions.

use leveret_message::deliver::timestamp;
use leveret_queue::{Count, Peeked, QueueCounts, QueueGauges, QueueState};

use super::QueueHandle;
use crate::questions::{
    Aside, ConsumerState, CountOf, Counts, HeadTimestamp, KeptOffsetOf, ParkedEnds, Peek, PeekAside, QueueAnswer,
    QueueQuestion, ReadyEnds, RunState, Search, SetAsideOf, Size, Status, StreamEnds, WriterSequence,
};

impl QueueHandle {
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

impl QueueHandle {
    /// Answers a question of any kind.
    pub(crate) fn answer(&self, question: QueueQuestion) -> QueueAnswer {
        match question {
            QueueQuestion::Status(Status) => QueueAnswer::Status(Some(Box::new(self.look(|queue| queue.status())))),
            QueueQuestion::RunState(RunState) => QueueAnswer::RunState(self.state()),
            QueueQuestion::Size(Size { used: None }) => QueueAnswer::Size(self.counts()),
            QueueQuestion::Size(Size { used: Some(now) }) => QueueAnswer::Size(self.declared_again(now)),
            QueueQuestion::ConsumerState(ConsumerState(id)) => {
                QueueAnswer::ConsumerState(self.look(|queue| queue.consumer_status(id)).map(Box::new))
            }
            QueueQuestion::Counts(Counts) => QueueAnswer::Counts(self.counts_if_any().map(Box::new)),
            QueueQuestion::CountOf(CountOf(count)) => QueueAnswer::CountOf(self.counted(count)),
            QueueQuestion::HeadTimestamp(HeadTimestamp) => QueueAnswer::HeadTimestamp(self.head_timestamp()),
            QueueQuestion::SetAsideOf(SetAsideOf(which)) => QueueAnswer::SetAsideOf(self.set_aside(which)),
            QueueQuestion::Peek(Peek { offset, count }) => QueueAnswer::Peek(self.peek(offset, count)),
            QueueQuestion::PeekAside(PeekAside { which, offset, count }) => {
                let (messages, bytes) = self.set_aside(which);
                QueueAnswer::PeekAside(Aside {
                    messages,
                    bytes,
                    peeked: self.look(|queue| {
                        queue.ledger().map_or_else(Vec::new, |ledger| ledger.peek_set_aside(which, offset, count))
                    }),
                })
            }
            QueueQuestion::ParkedEnds(ParkedEnds(range)) => QueueAnswer::ParkedEnds(self.parked_ends(range)),
            QueueQuestion::ReadyEnds(ReadyEnds(range)) => {
                QueueAnswer::ReadyEnds(self.look(|queue| queue.ready_ends(range)))
            }
            QueueQuestion::KeptOffsetOf(KeptOffsetOf(name)) => {
                QueueAnswer::KeptOffsetOf(self.look(|queue| queue.stream()?.kept_offset(&name)))
            }
            QueueQuestion::WriterSequence(WriterSequence(name)) => {
                // In this order: what is waited for has the message with this number.
                let sequence = self.look(|queue| queue.stream()?.writer_sequence(&name));
                QueueAnswer::WriterSequence((sequence, self.awaited()))
            }
            QueueQuestion::Search(Search { start, filter }) => {
                let found = self.look(|queue| Some(queue.stream()?.search(start, filter)));
                QueueAnswer::Search(found.map(|(next, scan)| (next, Box::new(scan))))
            }
            QueueQuestion::StreamEnds(StreamEnds) => {
                QueueAnswer::StreamEnds(self.look(|queue| Some(queue.stream()?.ends().into())))
            }
        }
    }
}
