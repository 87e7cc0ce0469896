//! The condition of a confirm or an answer: tickets of one stream or several, and moves of dead letters.

use std::sync::Arc;

use leveret_queue::{GroupPlace, Place, Watermarks};
use parking_lot::Mutex;

use crate::planted::{Bug, is_planted};
use crate::published::{Acceptance, Fate, NotTaken, RefusedPublish};
use crate::ticket::{Awaited, StreamId, Ticket};

/// How a wait ends.
#[derive(Debug, Clone)]
pub enum WaitEnd {
    /// Every place is reached.
    Reached,
    /// Every place is reached, and a queue didn't accept all messages: the one that accepted the fewest.
    Refused(Arc<RefusedPublish>),
    /// Every place is reached, and all queues were deleted before the messages came: they count as routed nowhere.
    Unrouted,
    /// A stream left before its place was reached: it isn't known whether what was waited for will survive.
    Gone,
}

impl WaitEnd {
    /// The text for clients whose wait ended with [`WaitEnd::Gone`].
    pub const GONE_TEXT: &'static str =
        "the log that it was written to is no longer on this node, so that it isn't known whether it is kept";

    /// Whether every place is reached, and nothing was refused.
    #[inline]
    pub fn is_reached(&self) -> bool {
        matches!(self, Self::Reached)
    }
}

/// How far streams have got: a function that says it of each, and returns `None` for one that is gone.
pub trait Reached: Fn(StreamId) -> Option<Watermarks> {}

impl<F: Fn(StreamId) -> Option<Watermarks>> Reached for F {}

/// A condition. It nearly always has one stream; cloning is cheap then, however many moves it has.
#[derive(Debug, Clone, Default)]
pub struct WaitFor {
    first: Part,
    others: Vec<Part>,
}

/// The part of one stream, or one of several parts there.
#[derive(Debug, Clone, Default)]
struct Part {
    awaited: Awaited,
    more: More,
}

/// Things to be known besides the place.
#[derive(Debug, Clone, Default)]
enum More {
    #[default]
    Nothing,
    /// A move of dead letters, which another core writes a moment later.
    Move(Arc<GroupPlace>),
    /// Several of them.
    Moves(Arc<Many>),
    /// The outcome of a publish, which is told when the place is reached.
    Fate(Arc<Fate>),
    /// Outcomes of several publishes.
    Fates(Arc<Vec<Arc<Fate>>>),
    /// The end of a group on another node, which is told as lost if not all of it was carried out.
    Group(Arc<Fate>),
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

impl More {
    fn moves(mut groups: Vec<Arc<GroupPlace>>) -> Self {
        match groups.len() {
            0 | 1 => groups.pop().map_or(Self::Nothing, Self::Move),
            _ => Self::Moves(Arc::new(Many { groups, written: Mutex::default() })),
        }
    }

    fn groups(&self) -> &[Arc<GroupPlace>] {
        match self {
            Self::Move(group) => std::slice::from_ref(group),
            Self::Moves(many) => &many.groups,
            Self::Nothing | Self::Fate(_) | Self::Fates(_) | Self::Group(_) => &[],
        }
    }

    fn fates(&self) -> &[Arc<Fate>] {
        match self {
            Self::Fate(fate) => std::slice::from_ref(fate),
            Self::Fates(fates) => fates,
            Self::Nothing | Self::Move(_) | Self::Moves(_) | Self::Group(_) => &[],
        }
    }

    /// Both, if one part can say both.
    fn and(self, other: Self) -> Result<Self, (Self, Self)> {
        Ok(match (self, other) {
            (Self::Nothing, more) | (more, Self::Nothing) => more,
            (Self::Fate(fate), Self::Fate(other)) => Self::Fates(Arc::new(vec![fate, other])),
            (Self::Fates(mut fates), other @ (Self::Fate(_) | Self::Fates(_))) => {
                // While a wait is put together nobody else has it.
                Arc::make_mut(&mut fates).extend_from_slice(other.fates());
                Self::Fates(fates)
            }
            (one @ (Self::Move(_) | Self::Moves(_)), other @ (Self::Move(_) | Self::Moves(_))) => {
                Self::moves([one.groups(), other.groups()].concat())
            }
            (one, other) => return Err((one, other)),
        })
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
        let moved = match &self.more {
            More::Nothing | More::Fate(_) | More::Fates(_) | More::Group(_) => return Some(self.awaited),
            More::Move(group) => group.get()?,
            More::Moves(many) => many.place()?,
        };
        Some(self.awaited.synced().and(Awaited::durable(Ticket::new(self.stream(), moved))))
    }

    #[inline]
    fn is_reached(&self, reached: Watermarks) -> bool {
        self.awaited().is_some_and(|awaited| awaited.is_reached(reached))
    }

    /// Adds another part of the same stream. Returns it if that can't be one part with this one.
    fn and(&mut self, other: Self) -> Option<Self> {
        match std::mem::take(&mut self.more).and(other.more) {
            Ok(more) => {
                *self = Self { awaited: self.awaited.and(other.awaited), more };
                None
            }
            Err((more, others)) => {
                self.more = more;
                Some(Self { awaited: other.awaited, more: others })
            }
        }
    }

    fn is_nothing(&self) -> bool {
        self.awaited.is_nothing() && matches!(self.more, More::Nothing)
    }
}

impl WaitFor {
    /// A move of dead letters of a queue in `stream` that isn't written yet.
    pub fn moved(stream: StreamId, group: Arc<GroupPlace>) -> Self {
        let awaited = Awaited::durable(Ticket::new(stream, Place::NOTHING));
        Self { first: Part { awaited, more: More::Move(group) }, others: Vec::new() }
    }

    /// The end of a group on another node.
    pub(crate) fn group(awaited: Awaited, fate: Arc<Fate>) -> Self {
        Self { first: Part { awaited, more: More::Group(fate) }, others: Vec::new() }
    }

    /// All of these conditions.
    pub fn all(conditions: impl IntoIterator<Item = Self>) -> Self {
        let (mut all, mut groups) = (Self::default(), Vec::<(StreamId, Vec<Arc<GroupPlace>>)>::new());
        for Self { first, others } in conditions {
            for part in std::iter::once(first).chain(others) {
                let (stream, moves) = (part.stream(), part.more.groups());
                if moves.is_empty() {
                    match part.more {
                        More::Nothing => all.and(part.awaited),
                        _ => all.and_part(part),
                    }
                    continue;
                }
                all.and(part.awaited);
                match groups.iter_mut().find(|(other, _)| *other == stream) {
                    Some((_, groups)) => groups.extend_from_slice(moves),
                    None => groups.push((stream, moves.to_vec())),
                }
            }
        }
        for (stream, groups) in groups {
            let awaited = Awaited::durable(Ticket::new(stream, Place::NOTHING));
            all.and_part(Part { awaited, more: More::moves(groups) });
        }
        all
    }

    /// Adds a condition.
    #[inline]
    pub fn and(&mut self, awaited: Awaited) {
        if self.others.is_empty() && (self.first.is_nothing() || self.first.stream() == awaited.stream()) {
            self.first.awaited = self.first.awaited.and(awaited);
        } else if !awaited.is_nothing() {
            self.and_part(Part { awaited, more: More::Nothing });
        }
    }

    /// Adds a publish.
    #[inline]
    pub fn and_publish(&mut self, awaited: Awaited, acceptance: &Acceptance) {
        match acceptance {
            Acceptance::Known(_) => self.and(awaited),
            Acceptance::Later(fate) => self.and_fate(awaited, fate.clone()),
        }
    }

    /// Adds a publish whose outcome is told when its place is reached.
    pub fn and_fate(&mut self, awaited: Awaited, fate: Arc<Fate>) {
        self.and_part(Part { awaited, more: More::Fate(fate) });
    }

    fn and_part(&mut self, mut part: Part) {
        if self.first.is_nothing() && self.others.is_empty() {
            self.first = part;
            return;
        }
        for other in std::iter::once(&mut self.first).chain(&mut self.others) {
            if other.stream() == part.stream() {
                match other.and(part) {
                    None => return,
                    Some(left) => part = left,
                }
            }
        }
        self.others.push(part);
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
        let is_plain = |wait: &Self| wait.others.is_empty() && matches!(wait.first.more, More::Nothing);
        self.first.awaited == other.first.awaited && is_plain(self) && is_plain(other)
    }

    /// Whether it waits for moves of more than one queue or consumer, which progress independently.
    pub fn is_of_many(&self) -> bool {
        !self.others.is_empty() || matches!(self.first.more, More::Moves(_))
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

    /// The condition with a stream first that it still waits for, once it waits no longer for its first one.
    #[must_use]
    pub fn rest(mut self, reached: &impl Reached) -> Self {
        let waits = |part: &mut Part| reached(part.stream()).is_some_and(|reached| !part.is_reached(reached));
        if let Some(at) = self.others.iter_mut().position(waits) {
            std::mem::swap(&mut self.first, &mut self.others[at]);
        }
        self
    }

    /// How it ended; `None` if it hasn't. The end of one stream ends it, whatever the others will reach.
    #[inline]
    pub fn end(&self, reached: &impl Reached) -> Option<WaitEnd> {
        match reached(self.stream()) {
            Some(first) if self.others.is_empty() => self.first.is_reached(first).then(|| self.reached()),
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
        is_reached.then(|| self.reached())
    }

    /// How it ended, now that every place is reached.
    #[inline]
    fn reached(&self) -> WaitEnd {
        match self.first.more {
            More::Nothing if self.others.is_empty() => WaitEnd::Reached,
            _ => self.told(),
        }
    }

    #[cold]
    fn told(&self) -> WaitEnd {
        let is_lost = |part: &Part| matches!(&part.more, More::Group(fate) if fate.told().is_some());
        if std::iter::once(&self.first).chain(&self.others).any(is_lost) {
            return gone();
        }
        let fates = std::iter::once(&self.first).chain(&self.others).flat_map(|part| part.more.fates());
        let (mut refused, mut gone, mut all) = (None::<&Arc<RefusedPublish>>, 0, 0);
        for fate in fates {
            all += 1;
            match fate.told() {
                Some(NotTaken::Refused(refusal)) if refused.is_none_or(|other| refusal.accepted < other.accepted) => {
                    refused = Some(refusal);
                }
                Some(NotTaken::Gone) => gone += 1,
                Some(NotTaken::Lost) => return self::gone(),
                Some(NotTaken::Refused(_)) | None => {}
            }
        }
        match refused {
            Some(refusal) => WaitEnd::Refused(refusal.clone()),
            None if all > 0 && gone == all => WaitEnd::Unrouted,
            None => WaitEnd::Reached,
        }
    }

    /// Whether all of it is reached, and nothing was refused.
    pub fn is_reached(&self, reached: &impl Reached) -> bool {
        self.end(reached).is_some_and(|end| end.is_reached())
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
        Self { first: Part { awaited, more: More::Nothing }, others: Vec::new() }
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
        let More::Moves(many) = &ticket.first.more else { panic!("there are two") };
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
        let rest = wait.clone().rest(&reached(5, 2));
        assert!(rest.stream() == StreamId(1) && !rest.is_reached(&reached(9, 2)) && rest.is_reached(&reached(5, 3)));
    }

    #[test]
    fn a_refusal_ends_a_wait_with_the_fewest_accepted() {
        let fates = [(); 3].map(|()| Arc::new(Fate::default()));
        let mut wait = at(5);
        for (fate, number) in fates.iter().zip(7..) {
            wait.and_fate(Awaited::durable(Ticket::new(StreamId(9), Place::new(number))), fate.clone());
        }
        wait.and(Awaited::durable(Ticket::new(StreamId(9), Place::new(6))));
        assert!(wait.end(&durable(8)).is_none(), "the last one isn't answered");
        assert!(wait.is_reached(&durable(9)));
        let refusal =
            |accepted| RefusedPublish { accepted, queue: "q".into(), reason: crate::published::RefusalReason::Limit };
        fates[0].tell(NotTaken::Gone);
        assert!(wait.is_reached(&durable(9)), "others have them");
        fates[2].tell(NotTaken::Refused(refusal(4).into()));
        fates[1].tell(NotTaken::Refused(refusal(1).into()));
        let ended = wait.end(&durable(9));
        assert!(matches!(&ended, Some(WaitEnd::Refused(refusal)) if refusal.accepted == 1), "{ended:?}");
        let rest = wait.rest(&|stream| Some(Watermarks::synced(Place::new(if stream == StreamId(9) { 0 } else { 9 }))));
        assert!(
            matches!(rest.end(&durable(9)), Some(WaitEnd::Refused(_))),
            "it isn't forgotten while others are awaited"
        );
    }
}
