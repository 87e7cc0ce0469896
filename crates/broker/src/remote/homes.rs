//! The sessions that carry out calls of other nodes' cores here, one at a time for each core.
//!
//! A core that has lost its link dials again, maybe before this node has seen the end of the old one. If both sessions carried out calls at
//! once, the end of the old one would undo what the new one has done for the same consumers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_model::MemberNumber;
use parking_lot::Mutex;

use crate::outbox::{Event, Outbox};

/// The sessions of all other nodes' cores.
#[derive(Default)]
pub struct Homes {
    seated: Mutex<BTreeMap<(MemberNumber, u16), Seated>>,
}

struct Seated {
    outbox: Arc<Outbox>,
    /// Of the session, and of those before it that hadn't left: whether each has.
    left: Vec<Arc<AtomicBool>>,
}

/// The place of a session. It has left once this is dropped.
pub struct HomeSeat(Arc<AtomicBool>);

/// The sessions that a new one waits for.
pub struct EarlierHomes(Vec<Arc<AtomicBool>>);

impl Homes {
    /// The session of a core, which `outbox` wakes. An earlier one is ended; the new one carries out nothing until it has left.
    pub fn seat(&self, of: (MemberNumber, u16), outbox: &Arc<Outbox>) -> (HomeSeat, EarlierHomes) {
        let own = Arc::new(AtomicBool::new(false));
        let mut seated = self.seated.lock();
        let mut earlier = Vec::new();
        let mut ended = None;
        if let Some(before) = seated.remove(&of) {
            earlier = before.left;
            earlier.retain(|left| !left.load(Ordering::Acquire));
            ended = Some(before.outbox).filter(|_| !earlier.is_empty());
        }
        let left = earlier.iter().chain([&own]).cloned().collect();
        seated.insert(of, Seated { outbox: outbox.clone(), left });
        drop(seated);
        if let Some(ended) = ended {
            ended.send(Event::Close("the other node has dialled again".into()));
        }
        (HomeSeat(own), EarlierHomes(earlier))
    }
}

impl EarlierHomes {
    /// Whether all of them have left.
    pub fn have_left(&self) -> bool {
        self.0.iter().all(|left| left.load(Ordering::Acquire))
    }
}

impl Drop for HomeSeat {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Wake;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    #[test]
    fn a_session_waits_for_all_earlier_ones_of_its_core() {
        let homes = Homes::default();
        let outbox = || Arc::new(Outbox::new(Arc::new(NoWake)));
        let (one, two, other) = ((MemberNumber(1), 0), (MemberNumber(1), 0), (MemberNumber(1), 1));
        let (first, earlier) = homes.seat(one, &outbox());
        assert!(earlier.have_left());
        let (second, for_second) = homes.seat(two, &outbox());
        let (third, for_third) = homes.seat(two, &outbox());
        assert!(homes.seat(other, &outbox()).1.have_left(), "another core waits for none of them");
        drop(second);
        assert!(!for_second.have_left() && !for_third.have_left(), "the first one is there");
        drop(first);
        assert!(for_second.have_left() && for_third.have_left());
        drop(third);
        assert!(homes.seat(one, &outbox()).1.have_left());
    }
}
