//! The node as its placements see it, and the placements as other nodes see them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use leveret_cluster::frames::{FrameWeight, placement_of, weight_of};
use leveret_cluster::metadata::member_of;
use leveret_cluster::{Host, ReplicaId};
use leveret_log::{Entry, EntryRead, Nanos, PlacementId};
use leveret_peer::LinkKind;

use super::links::Links;
use super::log_driver::LogDriver;

/// The kind of requests between replicas. Their body is the replica that is asked (8), then the frame.
pub(crate) const RAFT: u8 = 1;

/// The function that is called when a placement stops, with the text.
type Stopped = Box<dyn Fn(PlacementId, &str)>;

struct Inner {
    driver: LogDriver,
    links: Links,
    stopped: Stopped,
}

/// The node under its placements. Clones share it.
#[derive(Clone)]
pub(crate) struct NodeHost(Rc<Inner>);

impl NodeHost {
    /// The host of all placements of a node. `stopped` is called for each that stops, with the text.
    pub(crate) fn new(driver: LogDriver, links: Links, stopped: impl Fn(PlacementId, &str) + 'static) -> NodeHost {
        NodeHost(Rc::new(Inner { driver, links, stopped: Box::new(stopped) }))
    }
}

impl Host for NodeHost {
    fn now(&self) -> Nanos {
        self.0.driver.clock().monotonic()
    }

    fn wall_clock(&self) -> u64 {
        self.0.driver.clock().now().wall_ms
    }

    fn appended(&self) {
        self.0.driver.wake();
    }

    async fn read(&self, reads: Vec<EntryRead>) -> Result<Vec<Entry>, String> {
        self.0.driver.read(reads).await
    }

    async fn call(&self, _: PlacementId, target: ReplicaId, frame: Bytes, within: Duration) -> Result<Bytes, String> {
        let link = match weight_of(&frame) {
            FrameWeight::Light => LinkKind::Control,
            FrameWeight::Entries => LinkKind::Append,
            FrameWeight::State => LinkKind::Bulk,
        };
        let mut body = BytesMut::with_capacity(8 + frame.len());
        body.put_u64_le(target);
        body.put_slice(&frame);
        self.0.links.call(member_of(target).0, link, RAFT, body.freeze(), within).await
    }

    fn stopped(&self, placement: PlacementId, text: &str) {
        (self.0.stopped)(placement, text);
    }
}

type Answer = Pin<Box<dyn Future<Output = Option<Bytes>>>>;

/// A replica that answers.
struct Answering {
    replica: ReplicaId,
    answer: Rc<dyn Fn(Bytes) -> Answer>,
}

/// The replicas of a node, by placement: they answer the frames of others.
pub(crate) struct Replicas {
    driver: LogDriver,
    answering: RefCell<BTreeMap<PlacementId, Answering>>,
}

impl Replicas {
    /// None yet.
    pub(crate) fn new(driver: LogDriver) -> Replicas {
        Replicas { driver, answering: RefCell::default() }
    }

    /// Lets a replica answer.
    pub(crate) fn insert<F: Future<Output = Option<Bytes>> + 'static>(
        &self,
        (placement, replica): (PlacementId, ReplicaId),
        answer: impl Fn(Bytes) -> F + 'static,
    ) {
        let answer = move |frame: Bytes| -> Answer { Box::pin(answer(frame)) };
        self.answering.borrow_mut().insert(placement, Answering { replica, answer: Rc::new(answer) });
    }

    /// Answers a request of the kind [`RAFT`].
    ///
    /// # Errors
    /// The replica isn't here, or takes no entries now.
    pub(crate) async fn answer(&self, mut body: Bytes) -> Result<Bytes, String> {
        let target = take_number(&mut body).ok_or("the frame is too short")?;
        let placement = placement_of(&body).ok_or("the frame is too short")?;
        let answer = {
            let answering = self.answering.borrow();
            let found = answering.get(&placement).filter(|found| found.replica == target);
            found.map(|found| found.answer.clone())
        };
        let answer = answer.ok_or_else(|| format!("replica {target:x} of placement {placement} isn't here"))?;
        if weight_of(&body) != FrameWeight::Light && !self.driver.has_room() {
            return Err("the entry log has no room at the moment".to_owned());
        }
        answer(body).await.ok_or_else(|| format!("the frame isn't one for placement {placement}"))
    }
}

/// Takes the number at the beginning of a body.
fn take_number(body: &mut Bytes) -> Option<u64> {
    let number = body.get(..8)?.try_into().ok()?;
    let _ = body.split_to(8);
    Some(u64::from_le_bytes(number))
}
