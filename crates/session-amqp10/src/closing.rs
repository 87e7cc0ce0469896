//! The end of links, sessions and the connection, from either side (specification 2.4.3, 2.5.5, 2.6.6).

use leveret_amqp10::{
    Error, Performative, encode_performative,
    performative::{Close, Detach, End},
};

use leveret_log::Wait;
use leveret_queue::{Deliveries, Flow, Run};

use super::connection::{Connection, Phase};
use super::consumer::Consumer;
use super::error::{Failure, Result, Scope};
use super::held::InputHold;
use super::leaving::FailedLink;
use super::link::Link;
use super::pending::Pending;
use super::rejection::with_error;
use super::session::Session;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::quota::Kind;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::{Nanos, Now, SECOND};
use leveret_broker::turn_budget::{CONSUMER, TurnBudget};
use leveret_session::gone::GoneAt;

/// How long a client may take to answer our `close`.
const CLOSE_TIMEOUT: Nanos = 5 * SECOND;

impl Connection {
    /// Ends the connection with an error.
    pub(crate) fn fail(&mut self, failure: Failure, now: Now) {
        if matches!(self.phase, Phase::Closing | Phase::Finished) {
            return;
        }
        debug_assert_eq!(failure.scope, Scope::Connection);
        self.told().failed(self.state(), &format!("{}: {}", failure.condition, failure.description));
        let has_left = self.leave(now);
        let cuts_open = self.phase == Phase::Open && self.client.broker.settings.strict_compat;
        if cuts_open || matches!(self.phase, Phase::SaslInit | Phase::Refused | Phase::Header) {
            // Before `open` no frame can carry the error. RabbitMQ 4.3 doesn't send a reason to refused clients either.
            self.phase = Phase::Finished;
            return;
        }
        if self.phase == Phase::Open {
            // A close needs an open before it (2.4.1).
            self.send_open();
        }
        self.phase = Phase::Closing;
        match has_left {
            true => self.close_with(&failure, now),
            false => self.close_due = Some(failure),
        }
    }

    /// Sends the reason of our close, after which nothing is sent.
    pub(super) fn close_with(&mut self, failure: &Failure, now: Now) {
        self.send_close(Some(failure));
        self.client.deadline = Some(now.monotonic + CLOSE_TIMEOUT);
    }

    pub(crate) fn send_close(&mut self, failure: Option<&Failure>) {
        self.send_end_of(0, failure, |error| Performative::Close(Close { error }));
    }

    pub(crate) fn send_end(&mut self, channel: u16, failure: Option<&Failure>) {
        self.send_end_of(channel, failure, |error| Performative::End(End { error }));
    }

    fn send_detach(&mut self, channel: u16, handle: u32, closed: bool, failure: Option<&Failure>) {
        self.send_end_of(channel, failure, |error| Performative::Detach(Detach { handle, closed, error }));
    }

    fn send_end_of(
        &mut self,
        channel: u16,
        failure: Option<&Failure>,
        performative: impl for<'e> Fn(Option<Error<'e>>) -> Performative<'e>,
    ) {
        match failure {
            None => encode_performative(self.client.output.buffer(), channel, &performative(None)),
            Some(failure) => {
                with_error(failure, |error| self.send_error(channel, error, |error| performative(Some(error))));
            }
        }
    }

    /// Ends a session with an error. Further frames for it are ignored until the client ends it, too.
    pub(crate) fn fail_session(&mut self, session: &mut Session, failure: Failure, now: Now) {
        let what = format_args!("ending session {}", session.channel);
        self.told().refused(what, failure.condition.as_str(), &failure.description);
        session.ending = true;
        match self.failed_links.is_empty() && self.leave_session(session, now) {
            true => self.send_end(session.channel, Some(&failure)),
            false => self.ended.push_back((session.channel, failure)),
        }
    }

    /// Ends a session at once that may not begin. Further frames for it are ignored until the client ends it, too.
    pub(crate) fn refuse_session(&mut self, session: &mut Session, failure: &Failure) {
        let what = format_args!("refusing session {}", session.channel);
        self.told().refused(what, failure.condition.as_str(), &failure.description);
        session.ending = true;
        // It owns nothing, and never counted as a session.
        session.left = true;
        self.send_end(session.channel, Some(failure));
    }

    /// Detaches a link with an error. Further frames for it are ignored until the client detaches it, too.
    pub(crate) fn fail_link(&mut self, session: &mut Session, handle: u32, failure: Failure, now: Now) {
        let what = format_args!("detaching link {handle} of session {}", session.channel);
        self.told().refused(what, failure.condition.as_str(), &failure.description);
        self.client.budget.spend(CONSUMER);
        let link = session.take(handle);
        session.put(handle, Box::new(Link::Detached));
        let failed = FailedLink { channel: session.channel, handle, failure };
        if let Some(link) = link
            && let Some(link) = self.end_failed_link(session, &failed, link, now)
        {
            return self.failed_links.push_back((failed, link));
        }
        self.say_failed(session, &failed, now);
    }

    /// Ends as much of a link that we detach as the turn may. Returns the part that is left, if any.
    fn end_failed_link(
        &mut self,
        session: &mut Session,
        failed: &FailedLink,
        mut link: Box<Link>,
        now: Now,
    ) -> Option<Box<Link>> {
        let (unsettled, is_done) = self.take_unsettled(session, failed.handle, &mut link, now);
        if !is_done {
            return Some(link);
        }
        self.leave_link(session, failed.handle, *link, unsettled, now);
        None
    }

    fn say_failed(&mut self, session: &mut Session, failed: &FailedLink, now: Now) {
        self.send_detach(failed.channel, failed.handle, true, Some(&failed.failure));
        self.resume_parked(session, now);
    }

    /// Continues to end links that we detach. True if all detaches were sent.
    pub(super) fn go_on_failing_links(&mut self, now: Now) -> bool {
        while !self.client.budget.is_spent()
            && let Some((failed, link)) = self.failed_links.pop_front()
        {
            // Sessions end after their links.
            let Some(mut session) = self.sessions.take(failed.channel) else { continue };
            match self.end_failed_link(&mut session, &failed, link, now) {
                Some(link) => self.failed_links.push_front((failed, link)),
                None => self.say_failed(&mut session, &failed, now),
            }
            self.sessions.put(session);
        }
        self.failed_links.is_empty()
    }

    /// Takes out a link's unsettled deliveries, as many as the turn may settle, and returns whether these were all. If
    /// not, they are requeued in place, and so are the messages that wait to be sent: the session's other links may continue
    /// before this one has ended, and find it detached.
    fn take_unsettled(&mut self, session: &mut Session, handle: u32, link: &mut Link, now: Now) -> (Vec<Run>, bool) {
        let Link::Consumer(consumer) = link else { return (Vec::new(), true) };
        let (unsettled, is_done) = session.unsettled.settle_link(&mut consumer.delivered, &mut self.client.budget);
        if is_done {
            return (unsettled, true);
        }
        requeue(consumer, take_unsent(session, handle, consumer), unsettled, now);
        // A message that it had begun to send is cut off: its receiver is told nothing more than the detach.
        self.links.remove(&consumer.key);
        self.questions.forget(session.channel, handle);
        (Vec::new(), false)
    }

    /// Resumes the session's other consumers, for which the link may have left room.
    fn resume_parked(&mut self, session: &mut Session, now: Now) {
        if !session.parked.is_empty() {
            self.continue_session(session, now);
        }
    }

    /// Handles the client's detach of a link. Closed or not, no state of it is kept, as in RabbitMQ.
    pub(crate) fn detached(&mut self, session: &mut Session, detach: &Detach<'_>, now: Now) -> Result<()> {
        let handle = detach.handle;
        let Some(mut link) = session.take(handle) else {
            return Err(Failure::session(
                leveret_amqp10::condition::UNATTACHED_HANDLE,
                format!("Unattached link handle: {handle}"),
            ));
        };
        if matches!(*link, Link::Detached) {
            return Ok(());
        }
        let (unsettled, is_done) = self.take_unsettled(session, handle, &mut link, now);
        if !is_done {
            // The frame is handled again in the next turn, which ends the rest.
            session.put(handle, link);
            self.held = InputHold::NextTurn;
            return Ok(());
        }
        if let Some(error) = detach.error.as_ref().filter(|_| !matches!(*link, Link::Left)) {
            let what = format_args!("the client detached link {handle} of session {}", session.channel);
            self.told().refused(what, error.condition.as_str(), error.description.unwrap_or_default());
        }
        let gone_at = self.leave_link(session, handle, *link, unsettled, now);
        if self.waits_for(gone_at) {
            session.put(handle, Box::new(Link::Left));
            return Ok(());
        }
        self.send_detach(session.channel, handle, detach.closed, None);
        self.resume_parked(session, now);
        Ok(())
    }

    /// Handles the end of a queue that a link consumes from or publishes to.
    pub(crate) fn queue_gone(&mut self, key: u64, now: Now) {
        let Some((channel, handle)) = self.links.get(&key).copied() else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if session.leaving {
            return self.sessions.put(session);
        }
        self.confirm_session(&mut session, now);
        // If the link was sending a message that couldn't be read, its client gets that as the reason.
        self.continue_session(&mut session, now);
        let is_detached = matches!(session.link(handle), Some(Link::Detached));
        if is_detached || !self.links.contains_key(&key) {
            return self.sessions.put(session);
        }
        let failure = Failure::link(
            leveret_amqp10::condition::RESOURCE_DELETED,
            "the queue was deleted or converted, or is stopped",
        );
        self.fail_link(&mut session, handle, failure, now);
        self.sessions.put(session);
    }

    /// Whether the answer to the frame at the head of the input has to wait until these queues are gone. The frame is
    /// handled again then.
    pub(crate) fn waits_for(&mut self, mut gone_at: GoneAt) -> bool {
        let ticket = gone_at.ticket();
        if ticket.is_some_and(|ticket| self.client.broker.streams.is_durable(ticket)) {
            self.client.broker.registry.publish();
            return false;
        }
        gone_at.notify(&self.client.outbox, 0);
        self.hold(ticket.unwrap_or_default());
        self.going = gone_at;
        true
    }

    /// Ends a link: its `unsettled` deliveries are requeued in place, messages that it received are handed on. Returns
    /// the time from which on the queue is gone that is deleted with it.
    pub(super) fn leave_link(
        &mut self,
        session: &mut Session,
        handle: u32,
        link: Link,
        unsettled: Vec<Run>,
        now: Now,
    ) -> GoneAt {
        self.count_link_gone(session.channel, &link);
        self.questions.forget(session.channel, handle);
        self.forget_declaring(|link| link == (session.channel, handle));
        let mut gone_at = GoneAt::default();
        match link {
            Link::Publisher(mut publisher) => {
                self.flush_run(session, handle, &mut publisher, now);
                self.collecting.retain(|other| *other != (session.channel, handle));
                self.confirm_session(session, now);
                session.confirming.retain(|other| *other != handle);
                self.links.remove(&publisher.key);
                if let super::publisher::Destination::Queue(queue) = &publisher.destination {
                    queue.unwatch(publisher.key);
                    if publisher.dynamic {
                        gone_at = self.delete_queue(queue.info(), now);
                    }
                }
            }
            Link::Consumer(consumer) => {
                if !session.leaving {
                    self.flush_settlements(now);
                    self.client.budget.spend(TurnBudget::of_looks(self.answers.len()));
                    self.answers.forget_link(session.channel, handle);
                    self.transactions.forget_link(session.channel, handle);
                }
                session.unsettled.report(&mut self.client.account);
                requeue(&consumer, take_unsent(session, handle, &consumer), unsettled, now);
                if !session.leaving {
                    session.parked.retain(|other| *other != handle);
                }
                self.links.remove(&consumer.key);
                let left = consumer.queue.cancel(consumer.id, now.monotonic);
                gone_at = match consumer.dynamic {
                    true => self.delete_queue(consumer.queue.info(), now),
                    false => self.client.delete_if_unused(&consumer.queue, left, now),
                };
            }
            Link::Coordinator(coordinator) => self.leave_coordinator(&coordinator, now),
            Link::Replies(replies) => {
                self.links.remove(&replies.target().key());
                session.pending.retain(|pending| !pending.is_for(handle));
            }
            Link::Requests(_) | Link::Left | Link::Detached => {}
            Link::Responses(responses) => self.leave_responses(session, handle, &responses),
        }
        gone_at
    }

    fn count_link_gone(&mut self, channel: u16, link: &Link) {
        match link {
            Link::Left | Link::Detached => {}
            Link::Consumer(_) | Link::Replies(_) | Link::Responses(_) => {
                self.client.account.give(Kind::Links, 1);
                self.client.account.give(Kind::Consumers, 1);
                if let Link::Consumer(consumer) = link {
                    let tag = consumer.name.as_bytes();
                    self.client.consumer_closed(&ConsumerEvent { channel, tag, queue: &consumer.queue.info().name });
                }
            }
            Link::Publisher(_) => {
                self.client.account.give(Kind::Links, 1);
                self.client.counters.publishers_closed.increment();
            }
            Link::Coordinator(_) | Link::Requests(_) => self.client.account.give(Kind::Links, 1),
        }
    }
}

/// Removes what waits to be sent on a link from its session. Returns the messages that have to be requeued.
fn take_unsent(session: &mut Session, handle: u32, consumer: &Consumer) -> Vec<Run> {
    let is_requeued = !consumer.settled && !consumer.browses;
    let runs = |pending| match pending {
        Pending::Run { taken, .. } | Pending::Large { taken, .. } if is_requeued => taken.runs(),
        _ => Vec::new(),
    };
    session.pending.take_link(handle).into_iter().flat_map(runs).collect()
}

/// Requeues the messages of a link that ends: `unsent` and `unsettled` ones.
fn requeue(consumer: &Consumer, unsent: Vec<Run>, unsettled: Vec<Run>, now: Now) {
    if !(unsent.is_empty() && unsettled.is_empty()) {
        // The consumer must not get the requeued messages again.
        consumer.queue.flow(consumer.id, Flow::Room(false), now.monotonic);
    }
    // As RabbitMQ counts: in a quorum queue the end of a link alone isn't a failure of what its receiver left unsettled, while the end
    // of a session or connection is one. In a classic queue it is. Messages that weren't sent haven't failed.
    let is_failure = !consumer.queue.is_quorum();
    for (runs, failed) in [(unsent, false), (unsettled, is_failure)] {
        if !runs.is_empty() && !consumer.browses {
            consumer.queue.settle(
                Deliveries::of(Some(consumer.id), &runs),
                Settlement::Requeue { failed },
                Wait::Lazy,
                now.monotonic,
            );
        }
    }
}
