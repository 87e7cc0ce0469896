//! Gathering a queue's stored messages from its own log and from the shared one, on the reading disk thread.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{BODY_PIECE_BYTES, Disk, LogId, StoredMessage};
use leveret_message::{Batch, stored};
use leveret_queue::shared::SharedPlace;
use leveret_queue::{ConsumerId, Scan};

use crate::bodies::{Bodies, BodyPin};
use crate::scan::PassFound;
use crate::stored_messages::{Body, Stored};
use crate::streams::StoreRef;

/// Number of bytes that one read requests.
pub const READ_BYTES: usize = 256 << 10;

/// The purpose of a read, by what is read.
#[derive(Clone)]
pub enum Purpose {
    /// Messages of a queue that isn't a stream.
    Messages(MessagesFor),
    /// Chunks of a stream.
    Chunks(ChunksFor),
}

/// The purpose of a read of messages.
#[derive(Clone)]
pub enum MessagesFor {
    /// To be delivered: these numbers only, if there are some, see [`leveret_queue::RareEffects::read_numbers`].
    Delivery(Vec<(u64, u64)>),
    /// For this consumer alone, which browses, or fetches deferred messages.
    Own(ConsumerId),
    /// To be moved to a dead-letter exchange: these numbers only.
    DeadLetters(Vec<(u64, u64)>),
    /// To be passed to this function.
    Peeking(Peek),
}

/// The purpose of a read of chunks.
#[derive(Clone)]
pub enum ChunksFor {
    /// For this reader alone.
    Reader(ConsumerId),
    /// To be passed to this function, as messages.
    Peeking(Peek),
    /// To be searched, for this function.
    Searching(Box<Scan>, PassFound),
}

/// A function that is called with messages, or with the reason why they can't be read.
pub type Peek = Arc<dyn Fn(Result<Vec<(u64, Arc<Batch>)>, String>) + Send + Sync>;

/// The queue whose messages are read.
pub(crate) trait ReadOwner {
    /// Its log.
    fn log_id(&self) -> LogId;
    /// The log of the disk that has its messages.
    fn store(&self) -> &StoreRef;
    /// The location of the first message from `number` on that is in the shared log.
    fn shared_place(&self, number: u64) -> Option<SharedPlace>;
    /// These runs of numbers in parts by the log that they are in, each with its first number in the shared one.
    fn split_by_log(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64, Option<u64>)>;
    /// Whether it has this message and it is stored in the shared log.
    fn holds_shared(&self, number: u64) -> bool;
}

/// The messages of a log that were read at once: all that it has between the first and the last of these.
struct Ahead {
    log: LogId,
    messages: Peekable<std::vec::IntoIter<StoredMessage>>,
    was_read: bool,
}

impl Ahead {
    fn of(log: LogId) -> Self {
        Self { log, messages: Vec::new().into_iter().peekable(), was_read: false }
    }

    /// Whether a message from number `from` on can't be found without another read.
    fn is_used_up(&mut self, from: u64) -> bool {
        while self.messages.next_if(|message| message.last() < from).is_some() {}
        self.messages.peek().is_none()
    }

    /// Reads on from this number.
    fn read(&mut self, from: u64, store: &StoreRef, disk: &dyn Disk) -> Result<(), String> {
        self.was_read = true;
        let plan = store.plan_read(self.log, from, READ_BYTES);
        let messages = plan.map_or(Ok(Vec::new()), |plan| plan.run(disk)).map_err(|error| error.to_string())?;
        self.messages = messages.into_iter().peekable();
        Ok(())
    }

    /// The next message before number `end`.
    fn next_before(&mut self, end: u64) -> Option<StoredMessage> {
        self.messages.next_if(|message| message.number < end)
    }
}

/// A read of a queue's messages, some of which are stored in its own log and some in the shared one.
struct Gathering<'a> {
    queue: &'a dyn ReadOwner,
    purpose: &'a MessagesFor,
    bodies: &'a Arc<Bodies>,
    disk: &'a dyn Disk,
    own: Ahead,
    shared: Ahead,
    found: Vec<Stored>,
    bytes: usize,
}

/// Messages of a queue from number `from` on, until [`READ_BYTES`] are found, or another read of one of the logs is needed.
pub(crate) fn stored(
    queue: &dyn ReadOwner,
    mut from: u64,
    purpose: &MessagesFor,
    bodies: &Arc<Bodies>,
    disk: &dyn Disk,
) -> Result<Vec<Stored>, String> {
    let (own, shared) = (Ahead::of(queue.log_id()), Ahead::of(LogId::SHARED));
    let mut gathering = Gathering { queue, purpose, bodies, disk, own, shared, found: Vec::new(), bytes: 0 };
    if let MessagesFor::Delivery(numbers) | MessagesFor::DeadLetters(numbers) = purpose
        && !numbers.is_empty()
    {
        return match gathering.only(numbers) {
            Err(error) if gathering.found.is_empty() => Err(error),
            _ => Ok(gathering.found),
        };
    }
    loop {
        match gathering.stretch(from) {
            Ok(Some(next)) if gathering.bytes < READ_BYTES => from = next,
            // Messages found before the error are used; the next read begins with the error.
            Err(error) if gathering.found.is_empty() => return Err(error),
            Ok(_) | Err(_) => return Ok(gathering.found),
        }
    }
}

impl Gathering<'_> {
    /// Takes messages with these numbers only, in this order.
    fn only(&mut self, numbers: &[(u64, u64)]) -> Result<(), String> {
        let parts = self.queue.split_by_log(numbers);
        for parts in parts.chunk_by(|(.., one), (.., next)| one.is_some() == next.is_some()) {
            let is_shared = parts[0].2.is_some();
            let log = if is_shared { LogId::SHARED } else { self.queue.log_id() };
            let there = |&(first, last, shared): &(u64, u64, Option<u64>)| {
                let first_there = shared.unwrap_or(first);
                (first_there, first_there + (last - first))
            };
            let numbers: Vec<(u64, u64)> = parts.iter().map(there).collect();
            for plan in self.queue.store().plan_reads_of(log, &numbers, READ_BYTES) {
                for message in plan.run(self.disk).map_err(|error| error.to_string())? {
                    match numbers.iter().position(|(first, last)| (*first..=*last).contains(&message.number)) {
                        Some(at) if is_shared => {
                            self.take_shared(parts[at].0 + message.number - numbers[at].0, message.payload)?;
                        }
                        _ => self.keep(message.into()),
                    }
                    if self.bytes >= READ_BYTES {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes contiguous messages of one of the logs. Returns where to continue, unless that log has to be read again.
    fn stretch(&mut self, from: u64) -> Result<Option<u64>, String> {
        let place = self.queue.shared_place(from);
        let shared_from = place.map_or(u64::MAX, |place| place.first);
        if shared_from > from {
            if self.own.is_used_up(from) {
                if self.own.was_read && !self.found.is_empty() {
                    return Ok(None);
                }
                self.own.read(from, self.queue.store(), self.disk)?;
            }
            let mut next = None;
            while let Some(message) = self.own.next_before(shared_from) {
                next = Some(message.last() + 1);
                self.keep(message.into());
            }
            // Another file may contain more of them.
            if next.is_some() && self.own.messages.peek().is_none() {
                return Ok(next);
            }
        }
        place.map_or(Ok(None), |place| self.stretch_of_shared(place))
    }

    fn stretch_of_shared(&mut self, place: SharedPlace) -> Result<Option<u64>, String> {
        if self.shared.is_used_up(place.shared) {
            if self.shared.was_read && !self.found.is_empty() {
                return Ok(None);
            }
            self.shared.read(place.shared, self.queue.store(), self.disk)?;
        }
        let mut next = None;
        while let Some(message) = self.shared.next_before(place.shared + place.count) {
            let number = place.first + message.number - place.shared;
            next = Some(number + 1);
            self.take_shared(number, message.payload)?;
            if self.bytes >= READ_BYTES {
                return Ok(next);
            }
        }
        let is_at_end = self.shared.messages.peek().is_none();
        Ok(next.filter(|_| is_at_end).or(Some(place.first + place.count)))
    }

    fn take_shared(&mut self, number: u64, payload: Bytes) -> Result<(), String> {
        let file = stored::body_file(&payload).map_err(|error| error.to_string())?;
        let Some((id, _, length)) = file else {
            self.keep(Stored { number, payload, body: Body::Here });
            return Ok(());
        };
        // The file isn't removed from here on, unless that was decided before.
        let pin = BodyPin::new(id, length as u64, self.bodies);
        // A message that the queue released is still in the log for a while, but its file may not be.
        if !self.queue.holds_shared(number) {
            return Ok(());
        }
        let body = match self.purpose {
            // Pieces are read later, when there is room for them. Whether the file exists is checked now.
            MessagesFor::Delivery(_) => pin.open(self.disk, self.queue.log_id()).map(|_| Body::in_file(&pin, None)),
            // Its consumer may have a filter, which looks at the fields.
            MessagesFor::Own(_) => {
                let fields = match stored::is_amqp10(&payload) {
                    true => pin.fields(self.disk, self.queue.log_id()),
                    false => pin.open(self.disk, self.queue.log_id()).map(|_| Bytes::new()),
                };
                self.bytes += fields.as_ref().map_or(0, |_| BODY_PIECE_BYTES);
                fields.map(|fields| Body::in_file(&pin, Some(fields)))
            }
            // They are copied to the logs of other queues, or shown as a whole.
            MessagesFor::DeadLetters(_) | MessagesFor::Peeking(_) => {
                pin.read(self.disk, self.queue.log_id()).map(Body::Read)
            }
        };
        let body = body.map_err(|error| error.to_string())?;
        self.keep(Stored { number, payload, body });
        Ok(())
    }

    fn keep(&mut self, message: Stored) {
        self.bytes += message.payload.len();
        if let Body::Read(body) = &message.body {
            self.bytes += body.len();
        }
        self.found.push(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_found_by_any_of_its_numbers() {
        let chunk = |number| StoredMessage { number, messages: 10, payload: Bytes::new(), lent: None };
        let messages = vec![chunk(0), chunk(10)].into_iter().peekable();
        let mut ahead = Ahead { messages, ..Ahead::of(LogId(7)) };
        assert!(!ahead.is_used_up(19));
        assert_eq!(ahead.next_before(20).map(|chunk| chunk.number), Some(10));
        assert!(ahead.is_used_up(20));
    }
}
