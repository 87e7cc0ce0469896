//! A client of AMQP 1.0 in the workload: its requests and deliveries, and its handling of events.

use leveret_amqp10::{Role, Serial};
use leveret_strict_client::amqp10::{Event, Options, PeerError, State};

use super::operate::operate;
use super::session::{HeldDelivery, LinkEnd, Session, Stage, Wish, ids};
use super::{End, Heard, Received};
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Stamp};
use crate::link;
use crate::peer::{Holdings, examine, stopped_queue};
use crate::quiet::Shown;
use crate::tally::Tally;
use crate::world::World;

/// Largest number of links of a session.
const LINKS: u32 = 6;

/// A client of AMQP 1.0.
#[derive(Debug)]
pub struct Peer {
    /// Its link in the world.
    pub link: usize,
    pub(super) number: usize,
    pub(super) sessions: [Session; 2],
    names_given: u32,
}

/// The broker's disposition of deliveries from the first to the last one.
struct Said {
    channel: u16,
    first: Serial,
    last: Serial,
    state: Option<State>,
}

impl Peer {
    /// Connects a client.
    pub fn connect(number: usize, world: &mut World) -> Self {
        // The smallest possible size, one of several turns, and the usual one.
        let max_frame_size = [512, 4_096, 131_072][world.random.below(3) as usize];
        let options = Options { max_frame_size, ..Options::default() };
        Self {
            link: world.connect(link::End::Amqp10(Box::new(End::new(options)))),
            number,
            sessions: [0, 1].map(Session::new),
            names_given: 0,
        }
    }

    /// A handle for a new link, if there may be another one.
    pub(super) fn free_handle(&self, at: usize) -> Option<u32> {
        (0..LINKS).find(|handle| !self.sessions[at].links.contains_key(handle))
    }

    /// A new name for a link.
    pub(super) fn name(&mut self) -> String {
        self.names_given += 1;
        format!("link {}", self.names_given)
    }

    fn session(&mut self, channel: u16) -> &mut Session {
        &mut self.sessions[usize::from(channel)]
    }

    fn hear(&mut self, event: Event, ledger: &mut Ledger, tally: &mut Tally, at: Stamp) -> Result<(), Failure> {
        match event {
            // The body couldn't be read to its end, so the link is detached.
            Event::Aborted { .. } if ledger.has_failures() => tally.hit("deliveries aborted for a stopped queue"),
            Event::Begun { channel, .. } => {
                let session = self.session(channel);
                if session.stage == Stage::Coming {
                    session.stage = Stage::There;
                }
            }
            Event::Attached { channel, handle, .. } => {
                let link = self.session(channel).links.get_mut(&handle);
                if let Some(link) = link.filter(|link| link.stage == Stage::Coming) {
                    link.stage = Stage::There;
                }
            }
            Event::LinkFlow { channel, handle, active: Some(active), .. } => {
                let link = self.session(channel).links.get_mut(&handle);
                if let Some(LinkEnd::Receiver(receiver)) = link.map(|link| &mut link.end) {
                    receiver.active = Some(active);
                    tally.hit("receivers told whether they are active");
                }
            }
            Event::LinkFlow { channel, handle, drained: true, credit: 0, .. } => {
                let link = self.session(channel).links.get_mut(&handle);
                if let Some(LinkEnd::Receiver(receiver)) = link.map(|link| &mut link.end)
                    && std::mem::take(&mut receiver.drains)
                {
                    receiver.credit = 0;
                    tally.hit("links drained");
                }
            }
            Event::Disposition { channel, role: Role::Receiver, first, last, settled: true, state } => {
                self.outcome(&Said { channel, first, last, state }, ledger, tally, at)?;
            }
            Event::Disposition { channel, role: Role::Sender, first, last, settled: true, state } => {
                self.answer(&Said { channel, first, last, state }, ledger, tally, at)?;
            }
            Event::Detached { channel, handle, error, by_peer, .. } => {
                if by_peer {
                    expect_missing(error.as_ref(), ledger)?;
                    tally.hit("links detached by the broker");
                    self.session(channel).doubt_link(handle);
                }
                self.session(channel).lose_link(handle, ledger);
            }
            Event::Ended { channel, error: None, by_peer: false } => self.session(channel).lose(ledger),
            Event::Opened { .. }
            | Event::Mechanisms(_)
            | Event::SessionFlow { .. }
            | Event::LinkFlow { .. }
            | Event::Empty => {}
            other => {
                let detail = format!("peer {} heard {other:?}", self.number);
                return Err(Failure::new(Check::Protocol, detail));
            }
        }
        Ok(())
    }

    /// Handles the outcome of messages that it published.
    fn outcome(&mut self, said: &Said, ledger: &mut Ledger, tally: &mut Tally, at: Stamp) -> Result<(), Failure> {
        let (session, state) = (self.session(said.channel), said.state.as_ref());
        for id in ids(said.first, said.last) {
            if session.coordinated(id, state, ledger, tally, at)? {
                continue;
            }
            let Some((_, message)) = session.unconfirmed.remove(&id.0) else {
                return Err(Failure::new(
                    Check::Protocol,
                    format!("an outcome of delivery {id}, which nobody waits for"),
                ));
            };
            let (state, transacted) = match state {
                Some(State::Transactional { outcome, .. }) => (outcome.as_deref(), true),
                state => (state, false),
            };
            match state {
                // Nothing is promised before the discharge.
                Some(State::Accepted) if transacted => {}
                Some(State::Accepted) => {
                    tally.hit("messages accepted");
                    ledger.confirm(message, at);
                }
                Some(State::Released) => {
                    tally.hit("messages released as unroutable");
                    if let Some(transaction) = &mut session.transaction {
                        transaction.published.retain(|id| *id != message);
                    }
                    ledger.leaves_commit(message);
                    if !ledger.released(message, at) {
                        let detail = format!("message {message} was released, although a queue is there for it");
                        return Err(Failure::new(Check::NothingLost, detail));
                    }
                }
                Some(State::Rejected(_)) if ledger.may_be_refused(message) => {
                    tally.hit("messages refused by a stopped queue");
                    if let Some(transaction) = &mut session.transaction {
                        transaction.published.retain(|id| *id != message);
                    }
                    ledger.leaves_commit(message);
                }
                other => {
                    let detail = format!("message {message} got {other:?}, although no queue has a limit");
                    return Err(Failure::new(Check::Runs, detail));
                }
            }
        }
        Ok(())
    }

    /// Handles the broker's answer to an unsettled disposition.
    fn answer(&mut self, said: &Said, ledger: &mut Ledger, tally: &mut Tally, at: Stamp) -> Result<(), Failure> {
        let (session, state) = (self.session(said.channel), said.state.as_ref());
        for id in ids(said.first, said.last) {
            let Some((held, wish)) = session.asked.remove(&id.0) else {
                return Err(Failure::new(
                    Check::Protocol,
                    format!("an answer for delivery {id}, which nobody waits for"),
                ));
            };
            match (wish, state) {
                (Wish::Accept, Some(State::Accepted)) => tally.hit("acceptances answered"),
                (Wish::Reject, Some(State::Rejected(None) | State::Modified { undeliverable_here: true, .. })) => {
                    tally.hit("rejections answered");
                }
                (Wish::Delay(until_ms), Some(State::Modified { .. })) => {
                    ledger.delayed(&held.queue, held.message, until_ms);
                    continue;
                }
                (Wish::Return | Wish::Defer, Some(State::Released | State::Modified { .. })) => continue,
                (wish, state) => {
                    return Err(Failure::new(Check::Protocol, format!("{wish:?} was answered with {state:?}")));
                }
            }
            ledger.settled(&held.queue, held.message, at);
        }
        Ok(())
    }

    fn delivered(&mut self, received: Received, ledger: &mut Ledger, tally: &mut Tally) -> Result<(), Failure> {
        let session = self.session(received.channel);
        let Some(link) = session.links.get_mut(&received.handle) else {
            return Err(Failure::new(Check::Protocol, format!("a delivery to handle {}", received.handle)));
        };
        if link.stage == Stage::Going {
            // It was under way when the detach was sent, and by now another client may have it.
            return Ok(());
        }
        let LinkEnd::Receiver(receiver) = &mut link.end else {
            return Err(Failure::new(
                Check::Protocol,
                format!("a delivery to the sender with handle {}", received.handle),
            ));
        };
        receiver.credit = receiver.credit.saturating_sub(1);
        let queue = &receiver.queue;
        if receiver.active == Some(false) {
            let detail = format!("queue {queue}: a delivery to a receiver that isn't active");
            return Err(Failure::new(Check::SingleActive, detail));
        }
        let message = examine(&received.content, queue, ledger, tally)?;
        if let Some(filter) = receiver.filter {
            tally.hit("messages delivered to filters");
            if !filter.matches(message) {
                let known = &ledger.messages[message as usize];
                let detail = format!("queue {queue}: {known:?} was delivered to a receiver with {filter:?}");
                return Err(Failure::new(Check::Protocol, detail));
            }
        }
        tally.add("messages received in several transfers", (received.transfers > 1).into());
        if let Some(reader) = &mut receiver.reader {
            reader.delivered(queue, received.content.offset, message, ledger, tally)?;
        }
        let known = &ledger.messages[message as usize];
        if !received.content.redelivered
            && !ledger.is_disordered(queue)
            && known.targets[queue].origin.is_none()
            && !known.waits_in(queue)
            && let Some(before) = receiver.last.insert(known.publisher, message).filter(|before| *before > message)
        {
            let detail = format!("queue {queue}: message {message} was delivered after {before}");
            return Err(Failure::new(Check::Order, detail));
        }
        if received.settled {
            ledger.settle(queue, message, receiver.since);
        } else {
            let (id, handle) = (received.delivery_id, received.handle);
            session.held.push(HeldDelivery { id, handle, queue: queue.clone(), message });
        }
        Ok(())
    }

    /// Handles the end of the connection.
    pub(super) fn lose_all(&mut self, ledger: &mut Ledger) {
        self.sessions.iter_mut().for_each(|session| session.lose(ledger));
    }
}

/// Checks that the broker detaches a link only if its queue or exchange doesn't exist, or has stopped.
fn expect_missing(error: Option<&PeerError>, ledger: &Ledger) -> Result<(), Failure> {
    let description = error.map_or("", |error| &error.description);
    match error.map(|error| error.condition.as_str()) {
        Some("amqp:resource-deleted" | "amqp:not-found") => Ok(()),
        Some("amqp:illegal-state" | "amqp:internal-error")
            if stopped_queue(description).is_some_and(|queue| ledger.has_failed(queue)) =>
        {
            Ok(())
        }
        _ => Err(Failure::new(Check::Protocol, format!("a link was detached for {error:?}"))),
    }
}

/// Whether a transaction was refused because messages that it rejects can't be moved: their queue or the dead-letter
/// queue has stopped, so the rejection can't be confirmed.
fn is_unmovable(error: &PeerError) -> bool {
    error.description.contains("failed before a rejection of a transaction was on disk")
}

impl crate::peer::Peer for Peer {
    fn may_go_on(&self, world: &mut World) -> bool {
        world.links[self.link].amqp10().client.is_open() && self.sessions.iter().all(|session| session.open() < 40)
    }

    fn operate(&mut self, world: &mut World, ledger: &mut Ledger) -> usize {
        operate(self, world, ledger)
    }

    fn listen(&mut self, world: &mut World, ledger: &mut Ledger, at: Stamp) -> Result<(), Failure> {
        for heard in world.links[self.link].amqp10().heard() {
            world.tally.add("messages delivered", matches!(heard, Heard::Delivered(_)).into());
            match heard {
                Heard::Delivered(received) => self.delivered(received, ledger, &mut world.tally)?,
                Heard::Event(Event::Closed { error: Some(error), by_peer: true })
                    if is_unmovable(&error) && !world.failed.is_empty() =>
                {
                    world.tally.hit("connections closed for a stopped queue");
                    world.disconnect(self.link);
                    self.lose_all(ledger);
                    *self = Self::connect(self.number, world);
                    return Ok(());
                }
                Heard::Event(event) => self.hear(event, ledger, &mut world.tally, at)?,
            }
        }
        Ok(())
    }

    fn add_held(&self, held: &mut Holdings) {
        self.sessions.iter().for_each(|session| session.add_held(held));
    }

    fn rest(&self, world: &mut World, shown: &Shown, ledger: &Ledger) -> Result<(), Failure> {
        if !world.links[self.link].is_quiet() {
            return Err(Failure::new(Check::Answered, format!("peer {}: bytes are stuck", self.number)));
        }
        self.sessions.iter().try_for_each(|session| session.rest(self.link, world, shown, ledger))
    }
}
