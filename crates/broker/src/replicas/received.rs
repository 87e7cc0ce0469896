//! The publishes that a leader has received of each writer, so that none is carried out twice, and none confirmed that wasn't.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::publish_origin::{self, PublishOrigin, WriterMark};
use crate::ticket::Ticket;

/// The publishes of all writers in one leadership.
pub(crate) struct ReceivedPublishes(Mutex<FxHashMap<u64, Received>>);

/// The publishes of a writer.
#[derive(Default)]
struct Received {
    /// The epoch of the last one.
    epoch: u32,
    /// Whether none of that epoch is missing.
    is_whole: bool,
    /// Whether the last one is being carried out: its messages aren't appended yet.
    is_begun: bool,
    mark: WriterMark,
}

/// The decision of a leader on a publish.
pub(crate) enum OriginTurn<'a> {
    /// It carries it out; until that is done, no other one of its writer is taken.
    New(BegunPublish<'a>),
    /// It was carried out before; so many of its messages were accepted.
    Repeated(Ticket, u32),
    /// It can't be taken: one before it is missing or not carried out, or the leadership is over.
    Lost,
}

/// A publish that is being carried out, until this is dropped.
pub(crate) struct BegunPublish<'a> {
    received: &'a ReceivedPublishes,
    writer: u64,
}

impl ReceivedPublishes {
    /// Publishes of writers, of which those up to these marks are committed.
    pub(super) fn new(writers: BTreeMap<u64, WriterMark>) -> Self {
        let of = |(writer, mark)| (writer, Received { mark, ..Received::default() });
        Self(Mutex::new(writers.into_iter().map(of).collect()))
    }

    /// Begins a publish; `appended` is the ticket of everything that was appended so far.
    pub(super) fn begin(&self, origin: PublishOrigin, appended: impl FnOnce() -> Ticket) -> OriginTurn<'_> {
        let mut all = self.0.lock();
        let PublishOrigin { writer, number, epoch, is_first, .. } = origin;
        let received = all.entry(writer).or_default();
        if is_first && epoch > received.epoch {
            // One that an earlier link of the writer brought, and that is to be appended, has no place yet that could be waited for.
            (received.epoch, received.is_whole) = (epoch, !received.is_begun);
        }
        if epoch != received.epoch || !received.is_whole {
            return OriginTurn::Lost;
        }
        if number <= received.mark.last {
            let accepted = received.mark.in_part.get(&number).copied().unwrap_or(publish_origin::ALL);
            return OriginTurn::Repeated(appended(), accepted);
        }
        received.mark.note(number, publish_origin::ALL, origin.heard);
        received.is_begun = true;
        OriginTurn::New(BegunPublish { received: self, writer })
    }

    /// A publish couldn't be begun: those behind it in its epoch can't be, either.
    pub(super) fn missed(&self, origin: PublishOrigin) {
        let mut all = self.0.lock();
        let received = all.entry(origin.writer).or_default();
        if origin.epoch >= received.epoch {
            (received.epoch, received.is_whole) = (origin.epoch, false);
        }
    }

    /// Not all messages of a publish that was begun were accepted.
    pub(super) fn refused(&self, origin: PublishOrigin, accepted: u32) {
        if let Some(received) = self.0.lock().get_mut(&origin.writer) {
            received.mark.note(origin.number, accepted, origin.heard);
        }
    }
}

impl Drop for BegunPublish<'_> {
    fn drop(&mut self) {
        if let Some(received) = self.received.0.lock().get_mut(&self.writer) {
            received.is_begun = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: u64 = 1 << 48 | 7;

    fn origin(number: u64, epoch: u32, is_first: bool) -> PublishOrigin {
        PublishOrigin { writer: WRITER, number, epoch, is_first, heard: 1 }
    }

    fn turn(received: &ReceivedPublishes, origin: PublishOrigin) -> &'static str {
        match received.begin(origin, Ticket::default) {
            OriginTurn::New(_) => "new",
            OriginTurn::Repeated(..) => "repeated",
            OriginTurn::Lost => "lost",
        }
    }

    #[test]
    fn a_publish_that_is_being_carried_out_is_not_taken_for_done() {
        let received = ReceivedPublishes::new(BTreeMap::new());
        let begun = received.begin(origin(1, 1, true), Ticket::default);
        assert!(matches!(begun, OriginTurn::New(_)));
        // The writer has dialled again, and sends it over another link before the first session has appended it.
        assert_eq!(turn(&received, origin(1, 2, true)), "lost");
        assert_eq!(turn(&received, origin(2, 2, false)), "lost", "nor is one behind it taken");
        drop(begun);
        assert_eq!(turn(&received, origin(2, 1, false)), "lost", "its epoch is over");
        assert_eq!(turn(&received, origin(1, 3, true)), "repeated");
        assert_eq!(turn(&received, origin(2, 3, false)), "new");
    }

    #[test]
    fn none_is_taken_behind_one_that_was_missed() {
        let received = ReceivedPublishes::new(BTreeMap::new());
        assert_eq!(turn(&received, origin(1, 1, true)), "new");
        received.missed(origin(2, 1, false));
        assert_eq!(
            turn(&received, origin(3, 1, false)),
            "lost",
            "the next leader would take the second one for committed"
        );
        assert_eq!(turn(&received, origin(2, 2, true)), "new");
    }
}
