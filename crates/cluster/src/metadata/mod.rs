//! Placement 0: the metadata of a cluster.
//!
//! A change is asked of any member ([`MetadataPort`]), sent to the one that leads, decided there on the committed state, and carried out by
//! all members in the same order. The answer is part of the entry, so that an asker is answered when its own node has carried out the change,
//! and a request that has to be sent again, since a leader or a link was lost, is carried out once: requests have numbers, and the last
//! answers are remembered by every member.

mod batch;
mod leader;
mod machine;
mod members;
mod port;
mod read;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leveret_broker::Broker;
use leveret_broker::ticket::Ticket;
use leveret_log::PlacementId;
use leveret_model::MemberNumber;
use openraft::AsyncRuntime;

use self::leader::Inbox;
use self::machine::{MetadataMachine, MetadataShared};
use self::members::VOTERS_MAX;
pub use self::port::MetadataPort;
use crate::event::Happening;
use crate::flushes::NodeLog;
use crate::network::Host;
use crate::placement::{Placement, ReplicaStatus};
use crate::settings::{Settings, StartError};
use crate::types::ReplicaId;

/// The placement of the metadata.
pub const PLACEMENT: PlacementId = PlacementId(0);

/// The node under its metadata.
pub trait MetadataHost: Host {
    /// Sends a request to a member, which gives it to [`Metadata::take_request`], and waits for the answer for at most this long.
    fn ask_member(
        &self,
        member: MemberNumber,
        request: Bytes,
        within: Duration,
    ) -> impl Future<Output = Result<Bytes, String>>;
    /// Waits for about this long: more exactly than the engine's timers, which are for elections.
    fn pause(&self, time: Duration) -> impl Future<Output = ()>;
    /// The members that can be given new queues: those that this one reaches, and that aren't in maintenance.
    fn members_up(&self) -> Vec<MemberNumber>;
    /// Whether a record of this node's store is durable.
    fn is_durable(&self, ticket: Ticket) -> bool;
    /// Waits until a record of this node's store is durable. Blocks the thread: nothing else of the placements can go on before.
    fn wait_until_durable(&self, ticket: Ticket);
}

/// The id of a member's replica.
#[must_use]
pub const fn replica_of(member: MemberNumber) -> ReplicaId {
    (member.0 as u64) << 32 | 1
}

/// The member that has a replica.
#[must_use]
pub const fn member_of(replica: ReplicaId) -> MemberNumber {
    MemberNumber((replica >> 32) as u16)
}

/// The metadata of a cluster on one of its members. Clones share it.
pub struct Metadata<R: AsyncRuntime, H: MetadataHost>(Rc<Inner<R, H>>);

struct Inner<R: AsyncRuntime, H: MetadataHost> {
    placement: Placement<R, H, MetadataMachine<H>>,
    shared: Rc<MetadataShared<H>>,
    port: Arc<MetadataPort>,
    /// Time without an answer after which an asker is told so.
    patience: Duration,
    /// Bytes of entries that are kept for replicas which lag behind.
    catch_up_bytes: u64,
    /// Number of this start's last request.
    requests: Cell<u64>,
    inbox: RefCell<VecDeque<Inbox>>,
    /// Whether a task catches up with the others.
    catches_up: Cell<bool>,
    /// Whether it has caught up when this was last tried.
    has_caught_up: Cell<bool>,
    /// Happens with each request in the inbox.
    arrivals: Happening,
    /// The model with the last decisions, for a planted bug.
    #[cfg(feature = "planted-bugs")]
    staged: RefCell<Option<leveret_model::Model>>,
}

impl<R: AsyncRuntime, H: MetadataHost> Clone for Metadata<R, H> {
    fn clone(&self) -> Self {
        Metadata(self.0.clone())
    }
}

/// The node whose metadata it is.
pub struct MetadataNode {
    /// Its broker.
    pub broker: Arc<Broker>,
    /// Its number.
    pub member: MemberNumber,
    /// The number of its start.
    pub boot: u64,
    /// The entry log.
    pub log: NodeLog,
    /// The way of its changes, which the broker's registry has joined.
    pub port: Arc<MetadataPort>,
    /// Time without an answer after which an asker is told so.
    pub patience: Duration,
}

impl<R: AsyncRuntime, H: MetadataHost> Metadata<R, H> {
    /// Starts the replica. Then [`Metadata::run`] has to be spawned.
    ///
    /// # Errors
    /// As [`Placement::start`].
    pub async fn start(settings: &Settings, node: MetadataNode, host: H) -> Result<Self, StartError> {
        let MetadataNode { broker, member, boot, log, port, patience } = node;
        let shared = Rc::new(MetadataShared::new(host.clone(), broker, (member, boot)));
        let machine = MetadataMachine(shared.clone());
        let placement = Placement::start(settings, (PLACEMENT, replica_of(member)), log, host, machine).await?;
        let (inbox, arrivals, requests, catches_up) =
            (RefCell::default(), Happening::default(), Cell::new(0), Cell::new(false));
        let has_caught_up = Cell::new(true);
        Ok(Metadata(Rc::new(Inner {
            placement,
            shared,
            port,
            patience,
            catch_up_bytes: settings.catch_up_bytes,
            requests,
            inbox,
            catches_up,
            has_caught_up,
            arrivals,
            #[cfg(feature = "planted-bugs")]
            staged: RefCell::default(),
        })))
    }

    /// Makes a new cluster with this member alone.
    ///
    /// # Errors
    /// The placement has members.
    pub async fn found(&self) -> Result<(), StartError> {
        self.0.placement.initialize(&[replica_of(self.0.shared.member)].into()).await
    }

    /// Answers a frame of another member's replica; `None` if it is one for another placement.
    pub async fn answer(&self, frame: &Bytes) -> Option<Bytes> {
        self.0.placement.answer(frame).await
    }

    /// The member that leads, as far as this one knows, and the term.
    #[must_use]
    pub fn leader(&self) -> (u64, Option<MemberNumber>) {
        let (term, leader) = self.0.placement.leader();
        (term, leader.map(member_of))
    }

    /// This member's replica as its engine sees it.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        self.0.placement.status()
    }

    /// Number of this node's requests that aren't answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.shared.asked.borrow().len()
    }

    /// The number of entries that are applied here.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.0.placement.state().applied.map_or(0, |(_, index)| index + 1)
    }

    /// The voters.
    #[must_use]
    pub fn voters(&self) -> Vec<MemberNumber> {
        let voters = self.0.placement.state().voters();
        voters.last().into_iter().flatten().map(|replica| member_of(*replica)).collect()
    }

    /// Waits until this member has applied entries that make it one, and a voter unless there are enough of these: from then on the others
    /// may go. Waits for ever if it never becomes one.
    pub async fn wait_until_member(&self) {
        loop {
            let count = self.0.shared.entries.count();
            let member = self.0.shared.member;
            let topology = self.0.shared.broker.registry.snapshot().topology.clone();
            let voters = self.voters();
            if topology.member(member).is_some() && (voters.contains(&member) || voters.len() >= VOTERS_MAX) {
                return;
            }
            self.0.shared.entries.more_than(count).await;
        }
    }

    /// Hands the leadership over, if this member has it.
    pub async fn transfer(&self) {
        let mine = replica_of(self.0.shared.member);
        let voters = self.0.placement.state().voters();
        let other = voters.last().into_iter().flatten().find(|replica| **replica != mine);
        if self.leader().1 == Some(self.0.shared.member)
            && let Some(other) = other
        {
            let _ = self.0.placement.transfer(*other).await;
        }
    }

    /// Stops the replica's tasks.
    pub async fn shutdown(&self) {
        self.0.placement.shutdown().await;
    }
}
