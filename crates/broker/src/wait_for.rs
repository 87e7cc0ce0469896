//! The condition of a confirm or an answer: tickets of one stream or several, and moves of dead letters.

use std::sync::Arc;

use leveret_queue::{GroupPlace, Place, Watermarks};
use parking_lot::Mutex;

use crate::planted::{Bug, is_planted};
use crate::ticket::{Awaited, StreamId, Ticket, WaitEnd};

/// How far streams have got: a function that says it of each, and returns `None` for one that is gone.
pub trait Reached: Fn(StreamId) -> Option<Watermarks> {}

impl<F: Fn(StreamId) -> Option<Watermarks>> Reached for F {}

/// A condition. It nearly always has one stream; cloning is cheap then, however many moves it has.
#[derive(Debug, Clone, Default)]
pub struct WaitFor {
    first: Part,
    others: Vec<Part>,
}

/// The part of one stream.
#[derive(Debug, Clone, Default)]
struct Part {
    awaited: Awaited,
    /// Moves of dead letters, which another core writes a moment later.
    moves: Moves,
}

#[derive(Debug, Clone, Default)]
enum Moves {
    #[default]
    None,
    One(Arc<GroupPlace>),
    Many(Arc<Many>),
}

#[derive(Debug)]
struct Many {
    groups: Vec<Arc<GroupPlace>>,
    written: Mutex<Written>,
}

/// Moves that are known to be written, and aren't checked again.
#[derive(Debug, Default)]
struct Written {
    count: usize,
    last: Place,
}

impl Moves {
    fn of(mut groups: Vec<Arc<GroupPlace>>) -> Self {
        match groups.len() {
            0 | 1 => groups.pop().map_or(Self::None, Self::One),
            _ => Self::Many(Arc::new(Many { groups, written: Mutex::default() })),
        }
    }

    fn groups(&self) -> &[Arc<GroupPlace>] {
        match self {
            Self::None => &[],
            Self::One(group) => std::slice::from_ref(group),
            Self::Many(many) => &many.groups,
        }
    }
}

impl Many {
    fn place(&self) -> Option<Place> {
        let mut written = self.written.lock();
        while let Some(group) = self.groups.get(written.count) {
            written.last = written.last.or_later(group.get()?);
            written.count += 1;
        }
        Some(written.last)
    }
}

impl Part {
    fn stream(&self) -> StreamId {
        self.awaited.stream()
    }

    /// The place to wait for; `None` while a move hasn't been written.
    fn awaited(&self) -> Option<Awaited> {
        let moved = match &self.moves {
            Moves::None => return Some(self.awaited),
            Moves::One(group) => group.get()?,
            Moves::Many(many) => many.place()?,
        };
        Some(self.awaited.synced().and(Awaited::durable(Ticket::new(self.stream(), moved))))
    }

    #[inline]
    fn is_reached(&self, reached: Watermarks) -> bool {
        self.awaited().is_some_and(|awaited| awaited.is_reached(reached))
    }

    fn and(&mut self, other: Self) {
        self.awaited = self.awaited.and(other.awaited);
        self.moves = match (std::mem::take(&mut self.moves), other.moves) {
            (Moves::None, moves) | (moves, Moves::None) => moves,
            (moves, others) => Moves::of([moves.groups(), others.groups()].concat()),
        };
    }

    fn is_nothing(&self) -> bool {
        self.awaited.is_nothing() && matches!(self.moves, Moves::None)
    }
}

impl WaitFor {
    /// A move of dead letters of a queue in `stream` that isn't written yet.
    pub fn moved(stream: StreamId, group: Arc<GroupPlace>) -> Self {
        let awaited = Awaited::durable(Ticket::new(stream, Place::NOTHING));
        Self { first: Part { awaited, moves: Moves::One(group) }, others: Vec::new() }
    }

    /// All of these conditions.
    pub fn all(conditions: impl IntoIterator<Item = Self>) -> Self {
        let (mut all, mut groups) = (Self::default(), Vec::<(StreamId, Vec<Arc<GroupPlace>>)>::new());
        for Self { first, others } in conditions {
            for Part { awaited, moves } in std::iter::once(first).chain(others) {
                let (stream, more) = (awaited.stream(), moves.groups());
                all.and(awaited);
                if more.is_empty() {
                    continue;
                }
                match groups.iter_mut().find(|(other, _)| *other == stream) {
                    Some((_, groups)) => groups.extend_from_slice(more),
                    None => groups.push((stream, more.to_vec())),
                }
            }
        }
        for (stream, groups) in groups {
            let moves = Moves::of(groups);
            let awaited = Awaited::durable(Ticket::new(stream, Place::NOTHING));
            all.and_part(Part { awaited, moves });
        }
        all
    }

    /// Adds a condition.
    #[inline]
    pub fn and(&mut self, awaited: Awaited) {
        if self.others.is_empty() && (self.first.is_nothing() || self.first.stream() == awaited.stream()) {
            self.first.awaited = self.first.awaited.and(awaited);
        } else if !awaited.is_nothing() {
            self.and_part(Part { awaited, moves: Moves::None });
        }
    }

    fn and_part(&mut self, part: Part) {
        if self.first.is_nothing() && self.others.is_empty() {
            self.first = part;
            return;
        }
        let mut parts = std::iter::once(&mut self.first).chain(&mut self.others);
        match parts.find(|other| other.stream() == part.stream()) {
            Some(other) => other.and(part),
            None => self.others.push(part),
        }
    }

    /// The stream in whose list it waits.
    #[inline]
    pub fn stream(&self) -> StreamId {
        self.first.stream()
    }

    /// Whether nothing has to be waited for.
    pub fn is_nothing(&self) -> bool {
        self.first.is_nothing() && self.others.is_empty()
    }

    /// The places of its streams.
    pub fn parts(&self) -> impl Iterator<Item = Awaited> {
        std::iter::once(&self.first).chain(&self.others).map(|part| part.awaited)
    }

    /// Whether both are the same condition with a single place.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        let is_plain = |wait: &Self| wait.others.is_empty() && matches!(wait.first.moves, Moves::None);
        self.first.awaited == other.first.awaited && is_plain(self) && is_plain(other)
    }

    /// Whether it waits for moves of more than one queue or consumer, which progress independently.
    pub fn is_of_many(&self) -> bool {
        !self.others.is_empty() || matches!(self.first.moves, Moves::Many(_))
    }

    /// Whether it waits for a move that hasn't been written. Its owner is notified when it has.
    pub fn is_moving(&self) -> bool {
        std::iter::once(&self.first).chain(&self.others).any(|part| part.awaited().is_none())
    }

    /// Whether it waits no longer in the list of its first stream, which has reached this; `None` if that stream is gone.
    #[inline]
    pub fn is_first_over(&self, reached: Option<Watermarks>) -> bool {
        reached.is_none_or(|reached| self.first.is_reached(reached))
    }

    /// The rest of the condition, once it waits no longer for its first stream: `None` if it is over.
    #[inline]
    pub fn rest(mut self, reached: &impl Reached) -> Option<Self> {
        while let Some(part) = self.others.pop() {
            if reached(part.stream()).is_some_and(|reached| !part.is_reached(reached)) {
                return Some(Self { first: part, others: self.others });
            }
        }
        None
    }

    /// How it ended; `None` if it hasn't. The end of one stream ends it, whatever the others will reach.
    #[inline]
    pub fn end(&self, reached: &impl Reached) -> Option<WaitEnd> {
        match reached(self.stream()) {
            Some(first) if self.others.is_empty() => self.first.is_reached(first).then_some(WaitEnd::Reached),
            None => Some(gone()),
            Some(first) => self.end_of_many(self.first.is_reached(first), reached),
        }
    }

    #[cold]
    fn end_of_many(&self, mut is_reached: bool, reached: &impl Reached) -> Option<WaitEnd> {
        for part in &self.others {
            match reached(part.stream()) {
                None => return Some(WaitEnd::Gone),
                Some(reached) => is_reached &= part.is_reached(reached),
            }
        }
        is_reached.then_some(WaitEnd::Reached)
    }

    /// Whether all of it is reached.
    pub fn is_reached(&self, reached: &impl Reached) -> bool {
        self.end(reached) == Some(WaitEnd::Reached)
    }

    /// The place of the first stream, to register for; `None` while a move there hasn't been written.
    pub fn first_awaited(&self) -> Option<Awaited> {
        self.first.awaited()
    }

    /// A place to register for: one that isn't reached, if there is any. `None` while a move that it waits for hasn't been
    /// written.
    pub fn next_awaited(&self, reached: &impl Reached) -> Option<Awaited> {
        let waits = |part: &&Part| reached(part.stream()).is_some_and(|reached| !part.is_reached(reached));
        std::iter::once(&self.first).chain(&self.others).find(waits).unwrap_or(&self.first).awaited()
    }
}

/// The end of what waits for a stream that left.
#[cold]
fn gone() -> WaitEnd {
    if is_planted(Bug::ConfirmGone) { WaitEnd::Reached } else { WaitEnd::Gone }
}

impl From<Awaited> for WaitFor {
    fn from(awaited: Awaited) -> Self {
        Self { first: Part { awaited, moves: Moves::None }, others: Vec::new() }
    }
}

impl From<Ticket> for WaitFor {
    fn from(ticket: Ticket) -> Self {
        Awaited::durable(ticket).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> [Arc<GroupPlace>; 2] {
        [Arc::default(), Arc::default()]
    }

    fn at(number: u64) -> WaitFor {
        Ticket::new(StreamId::LOCAL, Place::new(number)).into()
    }

    fn durable(number: u64) -> impl Reached {
        move |_| Some(Watermarks::synced(Place::new(number)))
    }

    fn moved(group: &Arc<GroupPlace>) -> WaitFor {
        WaitFor::moved(StreamId::LOCAL, group.clone())
    }

    fn place(wait: &WaitFor) -> Option<u64> {
        wait.first_awaited().map(|awaited| awaited.place().number())
    }

    #[test]
    fn a_condition_is_reached_with_the_last_of_its_parts() {
        let [one, other] = groups();
        let ticket = at(5);
        assert!(ticket.is_reached(&durable(5)) && !ticket.is_reached(&durable(4)));
        let ticket = WaitFor::all([ticket, moved(&one), moved(&other)]);
        other.close(Place::new(9));
        assert_eq!(place(&ticket), None, "one is open still");
        one.close(Place::NOTHING);
        assert_eq!(place(&ticket), Some(9));
        let later = WaitFor::all([at(11), ticket]);
        assert_eq!(place(&later), Some(11));
    }

    #[test]
    fn clones_of_a_condition_share_its_checks_of_moves() {
        let [one, other] = groups();
        let ticket = WaitFor::all([moved(&one), moved(&other)]);
        let clones = vec![ticket.clone(); 100];
        assert_eq!(Arc::strong_count(&one), 2);
        one.close(Place::new(1));
        assert!(clones.iter().all(|clone| place(clone).is_none()));
        let Moves::Many(many) = &ticket.first.moves else { panic!("there are two") };
        assert_eq!(many.written.lock().count, 1, "the first isn't looked at again");
    }

    #[test]
    fn tickets_of_two_streams_are_waited_for_one_by_one() {
        let other = Ticket::new(StreamId(1), Place::new(3));
        let mut wait = at(5);
        wait.and(Awaited::durable(other));
        wait.and(Awaited::durable(Ticket::new(StreamId(1), Place::NOTHING)));
        let reached = |local, other| {
            move |stream| Some(Watermarks::synced(Place::new(if stream == StreamId::LOCAL { local } else { other })))
        };
        assert!(
            !wait.is_reached(&reached(9, 2)) && !wait.is_reached(&reached(4, 9)) && wait.is_reached(&reached(5, 3))
        );
        assert_eq!(wait.next_awaited(&reached(4, 9)).map(Awaited::stream), Some(StreamId::LOCAL));
        assert_eq!(wait.next_awaited(&reached(9, 2)), Some(Awaited::durable(other)));
        assert!(
            wait.next_awaited(&reached(9, 3)).is_some(),
            "reached after it was looked at: the stream notifies at once"
        );
        let rest = wait.clone().rest(&reached(5, 2)).expect("the other one isn't reached");
        assert!(rest.stream() == StreamId(1) && !rest.is_reached(&reached(9, 2)) && rest.is_reached(&reached(0, 3)));
        assert!(wait.rest(&reached(5, 3)).is_none());
    }
}
