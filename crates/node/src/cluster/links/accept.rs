//! Connections of other nodes, and of strangers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leveret_peer::{Handshake, HandshakeError, LinkKind, PREAMBLE, describe, refusal};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use super::link::Link;
use super::socket::{ShakeError, farewell, in_words, shake};
use super::{Inner, STANDS, spawn};
use crate::data_link::Socket;

/// Time in which a connection has to prove that it has the cookie.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that haven't proven it yet; beyond them the oldest one is closed.
const UNPROVEN_MAX: usize = 256;
/// Pause after the system gave no connection, for example for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The first byte of a handshake of TLS.
const TLS: u8 = 0x16;

/// The connections that haven't proven that they have the cookie, the oldest first.
#[derive(Default)]
pub(super) struct Unproven {
    tasks: RefCell<VecDeque<(u64, AbortHandle)>>,
    next: Cell<u64>,
}

impl Unproven {
    fn add(&self, id: u64, task: AbortHandle) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push_back((id, task));
        if tasks.len() > UNPROVEN_MAX
            && let Some((_, oldest)) = tasks.pop_front()
        {
            oldest.abort();
        }
    }

    fn remove(&self, id: u64) {
        self.tasks.borrow_mut().retain(|(known, _)| *known != id);
    }

    pub(super) fn end(&self) {
        self.tasks.take().iter().for_each(|(_, task)| task.abort());
    }
}

/// Accepts connections for ever.
pub(super) async fn accept(inner: Rc<Inner>, listener: TcpListener) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("cannot accept a connection of a node: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let id = inner.unproven.next.get();
        inner.unproven.next.set(id + 1);
        let this = inner.clone();
        let task = spawn(async move {
            let served = tokio::time::timeout(PATIENCE, welcome(&this, stream, from)).await;
            this.unproven.remove(id);
            let refused = served.unwrap_or_else(|_| {
                Err(Some(format!("it didn't prove within {PATIENCE:?} that it has the Erlang cookie")))
            });
            if let Err(reason) = refused {
                this.counters.refused.fetch_add(1, Ordering::Relaxed);
                match reason {
                    Some(reason) => {
                        this.refusals.note(from.ip(), format!("a connection from {} was refused: {reason}", from.ip()));
                    }
                    None => debug!("a connection from {from} was closed without a word"),
                }
            }
        });
        inner.unproven.add(id, task.abort_handle());
    }
}

/// Does the handshake. `Err` has the reason why it was refused, if there is something to be said.
async fn welcome(inner: &Rc<Inner>, stream: TcpStream, from: SocketAddr) -> Result<(), Option<String>> {
    stream.set_nodelay(true).map_err(|error| Some(in_words(&error)))?;
    let mut begin = [0; PREAMBLE.len()];
    let count = stream.peek(&mut begin).await.map_err(|error| Some(in_words(&error)))?;
    let begin = &begin[..count];
    if begin.is_empty() {
        // A probe of the port.
        return Err(None);
    }
    let is_tls = begin[0] == TLS;
    let (mut socket, exporter): (Socket, Vec<u8>) = match &inner.tls {
        Some(tls) if is_tls => {
            let (stream, exporter) = tls.accept(stream).await.map_err(Some)?;
            (Box::new(stream), exporter.to_vec())
        }
        Some(_) => {
            let is_node = PREAMBLE.starts_with(begin);
            let text = "it doesn't speak TLS; set cluster.tls to the same value on all nodes".to_owned();
            let text = if is_node { text } else { describe(begin) };
            if is_node {
                let told = "this node speaks TLS with other nodes; set cluster.tls to the same value on all nodes";
                farewell(&mut (Box::new(stream) as Socket), &refusal(told)).await;
            }
            return Err(Some(text));
        }
        None if is_tls => {
            // Its side finds bytes that aren't TLS, and says so.
            let mut socket: Socket = Box::new(stream);
            farewell(&mut socket, &refusal("")).await;
            return Err(Some(describe(begin)));
        }
        None => (Box::new(stream), Vec::new()),
    };
    let own = inner.hello(LinkKind::Control).map_err(|error| Some(in_words(&error)))?;
    let mut handshake = Handshake::acceptor(&own, &inner.cookie, &exporter);
    let decide = |hello: &leveret_peer::Hello| inner.admit(hello, hello.link, false);
    let verdict = match shake(&mut socket, &mut handshake, decide).await {
        Ok(verdict) => verdict,
        Err(error) => return Err(reason(&handshake, error)),
    };
    let kind = verdict.hello.link;
    if kind == LinkKind::Data {
        return inner.seat(socket, verdict).map_err(Some);
    }
    if kind != LinkKind::Ask {
        return inner.adopt(socket, verdict, kind, false).map_err(|reason| Some(reason).filter(|text| text != STANDS));
    }
    debug!("node {} at {from} asks", verdict.hello.node_name);
    let link = Link::new(Rc::new(verdict.hello), false, inner.counters.clone());
    spawn(link.run(socket, verdict.rest, inner.service.clone()));
    Ok(())
}

/// The reason why a handshake failed, with the name that the node says it has.
fn reason(handshake: &Handshake, error: ShakeError) -> Option<String> {
    let text = match error {
        ShakeError::Handshake(HandshakeError::RefusedHere(text) | HandshakeError::Refused(text)) if text == STANDS => {
            return None;
        }
        ShakeError::Handshake(error) => error.to_string(),
        ShakeError::Io(error) => in_words(&error),
    };
    Some(match (handshake.proven(), handshake.claimed_name()) {
        (Some(hello), _) => format!("node {}: {text}", hello.node_name),
        (None, Some(name)) => format!("a node that says it is {name}: {text}"),
        (None, None) => text,
    })
}
