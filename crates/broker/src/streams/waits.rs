//! Waits for commit streams, in one list per stream: unapplied runs, confirms and answers in order, and the registrations of a
//! connection.

use std::collections::VecDeque;

use leveret_queue::{Place, Watermarks};
use smallvec::SmallVec;

use crate::ticket::{Awaited, StreamId, Ticket};
use crate::turn_budget::{APPLY, TurnBudget};
use crate::wait_for::{Reached, WaitEnd, WaitFor};

/// Maximum distance of places of runs of one queue that share an entry.
const ENTRY_PLACES_MAX: u64 = 64;
/// Bytes of an entry from which on no runs are added to it.
const ENTRY_BYTES: u64 = 4096;

/// Lists by stream: nearly always there is one. A list that is empty is forgotten when another one begins, so that there are only as
/// many as streams are used at the same time.
#[derive(Debug)]
struct ByStream<T>(SmallVec<[(StreamId, T); 1]>);

impl<T> Default for ByStream<T> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

/// A list that may be empty.
trait List: Default {
    fn is_empty(&self) -> bool;
}

impl<T> List for VecDeque<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<T: List> ByStream<T> {
    #[inline]
    fn of(&mut self, stream: StreamId) -> &mut T {
        let at = match self.0.iter().position(|(other, _)| *other == stream) {
            Some(at) => at,
            None => self.begin(stream),
        };
        &mut self.0[at].1
    }

    #[cold]
    fn begin(&mut self, stream: StreamId) -> usize {
        self.0.retain(|(_, list)| !list.is_empty());
        self.0.push((stream, T::default()));
        self.0.len() - 1
    }
}

impl<T> ByStream<T> {
    fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, list)| list)
    }
}

/// Confirms or answers, in order within a stream. An entry that waits for several streams is in the list of one after the
/// other, so that it holds up other entries no longer than necessary.
#[derive(Debug)]
pub struct InOrder<T> {
    lists: ByStream<VecDeque<(WaitFor, T)>>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { lists: ByStream::default() }
    }
}

impl<T> InOrder<T> {
    /// The last entry of the stream that this condition begins with.
    pub fn last(&mut self, wait: &WaitFor) -> Option<&mut (WaitFor, T)> {
        self.lists.of(wait.stream()).back_mut()
    }

    /// Adds an entry behind the others of its stream. An entry without a condition waits for those before it.
    pub fn push(&mut self, wait: WaitFor, entry: T) {
        self.lists.of(wait.stream()).push_back((wait, entry));
    }

    /// Removes and returns the next entry whose wait has ended, and how, if it `is_wanted`.
    #[inline]
    pub fn pop_if(&mut self, reached: &impl Reached, is_wanted: impl Fn(&T, &WaitEnd) -> bool) -> Option<(T, WaitEnd)> {
        let mut at = 0;
        while let Some((stream, list)) = self.lists.0.get_mut(at) {
            let marks = reached(*stream);
            let mut ended = None;
            let is_due = |(wait, entry): &mut (WaitFor, T)| {
                wait.is_first_over(marks) && {
                    ended = wait.end(reached);
                    ended.as_ref().is_none_or(|end| is_wanted(entry, end))
                }
            };
            match (list.pop_front_if(is_due), ended) {
                (None, _) => at += 1,
                (Some((_, entry)), Some(end)) => return Some((entry, end)),
                (Some((wait, entry)), None) => self.push(wait.rest(reached), entry),
            }
        }
        None
    }

    /// Removes and returns the next entry whose wait has ended, and how.
    #[inline]
    pub fn pop(&mut self, reached: &impl Reached) -> Option<(T, WaitEnd)> {
        self.pop_if(reached, |_, _| true)
    }

    /// The places that the first entries of each stream wait for. An entry whose dead letters have no place yet is omitted: its
    /// owner is notified when they have.
    pub fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.lists.iter().filter_map(|list| list.front()?.0.first_awaited())
    }

    /// The first entry of each stream.
    pub fn firsts(&self) -> impl Iterator<Item = &T> {
        self.lists.iter().filter_map(|list| list.front()).map(|(_, entry)| entry)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.lists.iter().map(VecDeque::len).sum()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.lists.iter().all(VecDeque::is_empty)
    }

    /// Removes entries unless `stays` returns true.
    pub fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        self.lists.0.iter_mut().for_each(|(_, list)| list.retain(|(_, entry)| stays(entry)));
    }
}

/// A queue that runs are published to.
pub trait RunTarget: Clone {
    /// Whether both are the same queue.
    fn is_same(&self, other: &Self) -> bool;

    /// Applies all messages that are durable, or written if that is enough for this queue.
    fn apply(&self);
}

/// Runs of messages that were published to queues of one stream and wait for the same watermark: durable or written. Places
/// never go back, so a queue of runs is sufficient.
pub struct Runs<Q>(VecDeque<Unapplied<Q>>);

struct Unapplied<Q> {
    /// Place of its first run.
    first: Place,
    /// Place of its last run.
    last: Place,
    queue: Q,
    bytes: u64,
}

impl<Q> Default for Runs<Q> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Q: RunTarget> Runs<Q> {
    /// Adds a run of `bytes` bytes for `queue`.
    pub fn note(&mut self, place: Place, queue: &Q, bytes: u64) {
        match self.0.back_mut() {
            Some(last)
                if last.queue.is_same(queue)
                    && last.last.number() + ENTRY_PLACES_MAX > place.number()
                    && last.bytes < ENTRY_BYTES =>
            {
                // A few small runs of the same queue: the first is confirmed with the last.
                last.last = place;
                last.bytes += bytes;
            }
            _ => self.0.push_back(Unapplied { first: place, last: place, queue: queue.clone(), bytes }),
        }
    }

    /// As [`Runs::note`] without bytes, unless a later place is waited for already.
    pub fn note_later(&mut self, place: Place, queue: &Q) {
        if self.0.back().is_none_or(|last| last.last.is_before(place)) {
            self.note(place, queue, 0);
        }
    }

    /// Applies runs whose place is reached, or as many as the turn allows; with `written`, it is enough that they are written.
    /// Returns their bytes, and whether that was all.
    fn apply(&mut self, reached: Watermarks, written: bool, budget: &mut TurnBudget) -> (u64, bool) {
        let mut bytes = 0;
        let mut applied: Option<Q> = None;
        while let Some(unapplied) = self.0.pop_front_if(|first| reached.have(first.last, written)) {
            bytes += unapplied.bytes;
            if !applied.as_ref().is_some_and(|last| last.is_same(&unapplied.queue)) {
                if applied.is_some() && budget.is_spent() {
                    bytes -= unapplied.bytes;
                    self.0.push_front(unapplied);
                    return (bytes, false);
                }
                unapplied.queue.apply();
                budget.spend(APPLY);
                applied = Some(unapplied.queue);
            }
        }
        // A run is only confirmed once it is in its queue, even if later runs of its entry aren't reached yet.
        if let Some(unapplied) = self.0.front().filter(|unapplied| reached.have(unapplied.first, written)) {
            unapplied.queue.apply();
        }
        (bytes, true)
    }

    /// The place that the oldest entry waits for.
    pub fn next_place(&self) -> Option<Place> {
        self.0.front().map(|first| first.last)
    }

    /// Whether all runs are applied.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the runs that aren't applied.
    fn bytes(&self) -> u64 {
        self.0.iter().map(|run| run.bytes).sum()
    }

    /// Removes and returns all, with the places of their last runs.
    pub fn drain(&mut self) -> impl Iterator<Item = (Place, Q)> {
        self.0.drain(..).map(|unapplied| (unapplied.last, unapplied.queue))
    }
}

/// Runs of all streams.
pub struct RunsByStream<Q>(ByStream<OfStream<Q>>);

/// Runs of one stream.
pub struct OfStream<Q> {
    /// Runs that wait until they are durable.
    pub synced: Runs<Q>,
    /// Runs for queues whose durability is `os`.
    pub written: Runs<Q>,
}

impl<Q> List for OfStream<Q> {
    fn is_empty(&self) -> bool {
        self.synced.0.is_empty() && self.written.0.is_empty()
    }
}

impl<Q> Default for OfStream<Q> {
    fn default() -> Self {
        Self { synced: Runs::default(), written: Runs::default() }
    }
}

impl<Q> Default for RunsByStream<Q> {
    fn default() -> Self {
        Self(ByStream::default())
    }
}

impl<Q: RunTarget> RunsByStream<Q> {
    /// Adds a run of `bytes` bytes for `queue`.
    pub fn note(&mut self, awaited: Awaited, queue: &Q, bytes: u64) {
        let OfStream { synced, written } = self.0.of(awaited.stream());
        let runs = if awaited.is_written() { written } else { synced };
        runs.note(awaited.place(), queue, bytes);
    }

    /// The runs of a stream.
    pub fn of(&mut self, stream: StreamId) -> &mut OfStream<Q> {
        self.0.of(stream)
    }

    /// Applies runs whose place is reached, or as many as the turn allows. Returns their bytes, and whether that was all. Runs of a
    /// stream that is gone have nothing to be applied to.
    pub fn apply(&mut self, reached: &impl Reached, budget: &mut TurnBudget) -> (u64, bool) {
        let (mut bytes, mut is_all) = (0, true);
        for (stream, runs) in &mut self.0.0 {
            let Some(reached) = reached(*stream) else {
                let gone = std::mem::take(runs);
                bytes += gone.synced.bytes() + gone.written.bytes();
                continue;
            };
            let (synced, all_synced) = runs.synced.apply(reached, false, budget);
            let (written, all_written) = runs.written.apply(reached, true, budget);
            bytes += synced + written;
            is_all &= all_synced && all_written;
        }
        (bytes, is_all)
    }

    /// Whether all runs are applied.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(List::is_empty)
    }

    /// The streams of runs that aren't applied, and perhaps some that were used before.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.0.0.iter().map(|(stream, _)| *stream)
    }

    /// The places that the oldest entries wait for.
    pub fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.0.0.iter().flat_map(|(stream, runs)| {
            let at = |place| Ticket::new(*stream, place);
            let synced = runs.synced.next_place().map(|place| Awaited::durable(at(place)));
            synced.into_iter().chain(runs.written.next_place().map(|place| Awaited::written(at(place))))
        })
    }

    /// Removes and returns all, with the tickets of their last runs.
    pub fn drain(&mut self) -> impl Iterator<Item = (Ticket, Q)> {
        self.0.0.iter_mut().flat_map(|(stream, runs)| {
            let stream = *stream;
            let runs = runs.synced.drain().chain(runs.written.drain());
            runs.map(move |(place, queue)| (Ticket::new(stream, place), queue))
        })
    }
}

/// Places that a connection registered for, the earliest of each stream.
#[derive(Debug, Default)]
pub struct Registered(ByStream<Slots>);

/// A place to be durable, and one to be written.
type Slots = [Slot; 2];

impl List for Slots {
    fn is_empty(&self) -> bool {
        self.iter().all(|slot| slot.wanted.is_none() && slot.registered.is_none())
    }
}

#[derive(Debug, Default)]
struct Slot {
    wanted: Option<Place>,
    registered: Option<Place>,
}

impl Registered {
    /// Adds a place that the connection waits for.
    pub fn want(&mut self, awaited: Awaited) {
        let slot = &mut self.0.of(awaited.stream())[usize::from(awaited.is_written())];
        if slot.wanted.is_none_or(|wanted| awaited.place().is_before(wanted)) {
            slot.wanted = Some(awaited.place());
        }
    }

    /// Calls `register` for each place that it waits for, unless it has registered with that stream for an earlier or equal
    /// one.
    pub fn register(&mut self, mut register: impl FnMut(Awaited)) {
        for (stream, slots) in &mut self.0.0 {
            for (slot, written) in slots.iter_mut().zip([false, true]) {
                let Some(place) = slot.wanted.take() else { continue };
                if slot.registered.is_none_or(|registered| place.is_before(registered)) {
                    slot.registered = Some(place);
                    let ticket = Ticket::new(*stream, place);
                    register(if written { Awaited::written(ticket) } else { Awaited::durable(ticket) });
                }
            }
        }
    }

    /// Whether it waits for a place of this stream to become durable.
    pub fn wants_durable(&mut self, stream: StreamId) -> bool {
        self.0.of(stream)[0].wanted.is_some()
    }

    /// The stream has notified the connection that a place is durable or, with `written`, that it is written.
    pub fn notified(&mut self, stream: StreamId, written: bool) {
        self.0.of(stream)[usize::from(written)].registered = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId::LOCAL;
    const B: StreamId = StreamId(1);

    fn at(stream: StreamId, number: u64) -> Awaited {
        Awaited::durable(Ticket::new(stream, Place::new(number)))
    }

    fn reached(a: u64, b: u64) -> impl Reached {
        move |stream| Some(Watermarks::synced(Place::new(if stream == A { a } else { b })))
    }

    fn due(waits: &mut InOrder<&'static str>, reached: &impl Reached) -> Vec<&'static str> {
        let is_reached = |(entry, end): (&'static str, WaitEnd)| {
            assert!(end.is_reached());
            entry
        };
        std::iter::from_fn(|| waits.pop(reached).map(is_reached)).collect()
    }

    #[test]
    fn a_stuck_stream_does_not_hold_up_another() {
        let mut waits = InOrder::default();
        waits.push(at(A, 5).into(), "a1");
        waits.push(at(B, 7).into(), "b1");
        waits.push(at(A, 6).into(), "a2");
        waits.push(at(B, 8).into(), "b2");
        assert_eq!(due(&mut waits, &reached(0, 8)), ["b1", "b2"]);
        assert_eq!(waits.awaited().collect::<Vec<_>>(), [at(A, 5)]);
        assert_eq!(due(&mut waits, &reached(6, 8)), ["a1", "a2"]);
        assert_eq!(waits.len(), 0);
    }

    #[test]
    fn an_entry_of_two_streams_waits_for_one_after_the_other() {
        let mut waits = InOrder::default();
        let mut both = WaitFor::from(at(A, 5));
        both.and(at(B, 7));
        waits.push(both.clone(), "both");
        waits.push(at(B, 8).into(), "b");
        waits.push(both, "again");
        assert_eq!(due(&mut waits, &reached(4, 9)), ["b"], "only the first stream of the others is in the way");
        assert_eq!(due(&mut waits, &reached(5, 6)), [""; 0]);
        assert_eq!(waits.awaited().collect::<Vec<_>>(), [at(B, 7)]);
        assert_eq!(due(&mut waits, &reached(5, 7)), ["both", "again"]);
    }

    #[test]
    fn an_entry_without_a_condition_waits_for_earlier_ones() {
        let mut waits = InOrder::default();
        waits.push(at(A, 5).into(), "a");
        waits.push(at(B, 0).into(), "volatile in b");
        waits.push(at(A, 0).into(), "volatile in a");
        assert_eq!(due(&mut waits, &reached(4, 0)), ["volatile in b"]);
        assert_eq!(due(&mut waits, &reached(5, 0)), ["a", "volatile in a"]);
    }

    #[test]
    fn a_stream_that_leaves_ends_its_waits_and_no_others() {
        let mut waits = InOrder::default();
        let mut both = WaitFor::from(at(A, 5));
        both.and(at(B, 7));
        waits.push(at(B, 6).into(), "b1");
        waits.push(both.clone(), "both");
        waits.push(at(A, 6).into(), "a");
        waits.push(at(B, 8).into(), "b2");
        let b_is_gone = |a: u64| move |stream| (stream == A).then(|| Watermarks::synced(Place::new(a)));
        let gone: Vec<_> = std::iter::from_fn(|| waits.pop(&b_is_gone(4))).collect();
        assert!(matches!(gone[..], [("b1", WaitEnd::Gone), ("b2", WaitEnd::Gone)]), "{gone:?}");
        let both_ended = waits.pop(&b_is_gone(5));
        assert!(matches!(both_ended, Some(("both", WaitEnd::Gone))), "reaching the other isn't enough: {both_ended:?}");
        assert!(waits.pop(&b_is_gone(5)).is_none());
        assert!(matches!(waits.pop(&b_is_gone(6)), Some(("a", WaitEnd::Reached))));
        assert!(matches!(both.end(&b_is_gone(0)), Some(WaitEnd::Gone)) && !both.is_reached(&b_is_gone(9)));
    }

    #[test]
    fn lists_of_streams_that_are_not_used_are_forgotten() {
        let mut waits = InOrder::default();
        for stream in 0..100 {
            waits.push(at(StreamId(stream), 1).into(), "entry");
            assert!(waits.pop(&reached(1, 1)).is_some());
        }
        assert_eq!(waits.lists.0.len(), 1);
    }

    #[test]
    fn a_connection_registers_once_with_a_stuck_stream() {
        fn register(registered: &mut Registered, wanted: &[Awaited]) -> Vec<Awaited> {
            wanted.iter().for_each(|awaited| registered.want(*awaited));
            let mut calls = Vec::new();
            registered.register(|awaited| calls.push(awaited));
            calls
        }
        let mut registered = Registered::default();
        assert_eq!(register(&mut registered, &[at(A, 6), at(B, 9), at(A, 5)]), [at(A, 5), at(B, 9)]);
        assert_eq!(register(&mut registered, &[at(A, 5), at(B, 9)]), []);
        assert_eq!(register(&mut registered, &[at(B, 8), at(B, 10)]), [at(B, 8)]);
        registered.notified(A, false);
        assert_eq!(register(&mut registered, &[at(A, 6), at(B, 8)]), [at(A, 6)]);
        let written = Awaited::written(Ticket::new(A, Place::new(7)));
        assert_eq!(register(&mut registered, &[written]), [written], "a write is another matter");
        registered.notified(A, true);
        assert_eq!(register(&mut registered, &[at(A, 6), written]), [written]);
    }
}
