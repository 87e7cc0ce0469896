//! The node's replicas of placements of queues: started when the metadata has a placement with this member, and shown.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leveret_broker::Broker;
use leveret_cluster::metadata::MetadataHost as _;
use leveret_cluster::queues::QueueReplica;
use leveret_cluster::{Host as _, NodeLog, Settings};
use leveret_log::Nanos;
use leveret_model::{MemberNumber, PlacementNumber, QueuePlacement};
use leveret_peer::GossipLed;
use tracing::{error, info, warn};

use super::gossip::ToldByMember;
use super::host::Replicas;
use super::member::MemberHost;
use super::returning::{LACKS_MAX, Misplaced, Returning};
use super::runtime::NodeRuntime;
use super::thread::spawn;
use super::view::PlacementSeen;

type Replica = QueueReplica<NodeRuntime, MemberHost>;

/// Time from one leadership that goes back to the next one.
const RETURN_EVERY: Duration = Duration::from_secs(1);
/// Leaderships that are handed over at a time, so that the queues of the others go on meanwhile.
const AT_ONCE: usize = 4;

/// Does something with all replicas, a few at a time.
async fn at_once<F: Future<Output = ()> + 'static>(
    replicas: Vec<(PlacementNumber, Replica)>,
    with: impl Fn(Replica) -> F,
) {
    for some in replicas.chunks(AT_ONCE) {
        let tasks: Vec<_> = some.iter().map(|(_, replica)| spawn(with(replica.clone()))).collect();
        for task in tasks {
            // A panic in one ends the process.
            let _ = task.await;
        }
    }
}

/// Settings of a node's replicas.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaOptions {
    /// Bytes of entries that are kept for replicas which lag behind.
    pub catch_up_bytes: u64,
    /// Time after which a member that was away gets its leaderships back; `None` for never.
    pub return_leaders: Option<Duration>,
}

/// The replicas of a node.
pub(super) struct QueuePlacements {
    broker: Arc<Broker>,
    host: MemberHost,
    log: NodeLog,
    member: MemberNumber,
    catch_up_bytes: u64,
    /// The leaderships that were given away because somebody asked for it, with the terms of the next leaders.
    given: RefCell<BTreeMap<PlacementNumber, u64>>,
    started: RefCell<BTreeMap<PlacementNumber, Option<Replica>>>,
}

impl QueuePlacements {
    pub(super) fn new(
        broker: Arc<Broker>,
        host: MemberHost,
        log: NodeLog,
        (member, catch_up_bytes): (MemberNumber, u64),
    ) -> Rc<QueuePlacements> {
        Rc::new(QueuePlacements {
            broker,
            host,
            log,
            member,
            catch_up_bytes,
            given: RefCell::default(),
            started: RefCell::default(),
        })
    }

    /// Starts the replicas of placements that this member has, and that aren't started.
    pub(super) fn follow(self: &Rc<Self>, replicas: &Rc<Replicas>) {
        let topology = self.broker.registry.snapshot().topology.clone();
        for made in topology.placements().filter(|placement| placement.has(self.member)) {
            if !self.started.borrow().contains_key(&made.number) {
                self.started.borrow_mut().insert(made.number, None);
                spawn(self.clone().start(made.clone(), replicas.clone()));
            }
        }
    }

    async fn start(self: Rc<Self>, made: Arc<QueuePlacement>, replicas: Rc<Replicas>) {
        let number = made.number;
        let arrived = Arc::new(tokio::sync::Notify::new());
        let notify = arrived.clone();
        let wake = Arc::new(move || notify.notify_one());
        let with = (self.broker.clone(), self.log.clone(), self.host.clone());
        let settings = Settings { catch_up_bytes: self.catch_up_bytes, ..Settings::default() };
        let replica = match Replica::start(&settings, with, self.member, made, wake).await {
            Ok(replica) => replica,
            Err(error) => return error!(critical = true, "placement {number} can't be started here: {error}"),
        };
        let answering = replica.clone();
        replicas.insert(replica.id(), move |frame| {
            let replica = answering.clone();
            async move { replica.answer(&frame).await }
        });
        self.started.borrow_mut().insert(number, Some(replica.clone()));
        spawn(replica.clone().lead());
        spawn(replica.clone().propose());
        spawn(replica.clone().tend());
        spawn(replica.clone().found());
        loop {
            arrived.notified().await;
            replica.arrived();
        }
    }

    fn running(&self) -> Vec<(PlacementNumber, Replica)> {
        let started = self.started.borrow();
        started.iter().filter_map(|(number, replica)| Some((*number, replica.clone()?))).collect()
    }

    fn replica(&self, number: PlacementNumber) -> Option<Replica> {
        self.started.borrow().get(&number).cloned().flatten()
    }

    /// The replicas as others see them.
    pub(super) fn seen(&self) -> BTreeMap<PlacementNumber, PlacementSeen> {
        let seen = |replica: &Replica| PlacementSeen {
            leader: replica.leader(),
            voters: replica.voters(),
            replica: replica.status(),
            matched: replica.matched(),
        };
        self.running().iter().map(|(number, replica)| (*number, seen(replica))).collect()
    }

    /// The placements that this member leads.
    pub(super) fn led(&self) -> Vec<GossipLed> {
        let led = |(number, replica): &(PlacementNumber, Replica)| {
            Some(GossipLed { placement: number.0, term: replica.leads()? })
        };
        self.running().iter().filter_map(led).collect()
    }

    /// Follows the leaders of placements that this member has no replica of, as they say themselves.
    pub(super) fn follow_others(&self, told: &BTreeMap<MemberNumber, Arc<ToldByMember>>, now: Nanos) {
        let topology = self.broker.registry.snapshot().topology.clone();
        for made in topology.placements().filter(|placement| !placement.has(self.member)) {
            let led = |(member, told): (&MemberNumber, &Arc<ToldByMember>)| {
                let led = told.words.led.iter().flatten().find(|led| led.placement == made.number.0)?;
                Some((*member, led.term))
            };
            // One that lost it may not have said so yet.
            let leader = told.iter().filter_map(led).max_by_key(|(_, term)| *term);
            self.broker.follow_leader(made.number, leader, now);
        }
    }

    /// Hands all leaderships over.
    pub(super) async fn transfer(&self) {
        at_once(self.running(), |replica| async move { replica.transfer().await }).await;
    }

    /// Hands those leaderships over that others are to have.
    pub(super) async fn rebalance(&self) {
        at_once(self.running(), |replica| async move { replica.prefer().await }).await;
    }

    /// Hands the leadership of a placement over to a member.
    ///
    /// # Errors
    /// As [`QueueReplica::hand_over`], or there is no replica here.
    pub(super) async fn hand_over(&self, number: PlacementNumber, to: MemberNumber) -> Result<(), String> {
        let replica = self.replica(number).ok_or("this member has no replica of it")?;
        replica.hand_over(to).await?;
        self.given.borrow_mut().insert(number, replica.status().term);
        Ok(())
    }

    /// The leaderships that this member gave away because somebody asked for it.
    pub(super) fn given(&self) -> Vec<GossipLed> {
        let given = self.given.borrow();
        given.iter().map(|(number, term)| GossipLed { placement: number.0, term: *term }).collect()
    }

    /// Gives leaderships back to the members that are to have them, one a second, once these have had all entries for so long. What somebody
    /// gave to this member stays here while the giver runs.
    pub(super) async fn return_leaders(self: Rc<Self>, after: Duration) {
        let (mut returning, after) = (Returning::default(), after.as_nanos() as Nanos);
        loop {
            tokio::time::sleep(RETURN_EVERY).await;
            let Some(one) = returning.next(&self.misplaced(), self.host.now(), after) else { continue };
            let (number, member) = (one.number, one.preferred);
            let Some(replica) = self.replica(number) else { continue };
            let topology = self.broker.registry.snapshot().topology.clone();
            let name = topology.member(member).map_or_else(|| member.0.to_string(), |member| member.name.to_string());
            match replica.hand_over(member).await {
                Ok(()) => info!("placement {number} is led by node {name} again, which is back and has all entries"),
                Err(reason) => warn!("placement {number} can't be led by node {name} again: {reason}"),
            }
        }
    }

    /// The placements that this member leads, and that another one is to lead and could: it runs, isn't in maintenance, votes, and has all
    /// entries. Those that somebody gave to this member aren't among them.
    fn misplaced(&self) -> Vec<Misplaced> {
        let up = self.host.members_up();
        let topology = self.broker.registry.snapshot().topology.clone();
        let misplaced = |(number, replica): (PlacementNumber, Replica)| {
            let preferred = topology.placement(number)?.preferred();
            let term = replica.leads().filter(|_| preferred != self.member)?;
            let last = replica.status().last;
            // Only voters are there.
            let matched = replica.matched().into_iter().find(|(member, _)| *member == preferred);
            let has_all = matched.is_some_and(|(_, index)| index + LACKS_MAX >= last);
            let may_return = has_all && up.contains(&preferred) && !self.host.was_given(number, term);
            may_return.then_some(Misplaced { number, term, preferred })
        };
        self.running().into_iter().filter_map(misplaced).collect()
    }

    /// Stops all replicas.
    pub(super) async fn shutdown(&self) {
        for (_, replica) in self.running() {
            replica.shutdown().await;
        }
    }
}
