//! Deliveries: messages that scheduled consumers take, encoded into the connection's output in transfers that fit the
//! client's frames and window (specification 2.6.14, 2.7.5).

use leveret_amqp10::performative::{Transfer, begin_delivery};
use leveret_amqp10::{FrameKind, begin_frame, end_frame};
use leveret_message::deliver::{Amqp10Run, Delivery};
use leveret_queue::{Flow, Portion, Taken, TurnEnd};

use super::connection::Connection;
use super::consumer::Consumer;
use super::error::Failure;
use super::large;
use super::link::Link;
use super::link_state::LinkState;
use super::pending::{Pending, Rest};
use super::session::Session;
use super::unsettled::Sent;
use super::waking::Waking;
use leveret_broker::bodies::{BodyReader, Pieces};
use leveret_broker::settings::{TAKE_BYTES_MAX, TURN_BYTES_MAX};
use leveret_broker::time::{Nanos, Now};
use leveret_broker::traffic::counted_as;
use leveret_broker::turn_budget::{CONSUMER, FILTER};

/// A message among those that were taken.
#[derive(Clone, Copy)]
struct TakenMessage<'t> {
    taken: &'t Taken,
    at: u32,
}

impl Connection {
    /// Serves scheduled consumers until the output holds one write's worth.
    pub(crate) fn serve_consumers(&mut self, now: Now) {
        let (links, sessions) = (&self.links, &mut self.sessions);
        let takes_more = self.client.tell_room(|key, has_room| {
            let Some(&(channel, handle)) = links.get(&key) else { return false };
            let Some(mut session) = sessions.take(channel) else { return false };
            let link = session.link(handle);
            let is_consumer = matches!(link, Some(Link::Consumer(_)));
            if let Some(Link::Consumer(consumer)) = link {
                consumer.queue().flow(consumer.id(), Flow::Room(has_room), now.monotonic);
            }
            sessions.put(session);
            is_consumer
        });
        if !takes_more {
            self.note_unfinished();
            return;
        }
        for channel in self.sessions.channels_with_work() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            if !session.pending.is_empty() {
                self.continue_session(&mut session, now);
            }
            self.sessions.put(session);
        }
        self.serve_scheduled(now);
        self.note_unfinished();
    }

    fn note_unfinished(&mut self) {
        let goes_on = |session: &Session| {
            let next = session.pending.front().filter(|_| session.window.room() > 0);
            next.is_some_and(|pending| !pending.waits_for_disk())
        };
        let unfinished = self.sessions.with_work().any(goes_on);
        self.unfinished = unfinished;
    }

    fn serve_scheduled(&mut self, now: Now) {
        while let Some(key) = self.client.next_scheduled() {
            if self.serve(key, now) == TurnEnd::More {
                self.client.turns.schedule(key);
            }
        }
    }

    fn serve(&mut self, key: u64, now: Now) -> TurnEnd {
        let Some(&(channel, handle)) = self.links.get(&key) else { return TurnEnd::Done };
        let Some(mut session) = self.sessions.take(channel) else { return TurnEnd::Done };
        if session.is_leaving() {
            self.sessions.put(session);
            return TurnEnd::Done;
        }
        let end = match session.take(handle) {
            Some(mut link) => {
                let (end, failure) = match &mut *link {
                    Link::Consumer(consumer) => self.serve_consumer(&mut session, handle, consumer, now),
                    _ => (TurnEnd::Done, None),
                };
                session.put(handle, link);
                if let Some(failure) = failure {
                    self.fail_link(&mut session, handle, failure, now);
                }
                end
            }
            None => TurnEnd::Done,
        };
        self.sessions.put(session);
        end
    }

    fn serve_consumer(
        &mut self,
        session: &mut Session,
        handle: u32,
        consumer: &mut Consumer,
        now: Now,
    ) -> (TurnEnd, Option<Failure>) {
        let mut room = if session.pending.is_empty() { session.window.room() } else { 0 };
        if !consumer.is_settled() {
            let max = self.client.account.unsettled_allowed(self.client.broker.settings.unsettled_max);
            room = room.min(session.unsettled.room(session.next_delivery_id(), max));
        }
        if room == 0 {
            session.park(handle);
            consumer.queue().flow(consumer.id(), Flow::Window(false), now.monotonic);
            return (TurnEnd::Done, None);
        }
        let most = room.min(self.client.broker.settings.max_queue_credit);
        let mut taken = std::mem::take(&mut self.client.taken);
        let end = consumer.queue().take(
            consumer.id(),
            Portion { messages: most, bytes: TAKE_BYTES_MAX },
            now.monotonic,
            &mut taken,
        );
        if consumer.terms().filters {
            self.client.budget.spend(FILTER);
        }
        if !taken.is_empty() && consumer.served() {
            self.send_link_state(session, LinkState::of_activity(handle, &consumer.state(0), true));
        }
        consumer.took(&taken);
        let mut failure = None;
        for run in taken.drain(..) {
            if failure.is_some() {
                // The link is about to be detached: these messages are returned untouched.
                session.pending.push_back(Pending::Run { handle, taken: run });
                continue;
            }
            failure = self.encode_run(session, handle, consumer, run, now);
        }
        self.client.taken = taken;
        session.unsettled.report(&mut self.client.account);
        (end, failure)
    }

    /// Encodes taken messages. Messages for which the window has no room wait. A failure detaches the link.
    fn encode_run(
        &mut self,
        session: &mut Session,
        handle: u32,
        consumer: &mut Consumer,
        taken: Taken,
        now: Now,
    ) -> Option<Failure> {
        let (mut encoded, mut failure) = (0, None);
        let before = session.unsettled.len();
        let delivery = Delivery {
            redelivered: taken.redelivered,
            delivery_count: taken.attempts.failed,
            acquired_count: taken.attempts.acquired,
            now_ms: now.wall_ms,
            sent_time: self.client.broker.settings.sent_time,
            stream_offset: consumer.queue().is_stream().then_some(taken.first),
        };
        let mut run = Amqp10Run::new(delivery);
        while encoded < taken.count {
            if !session.pending.is_empty() || session.window.room() == 0 {
                break;
            }
            let message = TakenMessage { taken: &taken, at: encoded };
            failure = self.encode_message(session, (handle, now.monotonic), consumer, message, &mut run);
            if failure.is_some() {
                break;
            }
            encoded += 1;
        }
        let messages = taken.part().first(encoded);
        self.client.trace_delivered(session.channel(), &consumer.queue().info().name, messages, &delivery, now);
        if encoded < taken.count {
            session.pending.push_back(Pending::Run { handle, taken: taken.rest(encoded) });
        }
        let added = session.unsettled.len() - before;
        let place = (session.channel(), self.client.broker.consumer_timeout_ms());
        consumer.sent(added, &mut session.unsettled, place, now.monotonic, &mut self.client.looks);
        let count = u64::from(encoded);
        self.client.counters.delivered_of(counted_as(consumer.queue().info()), consumer.is_settled()).add(count);
        if taken.redelivered {
            self.client.counters.redelivered_of(consumer.queue().is_quorum()).add(count);
        }
        failure
    }

    fn encode_message<'t>(
        &mut self,
        session: &mut Session,
        (handle, now): (u32, Nanos),
        consumer: &mut Consumer,
        TakenMessage { taken, at }: TakenMessage<'t>,
        run: &mut Amqp10Run<'t>,
    ) -> Option<Failure> {
        let message = taken.batch.message((taken.index + at) as usize);
        if let Some(file) = message.file {
            let reader =
                Pieces::new(file, &self.client.broker.bodies, consumer.queue().body_owner(), &self.client.outbox);
            let reader = BodyReader::Pieces(reader);
            // This is the last message that was taken.
            session.pending.push_back(Pending::Large { handle, taken: taken.rest(at), reader });
            return None;
        }
        let tag = consumer.next_tag();
        let delivery_id = session.next_delivery_id();
        let out = self.client.output.buffer();
        let before = out.len();
        let start = begin_delivery(out, session.channel(), handle, delivery_id.0, tag, consumer.is_settled());
        let payload = out.len();
        run.append(&message, out);
        let size = (out.len() - payload) as u64;
        if let Some(most) = consumer.refuses_size(size) {
            out.truncate(before);
            run.forget();
            return Some(Failure::link(
                leveret_amqp10::condition::MESSAGE_SIZE_EXCEEDED,
                format!("message size ({size} bytes) > maximum message size ({most} bytes)"),
            ));
        }
        consumer.use_tag();
        session.use_delivery_id();
        if !consumer.is_settled() {
            let number = taken.first + u64::from(at);
            let bytes = taken.batch.body_length((taken.index + at) as usize);
            let sent = Sent { id: delivery_id, handle, number, bytes, durable: taken.durable };
            session.unsettled.add(sent, now);
        }
        if out.len() - before <= self.opened.frame_max_out() as usize {
            end_frame(out, start);
            session.window.sent_transfer();
            return None;
        }
        let payload = out.split_off(payload);
        out.truncate(before);
        run.forget();
        let rest = Rest { handle, delivery_id, tag, settled: consumer.is_settled(), payload, sent: 0, body: None };
        session.pending.push_back(Pending::Rest(rest));
        // Only a body in a file can fail, so this can't.
        let _ = self.send_rest(session);
        None
    }

    /// Sends transfers of the first waiting delivery; true if it is complete.
    ///
    /// # Errors
    /// The rest of its body can't be read: the link has to be detached.
    pub(super) fn send_rest(&mut self, session: &mut Session) -> Result<bool, (u32, Failure)> {
        let Some(Pending::Rest(mut rest)) = session.pending.pop_front() else { return Ok(true) };
        while session.window.room() > 0 {
            let most = match &mut rest.body {
                None => self.opened.frame_max_out() as usize,
                Some((pieces, queue)) => {
                    pieces.look();
                    if let Some(reason) = pieces.failure() {
                        let failure = large::unreadable(queue, reason);
                        self.abort(session, &rest);
                        return Err((rest.handle, failure));
                    }
                    // A client may accept frames larger than the read-ahead.
                    (self.opened.frame_max_out() as usize).min(TURN_BYTES_MAX).min(pieces.piece_bytes())
                }
            };
            let first = rest.sent == 0;
            let mut transfer = Transfer { handle: rest.handle, more: true, ..Transfer::default() };
            if first {
                transfer.delivery_id = Some(rest.delivery_id.0);
                transfer.delivery_tag = Some(&rest.tag);
                transfer.message_format = Some(0);
                transfer.settled = Some(rest.settled);
            }
            let out = self.client.output.buffer();
            let before = out.len();
            let start = begin_frame(out, FrameKind::Amqp, session.channel());
            transfer.encode(out);
            let header = out.len() - before;
            // The flag `more` takes one byte whatever its value, so the header's size is right for both.
            let room = most.saturating_sub(header).max(1);
            let count = usize::try_from(rest.left()).unwrap_or(usize::MAX).min(room);
            if count > rest.available() {
                // Each transfer uses up one of the client's window: a transfer that isn't full is never sent.
                out.truncate(before);
                break;
            }
            if count as u64 == rest.left() {
                out.truncate(before);
                let start = begin_frame(out, FrameKind::Amqp, session.channel());
                transfer.more = false;
                transfer.encode(out);
                rest.append(count, out);
                end_frame(out, start);
                session.window.sent_transfer();
                self.response_sent(session, rest.handle);
                return Ok(true);
            }
            rest.append(count, out);
            end_frame(out, start);
            session.window.sent_transfer();
            if out.len() >= TURN_BYTES_MAX {
                break;
            }
        }
        session.pending.push_front(Pending::Rest(rest));
        Ok(false)
    }

    /// Sends messages that waited for the session's window, and lets its consumers take more.
    pub(crate) fn continue_session(&mut self, session: &mut Session, now: Now) {
        if session.is_leaving() {
            return;
        }
        while self.client.output.len() < TURN_BYTES_MAX {
            match session.pending.front() {
                None => break,
                Some(Pending::State(state)) => {
                    let state = *state;
                    session.pending.pop_front();
                    self.encode_link_state(session, state);
                }
                Some(_) if session.window.room() == 0 => return,
                Some(Pending::Large { .. }) => {
                    if !self.begin_large_delivery(session, now) {
                        return;
                    }
                }
                Some(Pending::Rest(_)) => match self.send_rest(session) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err((handle, failure)) => self.fail_link(session, handle, failure, now),
                },
                Some(Pending::Run { .. }) => self.continue_run(session, now),
            }
        }
        if !session.pending.is_empty() || session.window.room() == 0 {
            return;
        }
        let parked = session.parked();
        if parked == 0 {
            return;
        }
        let channel = session.channel();
        if let Some(waking) = self.waking.begin(channel, parked) {
            self.wake_parked(session, waking, now);
        }
    }

    /// Wakes some consumers that wait for the client's window, while there is room. The queues of woken consumers may
    /// be empty. If there still is room in the next turn, twice as many are woken then, and so on until each was.
    /// Waking all at once would let one frame of the client cost a scan of all consumers.
    fn wake_parked(&mut self, session: &mut Session, waking: Waking, now: Now) {
        let count = waking.count(session.parked());
        for handle in session.take_parked(count) {
            self.client.budget.spend(CONSUMER);
            if let Some(Link::Consumer(consumer)) = session.link(handle) {
                consumer.queue().flow(consumer.id(), Flow::Window(true), now.monotonic);
            }
        }
        self.waking.woken(waking, count, session.parked());
    }

    /// Messages that waited were taken back: the session's other consumers may have room in this turn or the next.
    pub(super) fn wake_later(&mut self, session: &Session) {
        if session.pending.is_empty() && session.window.room() > 0 {
            self.waking.later(session.channel(), session.parked());
        }
    }

    /// Continues to wake consumers of sessions where some are left.
    pub(super) fn wake_more(&mut self, now: Now) {
        if self.waking.is_empty() {
            return;
        }
        for waking in self.waking.take() {
            let Some(mut session) = self.sessions.take(waking.channel()) else { continue };
            if !session.is_leaving() && session.pending.is_empty() && session.window.room() > 0 {
                self.wake_parked(&mut session, waking, now);
            }
            self.sessions.put(session);
        }
    }

    /// Encodes messages that were taken before the window was full.
    fn continue_run(&mut self, session: &mut Session, now: Now) {
        let Some(Pending::Run { handle, taken }) = session.pending.pop_front() else { return };
        let Some(mut link) = session.take(handle) else { return };
        let waiting = std::mem::take(&mut session.pending);
        let failure = match &mut *link {
            Link::Consumer(consumer) => self.encode_run(session, handle, consumer, taken, now),
            _ => None,
        };
        session.put(handle, link);
        session.pending.append(waiting);
        if let Some(failure) = failure {
            self.fail_link(session, handle, failure, now);
        }
    }
}
