//! The commit stream of queues that answer in a later turn, as those of another node will: for the simulator and for tests, see
//! [`crate::Settings::answers_late`].
//!
//! Its places are the numbers of publishes. A queue carries a publish out when it is called, so that the order of calls holds; what
//! became of it is told once the place of its record is reached, in a turn of the queue's home core. Publishes are answered in the order
//! of their numbers. Each log has one such stream, so that one that makes no progress holds up no answers of another.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use leveret_queue::{Place, WaitReason};
use parking_lot::Mutex;

use super::answers::{AnsweredCalls, AnsweredStream};
use super::{Apply, StreamRef, Streams};
use crate::planted::{Bug, is_planted};
use crate::published::{Fate, NotTaken};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::wait_for::WaitEnd;

/// Distance of its id from that of its log.
const FIRST_ID: u32 = 1 << 16;
/// The id of the one whose places are deletions.
const DELETIONS: StreamId = StreamId(1 << 17);

/// A call in a later turn.
pub(crate) type LaterCall = Box<dyn FnOnce() + Send>;

/// A commit stream whose places are numbers of publishes.
pub struct LateStream {
    id: StreamId,
    /// The queues' own stream, which knows of room.
    home: StreamRef,
    /// All streams, which have this one.
    streams: Weak<Streams>,
    publishes: Mutex<Publishes>,
    answered: AnsweredCalls,
}

#[derive(Default)]
struct Publishes {
    /// Number of publishes so far.
    count: u64,
    /// Whether each one is answered, from the oldest on that isn't.
    open: VecDeque<bool>,
}

/// A publish that a queue has carried out.
pub(crate) struct CarriedOut {
    /// The place of its record.
    pub awaited: Awaited,
    /// The queue.
    pub queue: Arc<dyn Apply>,
    /// The reason why some messages aren't in it.
    pub not_taken: Option<NotTaken>,
}

impl LateStream {
    pub(crate) fn new(home: StreamRef, streams: &Arc<Streams>) -> Self {
        Self {
            id: StreamId(FIRST_ID + home.id().0),
            home,
            streams: Arc::downgrade(streams),
            publishes: Mutex::default(),
            answered: AnsweredCalls::default(),
        }
    }

    /// One whose places are deletions of queues, which another node decides on: they [begin](Self::begin), and are
    /// [answered](Self::answered).
    pub(crate) fn of_deletions(home: StreamRef, streams: &Arc<Streams>) -> Self {
        Self { id: DELETIONS, ..Self::new(home, streams) }
    }

    /// Gives something that is asked a number.
    pub(crate) fn begin(&self) -> Ticket {
        let mut publishes = self.publishes.lock();
        publishes.count += 1;
        publishes.open.push_back(false);
        Ticket::new(self.id, Place::new(publishes.count))
    }

    /// Gives a publish a number. Its fate is told in a turn that `in_turn` makes.
    pub(crate) fn number(
        self: &Arc<Self>,
        publish: CarriedOut,
        in_turn: impl FnOnce(LaterCall) + Send + 'static,
    ) -> (Awaited, Arc<Fate>) {
        let CarriedOut { awaited, queue, not_taken } = publish;
        let ticket = self.begin();
        let place = ticket.place();
        let fate = Arc::new(Fate::default());
        // A publisher that has gone needs no answer.
        let (late, asker) = (self.clone(), Arc::downgrade(&fate));
        let answer = move |end| {
            queue.apply();
            let not_taken = if matches!(end, WaitEnd::Gone) { Some(NotTaken::Lost) } else { not_taken };
            if let Some((fate, what)) = asker.upgrade().zip(not_taken).filter(|_| !is_planted(Bug::ConfirmRefused)) {
                fate.tell(what);
            }
            late.answered(place);
        };
        if let Some(streams) = self.streams.upgrade() {
            streams.when_over(awaited, Box::new(move |end| in_turn(Box::new(move || answer(end)))));
        }
        (Awaited::durable(ticket), fate)
    }

    /// A publish is answered.
    pub(crate) fn answered(&self, place: Place) {
        {
            let mut publishes = self.publishes.lock();
            let oldest = publishes.count - publishes.open.len() as u64 + 1;
            let at = (place.number() - oldest) as usize;
            publishes.open[at] = true;
            while publishes.open.pop_front_if(|is_answered| *is_answered).is_some() {}
            let first = publishes.count - publishes.open.len() as u64;
            self.answered.advance(Place::new(first));
        }
        self.answered.wake();
    }
}

impl AnsweredStream for LateStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn has_room(&self) -> bool {
        self.home.has_room()
    }

    fn calls(&self) -> &AnsweredCalls {
        &self.answered
    }

    fn appended(&self) -> Place {
        Place::new(self.publishes.lock().count)
    }

    fn give_up(&self) {
        self.home.give_up();
    }

    fn publish_wait(&self) -> WaitReason {
        self.home.publish_wait()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::CommitStream as _;
    use super::*;

    /// A queue that counts how often it is applied.
    #[derive(Default)]
    struct Applied(AtomicU64);

    impl Apply for Applied {
        fn apply(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn log() -> (StreamRef, Arc<Streams>) {
        let disk = leveret_log::MemoryDisk::new();
        let mut state = crate::recovery::Recovered::default();
        let (log, _) = leveret_log::recover(&disk, Default::default(), &mut state, 0).expect("a new log");
        let log = Arc::new(super::super::LocalStream::new(super::super::StoreId::FIRST, log));
        (log.clone(), Arc::new(Streams::new(&[log], Streams::by_home)))
    }

    #[test]
    fn publishes_are_answered_in_order_and_in_their_turn() {
        let ((home, streams), queue) = (log(), Arc::new(Applied::default()));
        let late = Arc::new(LateStream::new(home, &streams));
        let turns: Arc<Mutex<Vec<LaterCall>>> = Arc::default();
        let publish = || {
            let carried_out = CarriedOut { awaited: Awaited::default(), queue: queue.clone(), not_taken: None };
            let turns = turns.clone();
            late.number(carried_out, move |call| turns.lock().push(call)).0
        };
        let (first, second) = (publish(), publish());
        assert!(!first.is_reached(late.watermarks()), "not in the turn of the publish");
        let (one, other) = {
            let mut turns = turns.lock();
            (turns.remove(0), turns.remove(0))
        };
        other();
        assert!(!first.is_reached(late.watermarks()) && !second.is_reached(late.watermarks()));
        one();
        assert!(first.is_reached(late.watermarks()) && second.is_reached(late.watermarks()));
        assert_eq!(queue.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_fate_of_a_publish_is_forgotten_with_its_asker() {
        let ((home, streams), queue) = (log(), Arc::new(Applied::default()));
        let late = Arc::new(LateStream::new(home, &streams));
        let turn: Arc<Mutex<Option<LaterCall>>> = Arc::default();
        let place = turn.clone();
        let carried_out = CarriedOut { awaited: Awaited::default(), queue, not_taken: None };
        let (awaited, fate) = late.number(carried_out, move |call| *place.lock() = Some(call));
        let asker = Arc::downgrade(&fate);
        drop(fate);
        assert!(asker.upgrade().is_none(), "nobody else keeps it");
        turn.lock().take().expect("it has a turn")();
        assert!(awaited.is_reached(late.watermarks()), "others don't wait for an answer that nobody wants");
    }
}
