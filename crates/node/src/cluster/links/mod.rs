//! The links to other nodes: a listener, and dialers that hold one connection of each kind to each peer.
//!
//! Both nodes of a pair dial: the one with the lower member number at once, the other one when there is no link a second later. If both
//! connect at the same time, both keep the connection that the lower one dialled. A peer of whom nothing is heard for two seconds on its
//! control link is given up, and dialled again.

mod accept;
mod counters;
mod data;
mod dial;
mod link;
mod refusals;
mod socket;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leveret_peer::{Cookie, Hello, LinkKind, PeerMessage, Verdict};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use self::accept::Unproven;
pub(crate) use self::counters::LinkCounters;
use self::data::DataLinks;
use self::link::Link;
use self::refusals::Refusals;
use self::socket::NOTHING_LISTENS;
use super::thread::spawn;
use super::tls::ClusterTls;
use crate::data_link::{DataSeats, Socket};
use crate::random;

/// Kinds of links that are kept to each peer.
const KEPT: [LinkKind; 3] = [LinkKind::Control, LinkKind::Append, LinkKind::Bulk];

/// The text for a connection that isn't needed. It isn't a failure.
const STANDS: &str = "another connection between the two nodes stands";

/// Work that ends with the answer to a request.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Bytes, String>>>>;

/// The owner of the links. It is asked in the cluster's thread.
pub(crate) trait Service: 'static {
    /// The node's words about itself now. Versions, link and challenge are filled in by the links.
    fn hello(&self, link: LinkKind) -> Hello;
    /// Whether a node that has proven its cookie may have a link of the kind `hello.link`; the text is sent to it. Both sides ask.
    ///
    /// # Errors
    /// It may not.
    fn admit(&self, hello: &Hello) -> Result<(), String>;
    /// Answers a request. A text is sent to the other node as its refusal.
    fn request(self: Rc<Self>, from: Rc<Hello>, link: LinkKind, kind: u8, body: Bytes) -> Answering;
    /// Takes a notice.
    fn notice(&self, from: &Hello, kind: u8, body: Bytes);
    /// The cores that serve data links; `None` while the node starts.
    fn data_seats(&self) -> Option<Arc<dyn DataSeats>>;
    /// A link of this kind stands; `hello.link` is the kind. One that stood before has been replaced.
    fn link_up(&self, hello: &Hello);
    /// The link of this kind has ended.
    fn link_down(&self, hello: &Hello, reason: &str);
    /// The process of a member without a control link is known to have ended: nothing listens where it did.
    fn gone(&self, member: u16);
}

/// A node that links are kept to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its member number.
    pub member: u16,
    /// Its name.
    pub node_name: String,
    /// Hosts and ports of its listener for nodes, the best one first.
    pub addresses: Vec<String>,
}

/// The parts that links are made of.
pub(crate) struct LinksSetup {
    /// Listeners that nodes may connect to; non-blocking.
    pub listeners: Vec<TcpListener>,
    /// The cookie.
    pub cookie: Cookie,
    /// None without encryption.
    pub tls: Option<ClusterTls>,
    /// Counters for metrics.
    pub counters: Arc<LinkCounters>,
}

/// The reason why a node didn't answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// There is no answer from there, or it is no node's.
    #[error("{0}")]
    Unreachable(String),
    /// A node refuses the link or the request, or its cookie differs.
    #[error("{0}")]
    Refused(String),
}

/// A peer, and what was last said of it in the log.
struct Known {
    peer: Peer,
    /// The last failure to reach it.
    failure: Option<String>,
    /// Number of attempts in a row since the last link to which its machine has answered that nothing listens there.
    refusals: u32,
    dialers: Vec<AbortHandle>,
}

/// Such attempts after which its process is known to have ended: one may have met a restart of its listener.
const GONE_AFTER: u32 = 2;

struct Inner {
    service: Rc<dyn Service>,
    cookie: Cookie,
    tls: Option<ClusterTls>,
    counters: Arc<LinkCounters>,
    peers: RefCell<BTreeMap<u16, Known>>,
    up: RefCell<BTreeMap<(u16, LinkKind), Rc<Link>>>,
    data: RefCell<DataLinks>,
    /// Changes with each link that comes or goes.
    changes: watch::Sender<u64>,
    unproven: Unproven,
    refusals: Refusals,
    listeners: RefCell<Vec<AbortHandle>>,
}

/// The links of a node. Clones share them.
#[derive(Clone)]
pub(crate) struct Links(Rc<Inner>);

impl Links {
    /// Begins to accept, in the cluster's thread.
    ///
    /// # Errors
    /// A listener can't be used.
    pub(crate) fn start(setup: LinksSetup, service: Rc<dyn Service>) -> io::Result<Links> {
        let inner = Rc::new(Inner {
            service,
            cookie: setup.cookie,
            tls: setup.tls,
            counters: setup.counters,
            peers: RefCell::default(),
            up: RefCell::default(),
            data: RefCell::default(),
            changes: watch::Sender::new(0),
            unproven: Unproven::default(),
            refusals: Refusals::default(),
            listeners: RefCell::default(),
        });
        for listener in setup.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let task = spawn(accept::accept(inner.clone(), listener));
            inner.listeners.borrow_mut().push(task.abort_handle());
        }
        Ok(Links(inner))
    }

    /// Keeps links to these peers, and ends those to all others.
    pub(crate) fn set_peers(&self, peers: Vec<Peer>) {
        let inner = &self.0;
        let mut known = inner.peers.borrow_mut();
        let stays = |member: u16| peers.iter().any(|peer| peer.member == member);
        known.retain(|member, known| {
            if !stays(*member) {
                known.dialers.iter().for_each(AbortHandle::abort);
                inner.data.borrow_mut().end(*member);
            }
            stays(*member)
        });
        inner.counters.retain(stays);
        let gone: Vec<_> =
            inner.up.borrow().values().filter(|link| !link.member().is_some_and(stays)).cloned().collect();
        gone.iter().for_each(|link| link.close("it isn't a member any more"));
        for peer in peers {
            let member = peer.member;
            match known.get_mut(&member) {
                Some(known) => known.peer = peer,
                None => {
                    let dial = |kind| spawn(dial::keep(inner.clone(), member, kind)).abort_handle();
                    let mut dialers: Vec<_> = KEPT.map(dial).into();
                    let cores = inner.service.data_seats().map_or(0, |seats| seats.cores());
                    dialers
                        .extend((0..cores).map(|core| spawn(data::keep(inner.clone(), member, core)).abort_handle()));
                    known.insert(member, Known { peer, failure: None, refusals: 0, dialers });
                }
            }
        }
        drop(known);
        inner.changed();
    }

    /// Sends a request to a member, and waits for its answer.
    ///
    /// # Errors
    /// There is no link, it ended, the time ran out, or the member refused the request with this text.
    pub(crate) async fn call(
        &self,
        member: u16,
        link: LinkKind,
        kind: u8,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, String> {
        let link = self.0.link(member, link).ok_or_else(|| self.0.no_link(member))?;
        link.call(kind, body, within).await
    }

    /// Sends a notice to a member on its control link. Returns whether there is one, with room.
    pub(crate) fn tell(&self, member: u16, kind: u8, body: Bytes) -> bool {
        let link = self.0.link(member, LinkKind::Control);
        link.is_some_and(|link| link.push(PeerMessage::Notice { kind, body }).is_ok())
    }

    /// Asks whoever is at an address, member or not.
    ///
    /// # Errors
    /// No answer comes in time, or a node refuses.
    pub(crate) async fn ask(
        &self,
        address: &str,
        kind: u8,
        body: Bytes,
        within: Duration,
    ) -> Result<(Hello, Bytes), AskError> {
        let late = || AskError::Unreachable(format!("{address} didn't answer within {within:?}"));
        let asked = dial::ask(&self.0, address, kind, body, within);
        tokio::time::timeout(within, asked).await.unwrap_or_else(|_| Err(late()))
    }

    /// Whether a link of this kind to a member stands.
    #[cfg(test)]
    pub(crate) fn is_up(&self, member: u16, link: LinkKind) -> bool {
        self.0.link(member, link).is_some()
    }

    /// The HELLO of a member with a control link.
    pub(crate) fn hello_of(&self, member: u16) -> Option<Rc<Hello>> {
        self.0.link(member, LinkKind::Control).map(|link| link.hello.clone())
    }

    /// The last failure to reach a member, in words.
    pub(crate) fn failure(&self, member: u16) -> Option<String> {
        self.0.peers.borrow().get(&member)?.failure.clone()
    }

    /// Ends everything: no link is accepted or dialled any more.
    pub(crate) fn stop(&self, reason: &str) {
        let inner = &self.0;
        inner.listeners.take().iter().for_each(AbortHandle::abort);
        inner.unproven.end();
        inner.peers.take().values().flat_map(|known| &known.dialers).for_each(AbortHandle::abort);
        inner.data.borrow_mut().end_all();
        let up: Vec<_> = inner.up.borrow().values().cloned().collect();
        up.iter().for_each(|link| link.close(reason));
    }
}

impl Inner {
    fn link(&self, member: u16, kind: LinkKind) -> Option<Rc<Link>> {
        self.up.borrow().get(&(member, kind)).cloned()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// The text of a call to a member without a link.
    fn no_link(&self, member: u16) -> String {
        let peers = self.peers.borrow();
        match peers.get(&member) {
            Some(Known { failure: Some(failure), .. }) => failure.clone(),
            Some(Known { peer, .. }) => format!("there is no link to node {}", peer.node_name),
            None => format!("there is no member {member}"),
        }
    }

    /// This node's HELLO for a link.
    fn hello(&self, link: LinkKind) -> io::Result<Hello> {
        let mut challenge = [0; 32];
        random::fill(&mut challenge)?;
        let versions = leveret_peer::Versions::OWN;
        Ok(Hello { versions, link, challenge, ..self.service.hello(link) })
    }

    /// Whether a node may have a link that this side dialled, or accepted.
    fn admit(&self, hello: &Hello, link: LinkKind, is_dialled: bool) -> Result<(), String> {
        // An acceptor says HELLO before it knows what the link is for.
        let hello = &Hello { link, ..hello.clone() };
        self.service.admit(hello)?;
        let own = self.service.hello(link);
        match hello.member {
            _ if link == LinkKind::Ask => Ok(()),
            Some(member) if link == LinkKind::Data && own.member != Some(member) => data::admit(self, hello),
            None => Err(format!("node {} has no member number, so it can only ask", hello.node_name)),
            Some(member) if own.member == Some(member) => {
                Err(format!("both nodes, {} and {}, say that they are member {member}", own.node_name, hello.node_name))
            }
            Some(member) => match self.link(member, link) {
                Some(old) if !self.replaces(hello, is_dialled, &old) => Err(STANDS.to_owned()),
                _ => Ok(()),
            },
        }
    }

    /// Whether a new connection takes the place of the one that stands.
    fn replaces(&self, hello: &Hello, is_dialled: bool, old: &Link) -> bool {
        let start = |hello: &Hello| (hello.node_id, hello.boot, hello.start_nonce);
        let is_lower = self.service.hello(LinkKind::Control).member < hello.member;
        start(hello) != start(&old.hello) || is_dialled == old.is_dialled || is_dialled == is_lower
    }

    /// Takes a connection whose handshake is done as the link of its kind.
    fn adopt(
        self: &Rc<Self>,
        socket: Socket,
        verdict: Verdict,
        kind: LinkKind,
        is_dialled: bool,
    ) -> Result<(), String> {
        let Verdict { hello, version, rest } = verdict;
        // It is the link that both have agreed on, whoever said it.
        let hello = Rc::new(Hello { link: kind, ..hello });
        let member = hello.member.ok_or("it has no member number")?;
        let key = (member, kind);
        let old = self.link(member, kind);
        if let Some(old) = old {
            if !self.replaces(&hello, is_dialled, &old) {
                return Err(STANDS.to_owned());
            }
            old.close("another connection took its place");
        }
        debug!("{} link to node {}, version {version}", kind.name(), hello.node_name);
        if kind == LinkKind::Control {
            self.counters.of(member).set_addresses(socket.addresses());
        }
        let link = Link::new(hello.clone(), is_dialled, self.counters.clone());
        self.up.borrow_mut().insert(key, link.clone());
        if kind == LinkKind::Control
            && let Some(known) = self.peers.borrow_mut().get_mut(&member)
        {
            (known.failure, known.refusals) = (None, 0);
        }
        self.service.link_up(&hello);
        self.changed();
        let this = self.clone();
        spawn(async move {
            let reason = link.clone().run(socket, rest, this.service.clone()).await;
            let is_last = this.link(member, kind).is_some_and(|now| Rc::ptr_eq(&now, &link));
            if is_last {
                this.up.borrow_mut().remove(&key);
                this.lost(member, &hello, &reason);
                this.service.link_down(&hello, &reason);
                this.changed();
            }
        });
        Ok(())
    }

    fn lost(&self, member: u16, hello: &Hello, reason: &str) {
        let name = &hello.node_name;
        debug!("the {} link to node {name} ended: {reason}", hello.link.name());
        if hello.link != LinkKind::Control {
            return;
        }
        // A data link says no signs of life of its own.
        self.data.borrow_mut().end(member);
        if let Some(known) = self.peers.borrow_mut().get_mut(&member) {
            known.failure.get_or_insert_with(|| format!("the connection to node {name} ended: {reason}"));
        }
    }

    /// Notes why a member can't be reached, and says it if it is news.
    fn failed(&self, member: u16, text: String) {
        let mut peers = self.peers.borrow_mut();
        let Some(known) = peers.get_mut(&member) else { return };
        known.refusals = if text.ends_with(NOTHING_LISTENS) { known.refusals.saturating_add(1) } else { 0 };
        if known.refusals >= GONE_AFTER {
            self.service.gone(member);
        }
        if known.failure.as_ref() != Some(&text) {
            warn!("{text}");
            known.failure = Some(text);
        }
    }
}

#[cfg(test)]
mod tests;
