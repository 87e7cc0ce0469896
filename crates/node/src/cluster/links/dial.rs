//! Connections to other nodes.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use leveret_peer::{Handshake, HandshakeError, Hello, LinkKind, Verdict};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

use super::link::Link;
use super::socket::{ShakeError, in_words, shake};
use super::{AskError, Inner, STANDS, spawn};
use crate::data_link::Socket;

/// Time between the beginnings of two attempts.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Time for a name to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);
/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Time for the handshakes.
const SHAKE: Duration = Duration::from_secs(5);

/// Keeps a link of this kind to a member.
pub(super) async fn keep(inner: Rc<Inner>, member: u16, kind: LinkKind) {
    let mut changes = inner.changes.subscribe();
    let mut last: Option<Instant> = None;
    loop {
        // The other kinds follow the control link, so that a node that can't be reached is dialled once a second and not three times.
        let is_due = || {
            let is_up = |kind| inner.link(member, kind).is_some();
            !is_up(kind) && (kind == LinkKind::Control || is_up(LinkKind::Control))
        };
        if !is_due() {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let is_higher = inner.service.hello(kind).member > Some(member);
        let turn = is_higher.then(Instant::now).max(last).map(|begin| begin + AGAIN_AFTER);
        if let Some(turn) = turn
            && wait(&mut changes, turn, || !is_due()).await
        {
            continue;
        }
        last = Some(Instant::now());
        let take = |socket, verdict| inner.adopt(socket, verdict, kind, true);
        match dial_member(&inner, member, kind, take).await {
            Ok(()) => {}
            Err(text) if kind == LinkKind::Control => inner.failed(member, text),
            Err(text) => debug!("{} link: {text}", kind.name()),
        }
    }
}

/// Waits until this is so, or for so long. Returns whether it is so.
pub(super) async fn wait(changes: &mut watch::Receiver<u64>, until: Instant, is_so: impl Fn() -> bool) -> bool {
    while !is_so() {
        if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
            return is_so();
        }
    }
    true
}

pub(super) async fn dial_member(
    inner: &Rc<Inner>,
    member: u16,
    kind: LinkKind,
    take: impl FnOnce(Socket, Verdict) -> Result<(), String>,
) -> Result<(), String> {
    let (name, addresses) = {
        let peers = inner.peers.borrow();
        let known = peers.get(&member).ok_or("it isn't a peer any more")?;
        (known.peer.node_name.clone(), known.peer.addresses.clone())
    };
    let decide = |hello: &Hello| match hello.member {
        Some(there) if there != member => Err(format!(
            "node {name} (member {member}) was expected here, and this is node {} (member {there})",
            hello.node_name
        )),
        _ => inner.admit(hello, kind, true),
    };
    let mut failure = format!("cannot reach node {name}: none of its addresses is known");
    for address in &addresses {
        inner.counters.dials.fetch_add(1, Ordering::Relaxed);
        let dialled = match dial(inner, address, kind, decide).await {
            Ok((socket, verdict)) => take(socket, verdict),
            Err(AskError::Refused(text)) if text == STANDS => Err(text),
            Err(error) => {
                inner.counters.dials_failed.fetch_add(1, Ordering::Relaxed);
                failure = format!("cannot reach node {name} at {address}: {error}");
                continue;
            }
        };
        return dialled.or_else(|text| if text == STANDS { Ok(()) } else { Err(text) });
    }
    Err(failure)
}

/// Asks a node, which needn't be a member.
pub(super) async fn ask(
    inner: &Rc<Inner>,
    address: &str,
    kind: u8,
    body: Bytes,
    within: Duration,
) -> Result<(Hello, Bytes), AskError> {
    let decide = |hello: &Hello| inner.admit(hello, LinkKind::Ask, true);
    let (socket, verdict) = dial(inner, address, LinkKind::Ask, decide).await?;
    let hello = Rc::new(Hello { link: LinkKind::Ask, ..verdict.hello });
    let link = Link::new(hello.clone(), true, inner.counters.clone());
    // The link ends with the question, however that ends.
    let _open = Open(link.clone());
    spawn(link.clone().run(socket, verdict.rest, inner.service.clone()));
    let answer = link.call(kind, body, within).await;
    answer.map(|answer| (Hello::clone(&hello), answer)).map_err(AskError::Refused)
}

struct Open(Rc<Link>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close("the question is over");
    }
}

/// Connects to an address and does the handshake.
async fn dial(
    inner: &Rc<Inner>,
    address: &str,
    kind: LinkKind,
    decide: impl Fn(&Hello) -> Result<(), String>,
) -> Result<(Socket, Verdict), AskError> {
    let resolved = tokio::time::timeout(RESOLVE, tokio::net::lookup_host(address)).await;
    let resolved =
        resolved.map_err(|_| AskError::Unreachable(format!("its name wasn't resolved within {RESOLVE:?}")))?;
    let resolved = resolved.map_err(|error| AskError::Unreachable(format!("its name can't be resolved: {error}")))?;
    let mut failure = AskError::Unreachable("its name has no address".to_owned());
    for address in resolved {
        match connect(inner, address, kind, &decide).await {
            Err(AskError::Unreachable(text)) => failure = AskError::Unreachable(text),
            other => return other,
        }
    }
    Err(failure)
}

async fn connect(
    inner: &Rc<Inner>,
    address: SocketAddr,
    kind: LinkKind,
    decide: impl Fn(&Hello) -> Result<(), String>,
) -> Result<(Socket, Verdict), AskError> {
    let unreachable = AskError::Unreachable;
    let stream = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| unreachable(format!("no connection within {CONNECT:?}")))?;
    let stream = stream.map_err(|error| unreachable(in_words(&error)))?;
    let shaken = tokio::time::timeout(SHAKE, greet(inner, stream, kind, decide)).await;
    shaken.unwrap_or_else(|_| Err(unreachable(format!("it didn't finish the handshake within {SHAKE:?}"))))
}

async fn greet(
    inner: &Rc<Inner>,
    stream: TcpStream,
    kind: LinkKind,
    decide: impl Fn(&Hello) -> Result<(), String>,
) -> Result<(Socket, Verdict), AskError> {
    let unreachable = |error: std::io::Error| AskError::Unreachable(in_words(&error));
    stream.set_nodelay(true).map_err(unreachable)?;
    let (mut socket, exporter): (Socket, Vec<u8>) = match &inner.tls {
        Some(tls) => {
            let (stream, exporter) = tls.connect(stream).await.map_err(AskError::Unreachable)?;
            (Box::new(stream), exporter.to_vec())
        }
        None => (Box::new(stream), Vec::new()),
    };
    let own = inner.hello(kind).map_err(unreachable)?;
    let mut handshake = Handshake::dialer(&own, &inner.cookie, &exporter);
    match shake(&mut socket, &mut handshake, decide).await {
        Ok(verdict) => Ok((socket, verdict)),
        Err(ShakeError::Io(error)) => Err(unreachable(error)),
        Err(ShakeError::Handshake(error)) => Err(match error {
            HandshakeError::Refused(text) | HandshakeError::RefusedHere(text) if text == STANDS => {
                AskError::Refused(text)
            }
            HandshakeError::Foreign(_) | HandshakeError::Closed(_) | HandshakeError::Malformed(_) => {
                AskError::Unreachable(error.to_string())
            }
            _ => AskError::Refused(error.to_string()),
        }),
    }
}
