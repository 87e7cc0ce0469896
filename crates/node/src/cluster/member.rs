//! The node among others: what it says of itself, whom it lets in, how it becomes a member, and its replica of the metadata.
//!
//! Everything here is in the cluster's thread, but for [`ClusterNode`], by which the other threads reach it, and [`ClusterView`], which they
//! read.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use leveret_broker::Broker;
use leveret_broker::registry::{MetadataLeader as _, PlacedAnswer, PlacedRequest};
use leveret_broker::ticket::{StreamId, Ticket};
use leveret_cluster::forming::{Forming, FormingOptions, FormingRound, FormingStep, PeerAnswer};
use leveret_cluster::metadata::{Metadata, MetadataHost, MetadataNode, MetadataPort, PLACEMENT, replica_of};
use leveret_cluster::{Host, ReplicaId, Settings};
use leveret_log::{Disk, Entry, EntryOptions, EntryRead, Nanos, PlacementId};
use leveret_model::{Command, Member, MemberNumber, Permit, PlacementNumber, PutMember};
use leveret_peer::{Cookie, ForwardedRequest, ForwardedResponse, Gossip, Hello, LinkKind, Versions};
use serde::{Deserialize, Serialize};
use tracing::{error, info, warn};

use super::forwarded::{ForwardedHttp, HTTP, forward};
use super::gossip::{self, OwnWords, Telling};
use super::host::{NodeHost, RAFT, Replicas};
use super::links::{Answering, AskError, Links, LinksSetup, Peer, Service};
use super::log_driver::LogDriver;
use super::placements::{QueuePlacements, ReplicaOptions};
use super::runtime::NodeRuntime;
use super::thread::{ClusterRemote, ClusterThread, spawn};
use super::tls::ClusterTls;
use super::view::ClusterView;
use crate::clock::Clock;
use crate::data_link::DataSeats;
use crate::disk::Fatal;

/// Kinds of requests between nodes, beside [`RAFT`].
const CHANGE: u8 = 2;
/// The question what a node is, which its HELLO answers. Its body is the name of the node that a blank one takes for the first.
const STATUS: u8 = 3;
/// A node asks to become a member.
const JOIN: u8 = 4;

/// The advice for a node whose data directory is an older copy.
const ADVICE: &str = "start the newest directory, or strike the member with 'rabbitmqctl forget_cluster_node' and let it join anew, without data";

/// The kind of the notice with gossip.
const GOSSIP: u8 = 1;

/// Longest time for an answer of a node that is asked what it is.
const STATUS_WITHIN: Duration = Duration::from_secs(2);
/// Longest time for the answer of a node that is asked to take this one as a member.
const JOIN_WITHIN: Duration = Duration::from_secs(15);
/// Longest time for which a node that stops hands leaderships over.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(5);
/// Interval at which links follow the members, and the view follows the placement.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of log lines of a node that waits.
const WAIT_LINES: Duration = Duration::from_secs(10);

/// The answer to a node that a restart of the asked one will let in.
const AGAIN: &str = "ask again: ";

/// A node's words about itself that don't change while it runs.
#[derive(Clone, Debug)]
pub(crate) struct OwnNode {
    pub name: String,
    pub node_id: u64,
    /// The id of a cluster that it founds.
    pub cluster_id: [u8; 16],
    pub boot: u64,
    pub nonce: u32,
    /// Wall time of the start, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Where its listener for nodes can be reached.
    pub addresses: Vec<String>,
    pub release: String,
}

/// The node's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub member: MemberNumber,
    pub cluster_id: [u8; 16],
}

/// The place of the node among others at the moment.
#[derive(Clone, Debug)]
enum Place {
    /// With data of its own, and no cluster.
    Alone,
    /// Without data; it takes this node for the first one, and has this mark, as forming says.
    Blank {
        follows: String,
        mark: u8,
    },
    Member(Membership),
}

/// The node as its metadata sees it. Clones share it.
#[derive(Clone)]
pub(super) struct MemberHost {
    host: NodeHost,
    broker: Arc<Broker>,
    links: Links,
    view: Arc<ClusterView>,
}

impl MemberHost {
    /// Whether a member gave the leadership of a placement away in this term because somebody asked for it.
    pub(super) fn was_given(&self, placement: PlacementNumber, term: u64) -> bool {
        let seen = self.view.seen.lock();
        let mut given = seen.told.values().flat_map(|told| told.words.given.iter().flatten());
        given.any(|given| given.placement == placement.0 && given.term == term)
    }
}

impl Host for MemberHost {
    fn now(&self) -> Nanos {
        self.host.now()
    }

    fn wall_clock(&self) -> u64 {
        self.host.wall_clock()
    }

    fn appended(&self) {
        self.host.appended();
    }

    async fn read(&self, reads: Vec<EntryRead>) -> Result<Vec<Entry>, String> {
        self.host.read(reads).await
    }

    async fn call(
        &self,
        placement: PlacementId,
        target: ReplicaId,
        frame: Bytes,
        within: Duration,
    ) -> Result<Bytes, String> {
        self.host.call(placement, target, frame, within).await
    }

    fn stopped(&self, placement: PlacementId, text: &str) {
        self.host.stopped(placement, text);
    }
}

impl MetadataHost for MemberHost {
    async fn ask_member(&self, member: MemberNumber, request: Bytes, within: Duration) -> Result<Bytes, String> {
        self.links.call(member.0, LinkKind::Control, CHANGE, request, within).await
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn members_up(&self) -> Vec<MemberNumber> {
        let seen = self.view.seen.lock();
        let serves = |member: &&MemberNumber| {
            seen.told.get(member).is_none_or(|told| told.words.is_in_maintenance != Some(true))
        };
        let own = seen.member.filter(|_| !self.broker.is_in_maintenance());
        seen.reached.keys().filter(serves).copied().chain(own).collect()
    }

    fn is_durable(&self, ticket: Ticket) -> bool {
        let reached = self.broker.streams.reached(StreamId::LOCAL);
        reached.is_some_and(|reached| reached.have(ticket.place(), false))
    }

    fn wait_until_durable(&self, ticket: Ticket) {
        let (sender, durable) = channel();
        // The receiver is only gone if the node has failed meanwhile.
        self.broker.streams.when_over(ticket, Box::new(move |_| sender.send(()).unwrap_or_default()));
        self.broker.streams.announce();
        let _ = durable.recv();
    }
}

/// The state of the cluster's thread.
struct State {
    own: OwnNode,
    place: RefCell<Place>,
    links: OnceCell<Links>,
    metadata: OnceCell<Metadata<NodeRuntime, MemberHost>>,
    driver: OnceCell<LogDriver>,
    replicas: OnceCell<Rc<Replicas>>,
    /// The replicas of placements of queues.
    placements: OnceCell<Rc<QueuePlacements>>,
    port: OnceCell<Arc<MetadataPort>>,
    broker: OnceCell<Arc<Broker>>,
    seats: OnceCell<Arc<dyn DataSeats>>,
    view: Arc<ClusterView>,
    words: Arc<OwnWords>,
    http: ForwardedHttp,
    telling: Telling,
    clock: OnceCell<Clock>,
    /// The words of members that came before there was a broker.
    unheard: RefCell<BTreeMap<MemberNumber, Gossip>>,
    /// Called when another node wants to join this one, which is alone.
    on_first_join: Box<dyn Fn()>,
    /// Whether that was called.
    is_founding: Cell<bool>,
}

thread_local! {
    static STATE: RefCell<Option<Rc<State>>> = const { RefCell::new(None) };
}

fn state() -> Option<Rc<State>> {
    STATE.with_borrow(Clone::clone)
}

impl State {
    fn membership(&self) -> Option<Membership> {
        match &*self.place.borrow() {
            Place::Member(membership) => Some(*membership),
            Place::Alone | Place::Blank { .. } => None,
        }
    }

    fn members(&self) -> u16 {
        let count = self.broker.get().map(|broker| broker.registry.snapshot().topology.members().count());
        count.map_or(1, |count| u16::try_from(count.max(1)).unwrap_or(u16::MAX))
    }

    /// Tells the other members what has changed of this node.
    fn gossip(&self) {
        let (Some(links), Some(broker), Some(clock)) = (self.links.get(), self.broker.get(), self.clock.get()) else {
            return;
        };
        let mut words = self.words.now(broker);
        words.led = self.placements.get().map(|placements| placements.led());
        words.given = self.placements.get().map(|placements| placements.given());
        let reached: Vec<MemberNumber> = {
            let seen = self.view.seen.lock();
            let topology = broker.registry.snapshot().topology.clone();
            let others = topology.members().map(|member| member.number).filter(|member| Some(*member) != seen.member);
            let unreached = others.filter(|member| !seen.reached.contains_key(member)).map(|member| member.0);
            words.unreached = Some(unreached.collect());
            seen.reached.keys().copied().collect()
        };
        if self.telling.is_pulse(clock.instant(clock.monotonic())) {
            OwnWords::add_pulse(&mut words, broker, clock.system_ms());
            words.replica = Some(self.view.seen.lock().replica_in_words());
        }
        let tell = |member, bytes: Vec<u8>| links.tell(member, GOSSIP, bytes.into());
        self.telling.tell(&words, reached.into_iter().map(|member| member.0), tell);
    }

    /// Takes what a member tells of itself.
    fn hear(&self, from: &Hello, body: &[u8]) {
        let Some(member) = from.member.map(MemberNumber) else { return };
        let Some(news) = Gossip::decode(body) else {
            return warn!("node {} sent gossip that isn't readable", from.node_name);
        };
        let (Some(broker), Some(clock)) = (self.broker.get(), self.clock.get()) else {
            self.unheard.borrow_mut().entry(member).or_default().take(news);
            return;
        };
        let now = clock.now();
        self.words.page_sessions.hear(&news, now.wall_ms);
        let mut seen = self.view.seen.lock();
        let before = seen.told.get(&member).cloned().unwrap_or_default();
        let (after, heard) = before.hear(news, clock.system_ms(), clock.instant(now.monotonic));
        let skew_ms = after.skew_ms;
        seen.told.insert(member, Arc::new(after));
        let told = seen.told.clone();
        drop(seen);
        let name = &from.node_name;
        heard.raised.iter().for_each(|source| warn!("{} resource limit alarm set on node {name}", source.name()));
        heard.cleared.iter().for_each(|source| warn!("{} resource limit alarm cleared on node {name}", source.name()));
        match skew_ms {
            Some(skew_ms) if heard.has_skew_changed => warn!("{}", gossip::skew_in_words(name, skew_ms)),
            None if heard.has_skew_changed => info!("the clocks of node {name} and this node are alike again"),
            _ => {}
        }
        if heard.has_counts || !heard.raised.is_empty() || !heard.cleared.is_empty() {
            gossip::take_effect(&told, broker, self.words.alarms_are_shared);
        }
    }

    fn put_member(&self) -> PutMember {
        let OwnNode { name, node_id, boot, nonce, addresses, .. } = &self.own;
        let addresses = addresses.iter().map(|address| address.as_str().into()).collect();
        PutMember { name: name.as_str().into(), node_id: *node_id, boot: *boot, nonce: *nonce, addresses }
    }

    /// Takes a node as a member. Returns its membership.
    async fn take_member(&self, put: PutMember) -> Result<Membership, String> {
        let own = &self.own.name;
        let (Some(membership), Some(port), Some(broker)) = (self.membership(), self.port.get(), self.broker.get())
        else {
            if matches!(*self.place.borrow(), Place::Alone) {
                if !self.is_founding.replace(true) {
                    info!("node {} asks to join this one, which becomes the first member of a cluster", put.name);
                    (self.on_first_join)();
                }
                return Err(format!("{AGAIN}node {own} becomes the first member of a cluster"));
            }
            // A member that has just started has links before it has its metadata.
            if self.membership().is_some() {
                return Err(format!("{AGAIN}node {own} starts"));
            }
            return Err(format!("node {own} is no member of a cluster yet, so it can't take another one"));
        };
        // Numbers are given in order, and the first member's is its own.
        if broker.registry.snapshot().topology.member(membership.member).is_none() {
            return Err(format!("{AGAIN}node {own} is about to become a member itself"));
        }
        let name = put.name.clone();
        match ask(port, Command::PutMember(put)).await {
            PlacedAnswer::Done { .. } => {
                let topology = broker.registry.snapshot().topology.clone();
                let member = topology.member_named(&name).ok_or("it was forgotten meanwhile")?;
                info!("node {name} joins the cluster as member {}", member.number.0);
                Ok(Membership { member: member.number, ..membership })
            }
            PlacedAnswer::Refused(_, refused) => Err(refused.text),
            PlacedAnswer::WouldRefuse(_) => Err("nothing was answered".to_owned()),
        }
    }
}

/// Asks for a change on behalf of the node itself.
async fn ask(port: &MetadataPort, command: Command) -> PlacedAnswer {
    let (sender, answer) = tokio::sync::oneshot::channel();
    let request = PlacedRequest {
        permit: Permit::system(),
        commands: vec![command],
        is_new: false,
        is_dry: false,
        asker: MemberNumber::default(),
        is_asked_for_ever: false,
    };
    // An asker that is gone needs no answer.
    port.ask(request, Box::new(move |answer| sender.send(answer).unwrap_or_default()));
    answer.await.unwrap_or(PlacedAnswer::WouldRefuse(Vec::new()))
}

impl Service for State {
    fn hello(&self, link: LinkKind) -> Hello {
        let OwnNode { name, node_id, boot, nonce, started_at_ms, addresses, release, .. } = self.own.clone();
        let membership = self.membership();
        Hello {
            versions: Versions::OWN,
            release,
            node_name: name,
            node_id,
            cluster_id: membership.map(|membership| membership.cluster_id),
            member: membership.map(|membership| membership.member.0),
            boot,
            start_nonce: nonce,
            started_at_ms,
            members: self.members(),
            is_blank: matches!(*self.place.borrow(), Place::Blank { .. }),
            link,
            addresses,
            challenge: [0; 32],
        }
    }

    fn admit(&self, hello: &Hello) -> Result<(), String> {
        let Some(membership) = self.membership() else { return Ok(()) };
        let (Some(theirs), Some(number)) = (hello.cluster_id, hello.member) else { return Ok(()) };
        if theirs != membership.cluster_id {
            let id = |bytes: [u8; 16]| format!("{:032x}", u128::from_be_bytes(bytes));
            return Err(format!(
                "node {} is a member of the cluster {}, and node {} of the cluster {}: clusters don't join each other; 'rabbitmqctl reset' \
                 one of the nodes, and let it join",
                self.own.name,
                id(membership.cluster_id),
                hello.node_name,
                id(theirs)
            ));
        }
        let Some(broker) = self.broker.get() else { return Ok(()) };
        let topology = broker.registry.snapshot().topology.clone();
        // A node that has just joined knows nobody yet.
        if topology.members().next().is_none() {
            return Ok(());
        }
        match topology.member(MemberNumber(number)) {
            None if broker.registry.committed_model().has_numbered(MemberNumber(number)) => Err(format!(
                "node {} isn't a member any more: it was forgotten; 'rabbitmqctl reset' it, and let it join again",
                hello.node_name
            )),
            Some(member) if member.node_id != hello.node_id => Err(format!(
                "node {} says that it is member {number}, which is node {} with another data directory",
                hello.node_name, member.name
            )),
            Some(member) if hello.boot < member.boot => Err(format!(
                "the data directory of node {} is an older copy: it says start number {}, and the cluster has seen number {}; {ADVICE}",
                hello.node_name, hello.boot, member.boot
            )),
            // Each start has a nonce of its own. Links of such a node could carry votes for what its directory has forgotten.
            Some(member) if hello.boot == member.boot && hello.start_nonce != member.nonce => Err(format!(
                "the data directory of node {} is an older copy: the cluster has seen another start with the number {}; {ADVICE}",
                hello.node_name, hello.boot
            )),
            _ => Ok(()),
        }
    }

    fn request(self: Rc<Self>, from: Rc<Hello>, _: LinkKind, kind: u8, body: Bytes) -> Answering {
        Box::pin(async move {
            match kind {
                RAFT => match self.replicas.get() {
                    Some(replicas) => replicas.answer(body).await,
                    None => Err("the node starts".to_owned()),
                },
                CHANGE if from.member.is_some() => match self.metadata.get() {
                    Some(metadata) => Ok(metadata.take_request(&body).await),
                    None => Err("the node starts".to_owned()),
                },
                STATUS => Ok(match &*self.place.borrow() {
                    Place::Blank { follows, mark } => [&[*mark], follows.as_bytes()].concat().into(),
                    Place::Alone | Place::Member(_) => Bytes::new(),
                }),
                JOIN => {
                    let put = serde_json::from_slice(&body).map_err(|error| format!("the request to join: {error}"))?;
                    let membership = self.take_member(put).await?;
                    Ok(serde_json::to_vec(&membership).expect("it has a JSON form").into())
                }
                HTTP if from.member.is_some() => self.http.take(&body).await,
                other => Err(format!("requests of kind {other} aren't known to this release")),
            }
        })
    }

    fn notice(&self, from: &Hello, kind: u8, body: Bytes) {
        if kind == GOSSIP {
            return self.hear(from, &body);
        }
        warn!("node {} sent a notice of kind {kind}, which isn't known to this release", from.node_name);
    }

    fn data_seats(&self) -> Option<Arc<dyn DataSeats>> {
        self.seats.get().cloned()
    }

    fn link_up(&self, hello: &Hello) {
        if hello.link == LinkKind::Control
            && let Some(member) = hello.member
        {
            info!("node {} up", hello.node_name);
            self.telling.link_up(member);
            self.view.seen.lock().reached.insert(MemberNumber(member), hello.started_at_ms);
            if let Some(broker) = self.broker.get() {
                broker.note_gone(MemberNumber(member), false);
            }
        }
    }

    fn gone(&self, member: u16) {
        if let Some(broker) = self.broker.get() {
            broker.note_gone(MemberNumber(member), true);
        }
    }

    fn link_down(&self, hello: &Hello, reason: &str) {
        if hello.link == LinkKind::Control
            && let Some(member) = hello.member
        {
            info!("node {} down: {reason}", hello.node_name);
            let told = {
                let mut seen = self.view.seen.lock();
                seen.reached.remove(&MemberNumber(member));
                seen.told.remove(&MemberNumber(member));
                seen.told.clone()
            };
            self.unheard.borrow_mut().remove(&MemberNumber(member));
            if let Some(broker) = self.broker.get() {
                gossip::take_effect(&told, broker, self.words.alarms_are_shared);
            }
        }
    }
}

/// The parts of a node's links.
pub(crate) struct ClusterSetup {
    pub own: OwnNode,
    /// The membership of a node that is a member; `None` also of one that is to become one.
    pub membership: Option<Membership>,
    /// Whether it has no data, and is to become a member.
    pub is_forming: bool,
    pub listeners: Vec<TcpListener>,
    pub cookie: Cookie,
    pub tls: Option<ClusterTls>,
    pub on_first_join: Box<dyn Fn() + Send>,
    pub words: Arc<OwnWords>,
    pub http: ForwardedHttp,
}

/// A function that gives the names of the nodes that discovery finds, and where they can be reached.
pub(crate) type Discover = Box<dyn FnMut() -> Discovering + Send>;

/// Names and addresses of nodes.
type Discovering = Pin<Box<dyn Future<Output = Result<Vec<(String, String)>, String>>>>;

/// The node's part of a cluster, for the other threads.
pub(crate) struct ClusterNode {
    thread: ClusterThread,
    pub(crate) view: Arc<ClusterView>,
}

impl ClusterNode {
    /// Opens the links.
    ///
    /// # Errors
    /// There are no threads, or TLS can't be set up.
    pub(crate) fn start(setup: ClusterSetup, fatal: &Fatal) -> Result<ClusterNode, String> {
        let page_sessions = setup.words.page_sessions.clone();
        let view = Arc::new(ClusterView { page_sessions, ..ClusterView::default() });
        let (started, is_started) = channel();
        let shown = view.clone();
        let main = move || async move {
            let _ = started.send(begin(setup, shown));
        };
        let thread = ClusterThread::start(fatal, main).map_err(|error| format!("cannot start threads: {error}"))?;
        is_started.recv().map_err(|_| "the cluster's thread has ended".to_owned())??;
        Ok(ClusterNode { thread, view })
    }

    /// Does work in the cluster's thread, and waits for its end.
    fn call<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<State>) -> F + Send + 'static,
    ) -> Result<T, String> {
        let (sender, done) = channel();
        self.thread.run(move || {
            if let Some(state) = state() {
                spawn(async move { _ = sender.send(work(state).await) });
            }
        });
        done.recv().map_err(|_| "the cluster's thread has ended".to_owned())
    }

    /// Asks others until the node is a member, or starts alone; `None` is alone.
    pub(crate) fn form(
        &self,
        options: FormingOptions,
        discover: Discover,
        interval: Duration,
        is_stopping: impl Fn() -> bool + Send + 'static,
    ) -> Result<Option<Membership>, String> {
        self.call(move |state| form(state, options, discover, interval, is_stopping))?
    }

    /// Starts the replica of the metadata.
    pub(crate) fn attach(&self, attach: Attach) -> Result<(), String> {
        self.call(move |state| begin_as_member(state, attach))?
    }

    /// Waits until the metadata says that this node is a member.
    pub(crate) fn wait_until_member(&self) -> Result<(), String> {
        self.call(|state| async move {
            let Some(metadata) = state.metadata.get() else { return };
            while tokio::time::timeout(WAIT_LINES, metadata.wait_until_member()).await.is_err() {
                let reached = state.view.seen();
                info!(
                    "waiting for the metadata of the cluster: {} of its members can be reached, and {} leads",
                    reached.reached.len(),
                    reached.leader.map_or_else(|| "none".to_owned(), |member| format!("member {}", member.0))
                );
            }
        })
    }

    /// From now on warns of members that can't be reached and aren't named by discovery.
    pub(crate) fn warn_of_unnamed(&self, discover: Discover, interval: Duration) {
        self.thread.run(move || {
            if let Some(state) = state() {
                spawn(warn_of_unnamed(state, discover, interval));
            }
        });
    }

    /// The way for other threads.
    pub(crate) fn remote(&self) -> ClusterRemote {
        self.thread.remote()
    }

    /// Hands leaderships over, says goodbye, and ends everything.
    pub(crate) fn stop(mut self) {
        let _ = self.call(|state| async move {
            if let Some(placements) = state.placements.get() {
                // A member that doesn't answer doesn't keep the node from stopping.
                let _ = tokio::time::timeout(HAND_OVER_WITHIN, placements.transfer()).await;
                placements.shutdown().await;
            }
            if let Some(metadata) = state.metadata.get() {
                metadata.transfer().await;
                metadata.shutdown().await;
            }
            if let Some(links) = state.links.get() {
                links.stop("the node stops");
            }
            if let Some(driver) = state.driver.get() {
                driver.close().await;
            }
            STATE.take();
        });
        self.thread.stop();
    }
}

/// Asks a node to take this one as a member; `done` gets its answer. This node goes on as it is, until it starts anew.
pub(crate) fn ask_to_join(
    remote: &ClusterRemote,
    name: String,
    address: String,
    done: impl FnOnce(Result<Membership, String>) + Send + 'static,
) {
    remote.run(move || {
        let Some(state) = state() else { return done(Err("the node stops".to_owned())) };
        spawn(async move {
            let until = tokio::time::Instant::now() + JOIN_WITHIN;
            let joined = loop {
                match ask_membership(&state, &name, &address).await {
                    // The other node may restart in between, to become the first of a cluster.
                    Err(text) if is_passing(&text) && tokio::time::Instant::now() < until => {
                        tokio::time::sleep(FOLLOW_INTERVAL).await;
                    }
                    joined => break joined,
                }
            };
            done(joined);
        });
    });
}

/// Forwards a request of the HTTP API to a member; `done` gets the response.
pub(crate) fn forward_http(
    remote: &ClusterRemote,
    member: MemberNumber,
    request: ForwardedRequest,
    within: Duration,
    done: impl FnOnce(Result<ForwardedResponse, String>) + Send + 'static,
) {
    remote.run(move || {
        let links = state().and_then(|state| state.links.get().cloned());
        let Some(links) = links else { return done(Err("the node stops".to_owned())) };
        spawn(async move { done(forward(&links, member, &request, within).await) });
    });
}

/// Hands the leadership of a placement over to a member; `done` gets the result.
pub(crate) fn hand_over(
    remote: &ClusterRemote,
    (number, to): (PlacementNumber, MemberNumber),
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) {
    remote.run(move || {
        let placements = state().and_then(|state| state.placements.get().cloned());
        let Some(placements) = placements else { return done(Err("the node stops".to_owned())) };
        spawn(async move { done(placements.hand_over(number, to).await) });
    });
}

/// Hands those leaderships over that other members are to have; `done` is called after the last one.
pub(crate) fn rebalance(remote: &ClusterRemote, done: impl FnOnce() + Send + 'static) {
    remote.run(move || {
        let placements = state().and_then(|state| state.placements.get().cloned());
        spawn(async move {
            if let Some(placements) = placements {
                placements.rebalance().await;
            }
            done();
        });
    });
}

/// Whether a failure to join may be over soon.
fn is_passing(text: &str) -> bool {
    text.starts_with(AGAIN) || text.starts_with("cannot reach")
}

fn begin(setup: ClusterSetup, view: Arc<ClusterView>) -> Result<(), String> {
    let ClusterSetup { own, membership, is_forming, listeners, cookie, tls, on_first_join, words, http } = setup;
    let place = match membership {
        Some(membership) => Place::Member(membership),
        None if is_forming => Place::Blank { follows: String::new(), mark: 0 },
        None => Place::Alone,
    };
    view.seen.lock().member = membership.map(|membership| membership.member);
    let state = Rc::new(State {
        own,
        place: RefCell::new(place),
        links: OnceCell::new(),
        metadata: OnceCell::new(),
        driver: OnceCell::new(),
        replicas: OnceCell::new(),
        placements: OnceCell::new(),
        port: OnceCell::new(),
        broker: OnceCell::new(),
        seats: OnceCell::new(),
        view,
        words,
        http,
        telling: Telling::default(),
        clock: OnceCell::new(),
        unheard: RefCell::default(),
        on_first_join,
        is_founding: Cell::new(false),
    });
    let counters = state.view.counters.clone();
    let links = Links::start(LinksSetup { listeners, cookie, tls, counters }, state.clone());
    let links = links.map_err(|error| format!("cannot listen for other nodes: {error}"))?;
    let _ = state.links.set(links);
    STATE.set(Some(state));
    Ok(())
}

async fn ask_membership(state: &State, name: &str, address: &str) -> Result<Membership, String> {
    let links = state.links.get().ok_or("the node stops")?;
    let body = serde_json::to_vec(&state.put_member()).expect("it has a JSON form").into();
    match links.ask(address, JOIN, body, JOIN_WITHIN).await {
        Ok((_, answer)) => serde_json::from_slice(&answer).map_err(|error| format!("node {name} answered: {error}")),
        Err(AskError::Unreachable(text)) => Err(format!("cannot reach node {name} at {address}: {text}")),
        Err(AskError::Refused(text)) => Err(text),
    }
}

impl State {
    fn become_member(&self, membership: Membership) {
        *self.place.borrow_mut() = Place::Member(membership);
        self.view.seen.lock().member = Some(membership.member);
    }
}

async fn form(
    state: Rc<State>,
    options: FormingOptions,
    mut discover: Discover,
    interval: Duration,
    is_stopping: impl Fn() -> bool,
) -> Result<Option<Membership>, String> {
    let (began, own) = (tokio::time::Instant::now(), options.name.clone());
    let mut forming = Forming::new(options);
    while !is_stopping() {
        let found = discover().await;
        let others = found.iter().flatten().filter(|(name, _)| *name != own);
        let asked: Vec<_> =
            others.map(|(name, address)| spawn(sound(state.clone(), name.clone(), address.clone()))).collect();
        let (mut answers, mut own_names) = (BTreeMap::new(), BTreeMap::new());
        for asked in asked {
            if let Ok((found, name, answer)) = asked.await {
                answers.insert(name.clone(), answer);
                own_names.insert(found, name);
            }
        }
        // A name that was found by an address is a guess, until the node there has said its own.
        let own_name = |name: String| own_names.get(&name).cloned().unwrap_or(name);
        let named = |(name, address): &(String, String)| (own_name(name.clone()), address.clone());
        let addresses: BTreeMap<_, _> = found.iter().flatten().map(named).collect();
        let names = found.map(|found| found.into_iter().map(|(name, _)| own_name(name)).collect());
        let elapsed_ms = began.elapsed().as_millis() as u64;
        let step = forming.round(&FormingRound { elapsed_ms, names, answers });
        *state.place.borrow_mut() = Place::Blank { follows: forming.follows().to_owned(), mark: forming.mark() };
        match step {
            FormingStep::Seed { text, .. } => {
                info!("{text}");
                let membership = Membership { member: MemberNumber::default(), cluster_id: state.own.cluster_id };
                state.become_member(membership);
                return Ok(Some(membership));
            }
            FormingStep::Join { node, text, log_now } => {
                if log_now {
                    info!("{text}");
                }
                let address = addresses.get(&node).cloned().unwrap_or_default();
                match ask_membership(&state, &node, &address).await {
                    Ok(membership) => {
                        state.become_member(membership);
                        return Ok(Some(membership));
                    }
                    Err(reason) if log_now => warn!("joining node {node} failed: {}", reason.trim_start_matches(AGAIN)),
                    Err(_) => {}
                }
            }
            FormingStep::Wait { text, log_now } => {
                if log_now {
                    info!("{text}");
                }
            }
            FormingStep::GoOnAlone(text) => {
                warn!("{text}");
                *state.place.borrow_mut() = Place::Alone;
                return Ok(None);
            }
        }
        tokio::time::sleep(interval).await;
    }
    Err("the node was asked to stop while it formed a cluster".to_owned())
}

/// Asks a node what it is. Returns the name that it was found by, and the one that it says.
async fn sound(state: Rc<State>, found: String, address: String) -> (String, String, PeerAnswer) {
    let stops = || PeerAnswer::Unreachable("the node stops".to_owned());
    let Some(links) = state.links.get() else { return (found.clone(), found, stops()) };
    let mut name = found.clone();
    let answer = match links.ask(&address, STATUS, Bytes::new(), STATUS_WITHIN).await {
        Err(error) => PeerAnswer::Unreachable(error.to_string()),
        Ok((hello, words)) => {
            name.clone_from(&hello.node_name);
            match hello {
                Hello { node_id, .. } if node_id == state.own.node_id => PeerAnswer::Itself,
                Hello { cluster_id: Some(cluster_id), members, started_at_ms, .. } => {
                    PeerAnswer::InCluster { cluster_id, size: u32::from(members), started_at_ms }
                }
                Hello { is_blank: true, started_at_ms, .. } => match words.split_first() {
                    Some((mark, follows)) => PeerAnswer::Blank {
                        started_at_ms,
                        mark: *mark,
                        follows: Some(String::from_utf8_lossy(follows).into_owned()),
                    },
                    None => PeerAnswer::Unreachable("its answer isn't one of this release".to_owned()),
                },
                Hello { started_at_ms, .. } => PeerAnswer::HasData { started_at_ms },
            }
        }
    };
    (found, name, answer)
}

/// The parts of a member's replica of the metadata.
pub(crate) struct Attach {
    pub broker: Arc<Broker>,
    /// The cores, for data links.
    pub seats: Arc<dyn DataSeats>,
    pub clock: Clock,
    pub disk: Arc<dyn Disk>,
    pub entry_options: EntryOptions,
    pub membership: Membership,
    /// Time without an answer after which an asker of a change is told so.
    pub patience: Duration,
    pub replicas: ReplicaOptions,
    pub fatal: Fatal,
}

async fn begin_as_member(state: Rc<State>, attach: Attach) -> Result<(), String> {
    let Attach { broker, seats, clock, disk, entry_options, membership, patience, replicas, fatal } = attach;
    let ReplicaOptions { catch_up_bytes, return_leaders } = replicas;
    let links = state.links.get().ok_or("the node stops")?.clone();
    let (driver, report) = LogDriver::open(disk, &entry_options, &clock, &fatal).map_err(|error| error.to_string())?;
    report.damaged.iter().for_each(|damage| error!("the entry log is damaged: {damage:?}"));
    let _ = state.view.syncs.set(driver.syncs().clone());
    let _ = state.driver.set(driver.clone());
    let _ = state.clock.set(clock);
    let _ = state.broker.set(broker.clone());
    let _ = state.seats.set(seats);
    let log = driver.log().clone();
    let host = NodeHost::new(driver.clone(), links.clone(), |_, text| error!(critical = true, "{text}"));
    let host = MemberHost { host, broker: broker.clone(), links: links.clone(), view: state.view.clone() };
    let asked = Arc::new(tokio::sync::Notify::new());
    let wake = asked.clone();
    let port = Arc::new(MetadataPort::new(move || wake.notify_one()));
    let _ = state.port.set(port.clone());
    let (member, boot) = (membership.member, state.own.boot);
    let is_known = broker.registry.snapshot().topology.members().next().is_some();
    let placements = QueuePlacements::new(broker.clone(), host.clone(), log.clone(), (member, catch_up_bytes));
    let node = MetadataNode { broker: broker.clone(), member, boot, log, port: port.clone(), patience };
    let settings = Settings { catch_up_bytes, ..Settings::default() };
    let metadata = Metadata::start(&settings, node, host).await.map_err(|error| error.to_string())?;
    broker.registry.join(port.clone());
    let _ = state.metadata.set(metadata.clone());
    let (replicas, answering) = (Rc::new(Replicas::new(driver)), metadata.clone());
    replicas.insert((PLACEMENT, replica_of(member)), move |frame| {
        let metadata = answering.clone();
        async move { metadata.answer(&frame).await }
    });
    let _ = state.replicas.set(replicas);
    if let Some(after) = return_leaders {
        spawn(placements.clone().return_leaders(after));
    }
    let _ = state.placements.set(placements);
    spawn(metadata.clone().run());
    spawn(metadata.clone().tend());
    let taking = metadata.clone();
    spawn(async move {
        loop {
            asked.notified().await;
            taking.take_asked();
        }
    });
    for (member, words) in state.unheard.take() {
        let hello = links.hello_of(member.0);
        hello.iter().for_each(|hello| state.hear(hello, &words.encode()));
    }
    spawn(follow(state.clone(), broker, metadata.clone()));
    // The first member founds the placement; a start that was cut off before may have done it.
    if member == MemberNumber::default() && !is_known {
        metadata.found().await.or_else(|error| if metadata.applied() > 0 { Ok(()) } else { Err(error.to_string()) })?;
    }
    spawn(say_started(state, port));
    Ok(())
}

/// Tells the cluster of this start, until it knows.
async fn say_started(state: Rc<State>, port: Arc<MetadataPort>) {
    loop {
        match ask(&port, Command::PutMember(state.put_member())).await {
            PlacedAnswer::Done { .. } => return,
            PlacedAnswer::Refused(_, refused) if refused.kind == leveret_model::RefusedKind::NotAllowed => {
                return error!(critical = true, "the cluster refuses this start: {refused}");
            }
            _ => tokio::time::sleep(FOLLOW_INTERVAL).await,
        }
    }
}

/// Warns of members that can't be reached and aren't named by discovery, as RabbitMQ's node cleanup does if it removes nothing.
async fn warn_of_unnamed(state: Rc<State>, mut discover: Discover, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        // Without names nothing is known of anybody.
        let Ok(found) = discover().await else { continue };
        let Some(broker) = state.broker.get() else { return };
        let topology = broker.registry.snapshot().topology.clone();
        let seen = state.view.seen();
        let is_gone =
            |member: &&Arc<Member>| Some(member.number) != seen.member && !seen.reached.contains_key(&member.number);
        for Member { name, .. } in topology.members().filter(is_gone).map(|member| &**member) {
            if !found.iter().any(|(named, _)| **named == **name) {
                warn!(
                    "Peer discovery: node {name} is unreachable, and isn't among the nodes that discovery finds; if it doesn't come back, \
                     remove it with 'rabbitmqctl forget_cluster_node {name}'"
                );
            }
        }
    }
}

/// Keeps the links those of the members, and the view that of the placement.
async fn follow(state: Rc<State>, broker: Arc<Broker>, metadata: Metadata<NodeRuntime, MemberHost>) {
    let mut generation = 0;
    loop {
        let snapshot = broker.registry.snapshot_full();
        let Some((links, membership)) = state.links.get().zip(state.membership()) else { return };
        if snapshot.generation != generation {
            generation = snapshot.generation;
            let others = snapshot.topology.members().filter(|member| member.number != membership.member);
            let peers: Vec<_> = others
                .map(|member| Peer {
                    member: member.number.0,
                    node_name: member.name.to_string(),
                    addresses: member.addresses.iter().map(ToString::to_string).collect(),
                })
                .collect();
            links.set_peers(peers);
            if let Some((placements, replicas)) = state.placements.get().zip(state.replicas.get()) {
                placements.follow(replicas);
            }
        }
        if let Some(clock) = state.clock.get() {
            let now = clock.monotonic();
            if let Some(placements) = state.placements.get() {
                let told = state.view.seen.lock().told.clone();
                placements.follow_others(&told, now);
            }
            broker.tend_placements(now);
        }
        let (term, leader) = metadata.leader();
        {
            let mut seen = state.view.seen.lock();
            (seen.term, seen.leader) = (term, leader);
            (seen.applied, seen.voters) = (metadata.applied(), metadata.voters());
            (seen.replica, seen.in_flight) = (metadata.status(), metadata.in_flight());
            seen.placements = state.placements.get().map(|placements| placements.seen()).unwrap_or_default();
            let others = snapshot.topology.members().map(|member| member.number);
            let unreached = others.filter(|member| !seen.reached.contains_key(member));
            seen.failures = unreached.filter_map(|member| Some((member, links.failure(member.0)?))).collect();
        }
        state.gossip();
        tokio::time::sleep(FOLLOW_INTERVAL).await;
    }
}
