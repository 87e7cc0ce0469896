//! A core of this node as a writer of a placement: it keeps publishes until they are committed, and sends them again to the next leader.
//!
//! A writer is a commit stream, whose places are the numbers of its publishes. So confirms and waits don't notice a change of the leader.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use leveret_message::{Batch, BatchPart};
use leveret_queue::{Place, PublishSlot, WaitReason};
use parking_lot::Mutex;

use super::placement::{Leading, PlacementHere};
use super::queue::PlacedQueue;
use crate::publish_origin::PublishOrigin;
use crate::published::{Acceptance, Audience, Fate, NotTaken, Published, RefusedPublish};
use crate::remote::Lane;
use crate::replicas::PlacedStream;
use crate::services::Services;
use crate::streams::{self, AnsweredCalls, AnsweredStream, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::Nanos;

/// Bytes of open publishes above which publishers wait.
const IN_FLIGHT_MAX: u64 = 16 << 20;
/// The same without a leader.
const LEADERLESS_MAX: u64 = 1 << 20;

/// A writer.
pub(crate) struct PlacedWriter {
    id: StreamId,
    /// See [`PublishOrigin::writer`].
    writer: u64,
    core: usize,
    placement: Weak<PlacementHere>,
    services: Arc<Services>,
    state: Mutex<State>,
    answered: AnsweredCalls,
    /// Bytes of messages in open publishes.
    in_flight: AtomicU64,
    /// Number of the last publish.
    count: AtomicU64,
}

#[derive(Default)]
struct State {
    epoch: u32,
    /// Where the publishes of this epoch are sent.
    to: Option<To>,
    /// Publishes that haven't ended, the oldest first.
    open: VecDeque<Open>,
    /// Number of those of them that are sent.
    sent: usize,
    /// Whether a notice of the next one's end was asked for.
    is_watching: bool,
    /// Whether the leader couldn't take them: they are sent again once it has changed, or at the next look.
    is_paused: bool,
    /// The latest time of a call.
    now: Nanos,
}

#[derive(Clone)]
enum To {
    Here(Arc<PlacedStream>),
    Lane(Arc<Lane>),
}

impl To {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Here(one), Self::Here(other)) => Arc::ptr_eq(one, other),
            (Self::Lane(one), Self::Lane(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

struct Open {
    number: u64,
    queue: Arc<PlacedQueue>,
    batch: Arc<Batch>,
    index: u32,
    count: u32,
    persistent: bool,
    audience: Audience,
    bytes: u64,
    fate: Weak<Fate>,
    /// Its place where it was sent, and what is known of its outcome.
    sent: Option<(Awaited, Sent)>,
}

enum Sent {
    Here { accepted: u32, is_gone: bool },
    Away(Acceptance),
}

/// How a publish has ended.
enum End {
    Not,
    Taken,
    NotTaken(NotTaken),
    /// It has to be sent again.
    Again,
}

impl PlacedWriter {
    pub(super) fn new(core: usize, placement: &Arc<PlacementHere>, services: &Arc<Services>) -> Arc<Self> {
        let of_core = u64::from(services.member.0) << 48 | (core as u64 & 0xffff) << 32;
        Arc::new(Self {
            id: services.lanes.stream_id(),
            writer: of_core | u64::from(services.process),
            core,
            placement: Arc::downgrade(placement),
            services: services.clone(),
            state: Mutex::default(),
            answered: AnsweredCalls::default(),
            in_flight: AtomicU64::new(0),
            count: AtomicU64::new(0),
        })
    }

    /// Offers messages to a queue.
    pub(super) fn publish(
        self: &Arc<Self>,
        queue: &Arc<PlacedQueue>,
        part: BatchPart<'_>,
        persistent: bool,
        audience: Audience,
        now: Nanos,
    ) -> Published {
        let bytes = part.indexes().map(|at| u64::from(part.batch.body_length(at as usize))).sum();
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
        let fate = Arc::new(Fate::default());
        let (number, hints) = {
            let mut state = self.state.lock();
            let number = self.count.load(Ordering::Relaxed) + 1;
            self.count.store(number, Ordering::Release);
            let (queue, batch, fate) = (queue.clone(), part.batch.clone(), Arc::downgrade(&fate));
            let (index, count) = (part.index, part.count);
            state.open.push_back(Open {
                number,
                queue,
                batch,
                index,
                count,
                persistent,
                audience,
                bytes,
                fate,
                sent: None,
            });
            (number, self.send(&mut state, now))
        };
        self.watch();
        let (is_behind, slot) = hints;
        let awaited = Awaited::durable(Ticket::new(self.id, Place::new(number)));
        Published { acceptance: Acceptance::Later(fate), awaited, is_behind, is_gone: false, slot }
    }

    /// Sends what isn't sent. Returns what the queue says of the last one: see [`Published`].
    fn send(&self, state: &mut State, now: Nanos) -> (bool, PublishSlot) {
        let mut hints = (false, PublishSlot::default());
        let now = now.max(state.now);
        state.now = now;
        while state.sent < state.open.len() && !state.is_paused {
            let is_first = state.to.is_none();
            if is_first {
                let Some(to) = self.target() else { return hints };
                state.to = Some(to);
                state.epoch += 1;
            }
            let (epoch, heard) = (state.epoch, state.open[0].number);
            let Some(to) = &state.to else { return hints };
            let open = &mut state.open[state.sent];
            let origin = PublishOrigin { writer: self.writer, number: open.number, epoch, is_first, heard };
            let part = BatchPart::of(&open.batch, open.index, open.count);
            let sent = match to {
                To::Here(stream) => open
                    .queue
                    .publish_here(stream, origin, (part, open.persistent, open.audience), now)
                    .map(|published| {
                        hints = (published.is_behind, published.slot);
                        let sent = Sent::Here { accepted: published.accepted, is_gone: published.is_gone };
                        (published.awaited, sent)
                    }),
                To::Lane(lane) => {
                    let published = lane.publish(open.queue.info().id, part, open.persistent, None, Some(origin));
                    published.map(|published| (published.awaited, Sent::Away(published.acceptance)))
                }
            };
            match sent {
                Some(sent) => open.sent = Some(sent),
                None => {
                    // The leadership, or the link, has ended: it is sent again to the next one, now or when there is one.
                    let ended = state.to.take();
                    state.begin_again();
                    if ended.is_none_or(|ended| self.target().is_none_or(|target| target.is_same(&ended))) {
                        return hints;
                    }
                    continue;
                }
            }
            state.sent += 1;
        }
        hints
    }

    fn target(&self) -> Option<To> {
        match &**self.placement.upgrade()?.leading_now() {
            Leading::Here(stream) => Some(To::Here(stream.clone())),
            Leading::There(member, _) => self.services.lanes.of_core(*member, self.core).map(To::Lane),
            Leading::Nobody => None,
        }
    }

    /// Looks which publishes have ended, and sends again what has to be. A caller without a time of its own says 0.
    pub(super) fn renew(self: &Arc<Self>, now: Nanos) {
        let (mut done, mut bytes) = (None, 0);
        {
            let mut state = self.state.lock();
            while let Some(front) = state.open.front() {
                let end = self.end(front);
                if let End::Not = end {
                    break;
                }
                if let End::Again = end {
                    let to = state.to.take();
                    state.begin_again();
                    // It would be refused again, as fast as the link is.
                    let is_same = |target: To| to.is_some_and(|to| target.is_same(&to));
                    state.is_paused = self.target().is_some_and(is_same);
                    break;
                }
                let Some(front) = state.open.pop_front() else { break };
                state.sent -= 1;
                bytes += front.bytes;
                done = Some(front.number);
                if let (End::NotTaken(what), Some(fate)) = (end, front.fate.upgrade()) {
                    fate.tell(what);
                }
            }
            self.send(&mut state, now);
        }
        self.services.streams.announce();
        self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(number) = done {
            self.answered.advance(Place::new(number));
            self.answered.wake();
        }
        self.watch();
    }

    /// Sends what a leader couldn't take. Called now and then.
    pub(super) fn go_on(self: &Arc<Self>, now: Nanos) {
        if std::mem::take(&mut self.state.lock().is_paused) {
            self.renew(now);
        }
    }

    /// The leader has changed: who is held back looks again.
    pub(super) fn leader_changed(self: &Arc<Self>, now: Nanos) {
        self.state.lock().is_paused = false;
        self.renew(now);
        self.answered.wake_all();
    }

    fn end(&self, open: &Open) -> End {
        let Some((awaited, sent)) = &open.sent else { return End::Not };
        if !awaited.is_nothing() {
            match self.services.streams.reached(awaited.stream()) {
                None => return End::Again,
                Some(reached) if !awaited.is_reached(reached) => return End::Not,
                Some(_) => {}
            }
        }
        match sent {
            Sent::Here { is_gone: true, .. } => End::NotTaken(NotTaken::Gone),
            Sent::Here { accepted, .. } | Sent::Away(Acceptance::Known(accepted)) if *accepted < open.count => {
                let (accepted, queue) = (*accepted, open.queue.info().name.clone());
                let refused = RefusedPublish { accepted, queue, reason: open.queue.refusal_reason() };
                End::NotTaken(NotTaken::Refused(refused.into()))
            }
            Sent::Away(Acceptance::Later(fate)) => match fate.told() {
                Some(NotTaken::Lost) => End::Again,
                Some(what) => End::NotTaken(what.clone()),
                None => End::Taken,
            },
            _ => End::Taken,
        }
    }

    /// Asks for a notice of the end of the oldest publish on a lane. A leader of this node tells of all.
    fn watch(self: &Arc<Self>) {
        let awaited = {
            let mut state = self.state.lock();
            let awaited = match (&state.to, state.open.front()) {
                (Some(To::Lane(_)), Some(Open { sent: Some((awaited, _)), .. })) if !state.is_watching => *awaited,
                _ => return,
            };
            state.is_watching = true;
            awaited
        };
        let writer = Arc::downgrade(self);
        let notice = Box::new(move || {
            if let Some(writer) = writer.upgrade() {
                writer.state.lock().is_watching = false;
                writer.renew(0);
            }
        });
        self.services.streams.notify(awaited, Waiter::Call(notice));
    }

    /// The ticket of the last publish.
    pub(super) fn last(&self) -> Ticket {
        Ticket::new(self.id, self.appended())
    }
}

impl State {
    fn begin_again(&mut self) {
        self.to = None;
        self.sent = 0;
        self.open.iter_mut().for_each(|open| open.sent = None);
    }
}

impl AnsweredStream for PlacedWriter {
    fn id(&self) -> StreamId {
        self.id
    }

    fn has_room(&self) -> bool {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        match self.target() {
            Some(To::Here(stream)) => in_flight < IN_FLIGHT_MAX && streams::CommitStream::has_room(&*stream),
            Some(To::Lane(lane)) => in_flight < IN_FLIGHT_MAX && lane.writer().has_room(),
            None => in_flight < LEADERLESS_MAX,
        }
    }

    fn takes_publishers(&self) -> bool {
        self.has_room() && !matches!(self.target(), Some(To::Lane(lane)) if !lane.writer().takes_publishers())
    }

    fn calls(&self) -> &AnsweredCalls {
        &self.answered
    }

    fn appended(&self) -> Place {
        Place::new(self.count.load(Ordering::Acquire))
    }

    fn give_up(&self) {
        self.services.streams.local().give_up();
    }

    fn publish_wait(&self) -> WaitReason {
        match self.target() {
            Some(To::Here(stream)) => streams::CommitStream::publish_wait(&*stream),
            Some(To::Lane(_)) => WaitReason::Link,
            None => WaitReason::NoQuorum,
        }
    }
}
