//! The lanes of a node, by member and core.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use leveret_model::MemberNumber;
use parking_lot::Mutex;

use super::Lane;
use crate::outbox::Wake;
use crate::streams::Streams;
use crate::ticket::StreamId;

thread_local! {
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Names the core that this thread is. Other threads use the lanes of the first one.
pub fn set_core(index: usize) {
    CORE.set(index);
}

/// The core that this thread is.
pub(crate) fn core() -> usize {
    CORE.get()
}

type ByMember = BTreeMap<MemberNumber, Vec<Option<Arc<Lane>>>>;

/// The lanes that stand. They come and go while others look them up without a lock.
pub struct Lanes {
    standing: ArcSwap<ByMember>,
    /// The members that take no publishes now.
    changing: Mutex<BTreeSet<MemberNumber>>,
    next_stream: AtomicU32,
}

impl Default for Lanes {
    fn default() -> Self {
        let next_stream = AtomicU32::new(StreamId::FIRST_OF_LINKS.0);
        Self { standing: ArcSwap::default(), changing: Mutex::default(), next_stream }
    }
}

impl Lanes {
    /// The lane of this thread's core to a member; `None` while there is no link.
    #[inline]
    pub(crate) fn to(&self, member: MemberNumber) -> Option<Arc<Lane>> {
        self.standing.load().get(&member)?.get(CORE.get())?.clone()
    }

    /// The lane of a core to a member; `None` while there is no link.
    pub(crate) fn of_core(&self, member: MemberNumber, core: usize) -> Option<Arc<Lane>> {
        self.standing.load().get(&member)?.get(core)?.clone()
    }

    /// The lanes of a core to all members that are reached.
    pub(crate) fn of_core_to_all(&self, core: usize) -> Vec<(MemberNumber, Arc<Lane>)> {
        let standing = self.standing.load();
        standing.iter().filter_map(|(member, lanes)| Some((*member, lanes.get(core)?.clone()?))).collect()
    }

    /// The lane of a core with this commit stream.
    pub(crate) fn with_stream(&self, core: usize, stream: StreamId) -> Option<Arc<Lane>> {
        let standing = self.standing.load();
        let mut lanes = standing.values().filter_map(|lanes| lanes.get(core)?.as_ref());
        lanes.find(|lane| lane.stream_id() == stream).cloned()
    }

    /// A new id of a commit stream whose places are calls.
    pub(crate) fn stream_id(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Opens the lane of a core to a member, whose calls `wake` is woken for.
    pub fn open(&self, member: MemberNumber, core: usize, streams: &Streams, wake: Arc<dyn Wake>) -> Arc<Lane> {
        let lane = Lane::new(self.stream_id(), wake);
        let writer = lane.writer().clone();
        streams.join(writer, streams.local_store().clone());
        self.set(member, core, Some(lane.clone()));
        lane
    }

    /// A lane's link has ended: all that waits for it ends, and so do its consumers.
    pub fn close(&self, member: MemberNumber, core: usize, lane: &Arc<Lane>, streams: &Streams) {
        let is_meant = |standing: &ByMember| {
            let found = standing.get(&member).and_then(|lanes| lanes.get(core)?.as_ref());
            found.is_some_and(|found| Arc::ptr_eq(found, lane))
        };
        if is_meant(&self.standing.load()) {
            self.set(member, core, None);
        }
        // In this order: who finds the stream gone must not find the lane open.
        lane.end();
        streams.leave(lane.writer().stream_id());
        lane.tell_consumers();
    }

    /// Sets the members whose alarms hold back those who publish to their queues.
    pub fn hold(&self, members: BTreeSet<MemberNumber>) {
        let mut held = self.changing.lock();
        if *held == members {
            return;
        }
        *held = members;
        for (member, lanes) in self.standing.load().iter() {
            let is_held = held.contains(member);
            lanes.iter().flatten().for_each(|lane| lane.writer().hold(is_held));
        }
    }

    /// The members of which some lane takes no publishes now.
    pub fn that_take_none(&self) -> Vec<MemberNumber> {
        use crate::streams::AnsweredStream as _;
        let is_full =
            |lanes: &[Option<Arc<Lane>>]| lanes.iter().flatten().any(|lane| !lane.writer().takes_publishers());
        let standing = self.standing.load();
        standing.iter().filter(|(_, lanes)| is_full(lanes)).map(|(member, _)| *member).collect()
    }

    fn set(&self, member: MemberNumber, core: usize, lane: Option<Arc<Lane>>) {
        let held = self.changing.lock();
        if let Some(lane) = &lane {
            lane.writer().hold(held.contains(&member));
        }
        let mut standing = ByMember::clone(&self.standing.load());
        let lanes = standing.entry(member).or_default();
        if lanes.len() <= core {
            lanes.resize(core + 1, None);
        }
        lanes[core] = lane;
        self.standing.store(standing.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::writer::LaneWriter;
    use crate::streams::{CommitStream, Waiter};
    use crate::ticket::{Awaited, Ticket};
    use leveret_queue::Place;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn publishers_are_held_while_a_home_has_an_alarm() {
        let writer = LaneWriter::new(StreamId::FIRST_OF_LINKS);
        assert!(writer.takes_publishers());
        writer.hold(true);
        assert!(!writer.takes_publishers() && writer.has_room(), "the broker's own messages go on");
        let woken = Arc::new(AtomicBool::new(false));
        let (next, wakes) = (Ticket::new(StreamId::FIRST_OF_LINKS, Place::new(1)), woken.clone());
        writer.notify(Awaited::durable(next), Waiter::Call(Box::new(move || wakes.store(true, Ordering::Relaxed))));
        assert!(!woken.load(Ordering::Relaxed));
        writer.hold(false);
        assert!(woken.load(Ordering::Relaxed) && writer.takes_publishers(), "with nothing on its way, too");
    }
}
