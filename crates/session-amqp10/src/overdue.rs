//! Deliveries that a receiver leaves unsettled for too long: their queue takes them back, and the receiver is sent the outcome
//! `released`. Its link gets nothing more until it has settled them.

use leveret_amqp10::{DeliveryState, Performative, Role, Serial, encode_performative, performative::Disposition};
use leveret_queue::{Flow, Run, Taken};

use super::connection::Connection;
use super::link::Link;
use super::session::Session;
use super::settlements::Asked;
use super::unsettled::{Late, Settled};
use leveret_broker::log_lines::overdue::Overdue;
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::CONSUMER;
use leveret_broker::wait_for::WaitFor;

impl Connection {
    /// Takes back deliveries of a session that are unsettled for too long.
    pub(crate) fn take_back(&mut self, channel: u16, now: Now) {
        let Some(mut session) = self.sessions.take(channel) else { return };
        if !session.is_leaving() && !session.is_ending() {
            self.flush_settlements(now);
            let node_ms = self.client.broker.consumer_timeout_ms();
            let mut unsettled = std::mem::take(&mut session.unsettled);
            let timeout_of = |handle: u32| match session.look(handle)? {
                Link::Consumer(consumer) => Some(consumer.timeout()?.nanos(node_ms)),
                _ => None,
            };
            let (mut late, looks) = (Vec::new(), &mut self.client.looks);
            let budget = &mut self.client.budget;
            let taken_back = unsettled.look(timeout_of, now.monotonic, (channel, looks), &mut late, budget);
            session.unsettled = unsettled;
            late.iter().for_each(|late| self.warn_of(&mut session, late, now));
            for part in taken_back {
                self.client.budget.spend(CONSUMER);
                self.release_overdue(&mut session, part, now);
            }
        }
        self.sessions.put(session);
    }

    /// Returns messages to the queue of a link, and tells its receiver.
    fn release_overdue(&mut self, session: &mut Session, part: Settled, now: Now) {
        let unbegun = session.pending.take_unbegun(part.handle);
        let has_drained = session.pending.has_drained(part.handle);
        let sent: u64 = part.runs.iter().map(Run::count).sum();
        let count: u32 = unbegun.iter().map(|taken| taken.count).sum();
        self.log_overdue(session, part.handle, 0, Some(sent + u64::from(count)), now);
        let Some(Link::Consumer(consumer)) = session.link(part.handle) else { return };
        consumer.takes_back(sent);
        // The end of a drain, which its receiver will be told, has used up the credit for them.
        let unsent = (count > 0 && !has_drained).then(|| consumer.not_sent(count));
        let mut runs = part.runs;
        runs.extend(unbegun.iter().flat_map(Taken::runs));
        // As in RabbitMQ, a timeout doesn't count as a failed delivery.
        consumer.queue().take_back(consumer.id(), &runs, unsent, now.monotonic);
        if unsent.is_some() {
            let state = consumer.state(0);
            session.pending.correct_states(part.handle, state);
        }
        for (first, last) in part.ids {
            self.send_released(session.channel(), first, last);
        }
        self.wake_later(session);
    }

    /// The outcome of deliveries that the receiver has to settle.
    fn send_released(&mut self, channel: u16, first: Serial, last: Serial) {
        let released = Disposition {
            role: Role::Sender,
            first: first.0,
            last: (first != last).then_some(last.0),
            settled: false,
            state: Some(DeliveryState::Released),
            batchable: false,
        };
        encode_performative(self.client.output.buffer(), channel, &Performative::Disposition(released));
    }

    /// The receiver settled deliveries that were taken back. After the last one its link gets messages again. A receiver that `asks`
    /// gets the outcome that they had.
    pub(crate) fn settled_late(
        &mut self,
        session: &mut Session,
        handle: u32,
        ids: Vec<(Serial, Serial)>,
        asks: bool,
        now: Now,
    ) {
        let Some(Link::Consumer(consumer)) = session.link(handle) else { return };
        let count: u64 = ids.iter().map(|(first, last)| u64::from(last.since(*first)) + 1).sum();
        if consumer.settled_late(count) {
            consumer.queue().flow(consumer.id(), Flow::Overdue(false), now.monotonic);
        }
        if asks {
            let asked = Asked { channel: session.channel(), handle, ids, state: DeliveryState::Released };
            self.answer(&asked, &WaitFor::default());
        }
    }

    fn warn_of(&mut self, session: &mut Session, late: &Late, now: Now) {
        let Some(Link::Consumer(consumer)) = session.link(late.handle) else { return };
        if consumer.warns_of(late.sequence) {
            self.log_overdue(session, late.handle, late.age, None, now);
        }
    }

    /// Logs that a delivery of a link is late, or that `taken_back` ones were.
    fn log_overdue(&self, session: &mut Session, handle: u32, age: Nanos, taken_back: Option<u64>, now: Now) {
        let channel = session.channel();
        let Some(Link::Consumer(consumer)) = session.link(handle) else { return };
        let (terms, lines) = consumer.overdue_lines();
        let Some(timeout) = terms.timeout else { return };
        let overdue = Overdue {
            consumer: Some(&terms.name),
            queue: terms.queue.info(),
            channel,
            age,
            timeout,
            node_ms: self.client.broker.consumer_timeout_ms(),
        };
        match taken_back {
            None => overdue.warn(self.told(), lines, now.monotonic),
            Some(count) => overdue.timed_out(count, self.told(), lines, now.monotonic),
        }
    }
}
