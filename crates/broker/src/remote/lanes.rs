//! The lanes of a node, by member and core.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use leveret_model::MemberNumber;
use parking_lot::Mutex;

use super::Lane;
use crate::outbox::Wake;
use crate::streams::Streams;
use crate::ticket::StreamId;

/// The first id of a lane's commit stream: logs, and queues that answer late in tests, have lower ones.
const FIRST_STREAM: u32 = 1 << 20;

thread_local! {
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Names the core that this thread is. Other threads use the lanes of the first one.
pub fn set_core(index: usize) {
    CORE.set(index);
}

type ByMember = BTreeMap<MemberNumber, Vec<Option<Arc<Lane>>>>;

/// The lanes that stand. They come and go while others look them up without a lock.
pub struct Lanes {
    standing: ArcSwap<ByMember>,
    changing: Mutex<()>,
    next_stream: AtomicU32,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { standing: ArcSwap::default(), changing: Mutex::default(), next_stream: AtomicU32::new(FIRST_STREAM) }
    }
}

impl Lanes {
    /// The lane of this thread's core to a member; `None` while there is no link.
    #[inline]
    pub(crate) fn to(&self, member: MemberNumber) -> Option<Arc<Lane>> {
        self.standing.load().get(&member)?.get(CORE.get())?.clone()
    }

    /// Opens the lane of a core to a member, whose calls `wake` is woken for.
    pub fn open(&self, member: MemberNumber, core: usize, streams: &Streams, wake: Arc<dyn Wake>) -> Arc<Lane> {
        let stream = StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed));
        let lane = Lane::new(stream, wake);
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

    fn set(&self, member: MemberNumber, core: usize, lane: Option<Arc<Lane>>) {
        let _changing = self.changing.lock();
        let mut standing = ByMember::clone(&self.standing.load());
        let lanes = standing.entry(member).or_default();
        if lanes.len() <= core {
            lanes.resize(core + 1, None);
        }
        lanes[core] = lane;
        self.standing.store(standing.into());
    }
}
