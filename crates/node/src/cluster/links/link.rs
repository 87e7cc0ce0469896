//! A link: requests and answers over one connection.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use leveret_peer::{Assembler, Hello, LinkKind, Outgoing, PeerMessage, decode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, yield_now};

use super::counters::{LinkCounters, Standing};
use super::socket::in_words;
use super::{Service, spawn};
use crate::data_link::Socket;

/// Bytes that are read at once, if there are so many.
const READ_BYTES: usize = 64 << 10;
/// Bytes from which on no more parts are gathered for a write.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes after which a link lets the others go on.
const TURN_BYTES: usize = 256 << 10;
/// Buffers above this are given back when there is nothing more to write.
const BUFFER_BYTES_KEPT: usize = 128 << 10;
/// Bytes by which bodies stay below what the other side takes.
const MARGIN: usize = 1 << 20;
/// Requests of the other node that wait for their answers, at most.
const REQUESTS_MAX: usize = 16 << 10;

/// Interval of signs of life, and number of intervals without any after which the other side is given up.
fn patience(kind: LinkKind) -> (Duration, u32) {
    match kind {
        LinkKind::Control => (Duration::from_millis(500), 4),
        LinkKind::Append => (Duration::from_secs(1), 3),
        LinkKind::Bulk | LinkKind::Data | LinkKind::Ask => (Duration::from_secs(5), 4),
    }
}

/// A connection to another node.
pub(super) struct Link {
    pub hello: Rc<Hello>,
    /// Whether this side dialled.
    pub is_dialled: bool,
    standing: Standing,
    outgoing: RefCell<Outgoing>,
    wake: Notify,
    calls: RefCell<BTreeMap<u64, oneshot::Sender<Result<Bytes, String>>>>,
    next: Cell<u64>,
    /// Requests of the other node that wait for their answers.
    asked: Cell<usize>,
    ended: RefCell<Option<String>>,
    end: Notify,
    /// Intervals in which nothing came.
    silent: Cell<u32>,
    /// Whether something was sent in this interval.
    has_sent: Cell<bool>,
}

/// A call that is forgotten with its future.
struct Call<'a>(&'a Link, u64);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.borrow_mut().remove(&self.1);
    }
}

/// A task that ends with its owner.
struct Ends(JoinHandle<String>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    pub(super) fn new(hello: Rc<Hello>, is_dialled: bool, counters: Arc<LinkCounters>) -> Rc<Link> {
        let standing = Standing::new(hello.link, counters, hello.member.filter(|_| hello.link != LinkKind::Ask));
        Rc::new(Link {
            hello,
            is_dialled,
            standing,
            outgoing: RefCell::default(),
            wake: Notify::new(),
            calls: RefCell::default(),
            next: Cell::new(1),
            asked: Cell::new(0),
            ended: RefCell::default(),
            end: Notify::new(),
            silent: Cell::new(0),
            has_sent: Cell::new(false),
        })
    }

    pub(super) fn member(&self) -> Option<u16> {
        self.hello.member
    }

    fn kind(&self) -> LinkKind {
        self.hello.link
    }

    /// Adds a message to those that wait.
    ///
    /// # Errors
    /// The link has ended, or too much waits.
    pub(super) fn push(&self, message: PeerMessage) -> Result<(), String> {
        if let Some(reason) = &*self.ended.borrow() {
            return Err(format!("the link to node {} has ended: {reason}", self.hello.node_name));
        }
        let bytes = match &message {
            PeerMessage::Request { body, .. }
            | PeerMessage::Notice { body, .. }
            | PeerMessage::Answer { body: Ok(body), .. } => body.len(),
            _ => 0,
        };
        let mut outgoing = self.outgoing.borrow_mut();
        let max = self.kind().bodies_bytes_max() - MARGIN;
        if bytes > 0 && outgoing.bytes() + bytes > max {
            return Err(format!(
                "{bytes} bytes don't fit on the {} link to node {}: with those that wait, it takes {max}",
                self.kind().name(),
                self.hello.node_name
            ));
        }
        outgoing.push(message);
        self.wake.notify_one();
        Ok(())
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// The link ended, the time ran out, or the request was refused.
    pub(super) async fn call(&self, kind: u8, body: Bytes, within: Duration) -> Result<Bytes, String> {
        let id = self.next.get();
        self.next.set(id + 1);
        let (sender, answer) = oneshot::channel();
        self.push(PeerMessage::Request { id, kind, body })?;
        self.calls.borrow_mut().insert(id, sender);
        let _call = Call(self, id);
        let ended = || {
            let reason = self.ended.borrow().clone().unwrap_or_default();
            Err(format!("the link to node {} ended: {reason}", self.hello.node_name))
        };
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => ended(),
            Err(_) => Err(format!("node {} didn't answer within {within:?}", self.hello.node_name)),
        }
    }

    /// Ends the link.
    pub(super) fn close(&self, reason: &str) {
        self.ended.borrow_mut().get_or_insert_with(|| reason.to_owned());
        self.end.notify_one();
    }

    /// Carries messages until the link ends. Returns the reason.
    ///
    /// Reading, writing and signs of life are tasks of their own: the runtime lets a task do only so much in a row, and one that always has
    /// something to read would never come to write.
    pub(super) async fn run(self: Rc<Self>, socket: Socket, rest: Vec<u8>, service: Rc<dyn Service>) -> String {
        let (reading, writing) = tokio::io::split(socket);
        let mut writer = Ends(spawn(self.clone().write(writing)));
        let mut beat = Ends(spawn(self.clone().beat()));
        let reason = tokio::select! {
            biased;
            () = self.end.notified() => String::new(),
            reason = self.read(reading, rest, &service) => reason,
            reason = &mut writer.0 => reason.unwrap_or_default(),
            reason = &mut beat.0 => reason.unwrap_or_default(),
        };
        let reason = self.ended.borrow_mut().get_or_insert(reason).clone();
        // Their callers learn it.
        let calls = self.calls.take();
        drop(calls);
        reason
    }

    async fn read(self: &Rc<Self>, mut from: ReadHalf<Socket>, rest: Vec<u8>, service: &Rc<dyn Service>) -> String {
        let mut input = BytesMut::from(&rest[..]);
        let mut assembler = Assembler::new(self.kind().bodies_bytes_max());
        self.standing.received(rest.len());
        let mut turn = 0;
        loop {
            loop {
                let (message, length) = match decode(&input) {
                    Ok(None) => break,
                    Ok(Some((part, length))) => (assembler.take(part), length),
                    Err(error) => return error.to_string(),
                };
                input.advance(length);
                match message {
                    Ok(Some(message)) => self.take(message, service),
                    Ok(None) => {}
                    Err(error) => return error.to_string(),
                }
            }
            input.reserve(READ_BYTES);
            let count = match from.read_buf(&mut input).await {
                Ok(0) => return "the other node closed it".to_owned(),
                Ok(count) => count,
                Err(error) => return in_words(&error),
            };
            self.standing.received(count);
            self.silent.set(0);
            turn += count;
            if turn >= TURN_BYTES {
                turn = 0;
                yield_now().await;
            }
        }
    }

    fn take(self: &Rc<Self>, message: PeerMessage, service: &Rc<dyn Service>) {
        match message {
            PeerMessage::Ping => {}
            PeerMessage::Notice { kind, body } => service.notice(&self.hello, kind, body),
            PeerMessage::Answer { id, body } => {
                // The caller may have given up.
                if let Some(call) = self.calls.borrow_mut().remove(&id) {
                    let _ = call.send(body);
                }
            }
            PeerMessage::Request { id, .. } if self.asked.get() >= REQUESTS_MAX => {
                self.answer(id, Err(format!("{REQUESTS_MAX} requests wait for their answers")));
            }
            PeerMessage::Request { id, kind, body } => {
                self.asked.set(self.asked.get() + 1);
                let answer = service.clone().request(self.hello.clone(), self.kind(), kind, body);
                let this = self.clone();
                spawn(async move {
                    let answer = answer.await;
                    this.asked.set(this.asked.get() - 1);
                    this.answer(id, answer);
                });
            }
        }
    }

    fn answer(&self, id: u64, body: Result<Bytes, String>) {
        if let Err(reason) = self.push(PeerMessage::Answer { id, body }) {
            // It is too long, or the link has ended.
            let _ = self.push(PeerMessage::Answer { id, body: Err(reason) });
        }
    }

    async fn write(self: Rc<Self>, mut to: WriteHalf<Socket>) -> String {
        let (mut buffer, mut turn) = (Vec::new(), 0);
        loop {
            buffer.clear();
            while buffer.len() < WRITE_BYTES && self.outgoing.borrow_mut().next(&mut buffer) {}
            if buffer.is_empty() {
                buffer.shrink_to(BUFFER_BYTES_KEPT);
                self.wake.notified().await;
                continue;
            }
            let written = async {
                to.write_all(&buffer).await?;
                to.flush().await
            };
            if let Err(error) = written.await {
                return in_words(&error);
            }
            self.standing.sent(buffer.len());
            self.has_sent.set(true);
            turn += buffer.len();
            if turn >= TURN_BYTES {
                turn = 0;
                yield_now().await;
            }
        }
    }

    /// Gives signs of life, and watches for those of the other side. Intervals are counted rather than time: a node that stood still
    /// itself doesn't give up the others for it.
    async fn beat(self: Rc<Self>) -> String {
        let (interval, silent_max) = patience(self.kind());
        loop {
            tokio::time::sleep(interval).await;
            if !self.has_sent.replace(false) {
                self.outgoing.borrow_mut().push(PeerMessage::Ping);
                self.wake.notify_one();
            }
            self.silent.set(self.silent.get() + 1);
            if self.silent.get() >= silent_max {
                return format!("nothing was heard of it for {:?}", interval * silent_max);
            }
        }
    }
}
