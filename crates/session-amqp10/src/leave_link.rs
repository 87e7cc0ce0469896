//! The end of one link with what it owns.

use leveret_log::Wait;
use leveret_queue::{Deliveries, Flow, Run};

use super::connection::Connection;
use super::consumer::Consumer;
use super::link::Link;
use super::pending::Pending;
use super::session::Session;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::quota::Kind;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::TurnBudget;
use leveret_session::gone::GoneAt;

impl Connection {
    /// Takes out a link's unsettled deliveries, as many as the turn may settle, and returns whether these were all. If
    /// not, they are requeued in place, and so are the messages that wait to be sent: the session's other links may continue
    /// before this one has ended, and find it detached.
    pub(super) fn take_unsettled(
        &mut self,
        session: &mut Session,
        handle: u32,
        link: &mut Link,
        now: Now,
    ) -> (Vec<Run>, bool) {
        let Link::Consumer(consumer) = link else { return (Vec::new(), true) };
        let (unsettled, is_done) = session.unsettled.settle_link(consumer.delivered_mut(), &mut self.client.budget);
        if is_done {
            return (unsettled, true);
        }
        requeue(consumer, take_unsent(session, handle, consumer), unsettled, now);
        // A message that it had begun to send is cut off: its receiver is told nothing more than the detach.
        self.links.remove(&consumer.key());
        self.questions.forget(session.channel(), handle);
        (Vec::new(), false)
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
        self.count_link_gone(session.channel(), &link);
        self.questions.forget(session.channel(), handle);
        self.forget_declaring(|link| link == (session.channel(), handle));
        let mut gone_at = GoneAt::default();
        match link {
            Link::Publisher(mut publisher) => {
                self.flush_run(session, handle, &mut publisher, now);
                self.publishing.forget(session.channel(), handle);
                self.confirm_session(session, now);
                session.forget_confirming(handle);
                self.links.remove(&publisher.key());
                if let super::publisher::Destination::Queue(queue) = publisher.destination() {
                    queue.unwatch(publisher.key());
                    if publisher.is_dynamic() {
                        gone_at = self.delete_queue(queue.info(), now);
                    }
                }
            }
            Link::Consumer(consumer) => {
                if !session.is_leaving() {
                    self.flush_settlements(now);
                    self.client.budget.spend(TurnBudget::of_looks(self.answers.len()));
                    self.answers.forget_link(session.channel(), handle);
                    self.transactions.forget_link(session.channel(), handle);
                }
                session.unsettled.report(&mut self.client.account);
                requeue(&consumer, take_unsent(session, handle, &consumer), unsettled, now);
                if !session.is_leaving() {
                    session.forget_parked(handle);
                }
                self.links.remove(&consumer.key());
                let left = consumer.queue().cancel(consumer.id(), now.monotonic);
                gone_at = match consumer.terms().dynamic {
                    true => self.delete_queue(consumer.queue().info(), now),
                    false => self.client.delete_if_unused(consumer.queue(), left, now),
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
                    let tag = consumer.terms().name.as_bytes();
                    self.client.consumer_closed(&ConsumerEvent { channel, tag, queue: &consumer.queue().info().name });
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
    let is_requeued = !consumer.is_settled() && !consumer.browses();
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
        consumer.queue().flow(consumer.id(), Flow::Room(false), now.monotonic);
    }
    // As RabbitMQ counts: in a quorum queue the end of a link alone isn't a failure of what its receiver left unsettled, while the end
    // of a session or connection is one. In a classic queue it is. Messages that weren't sent haven't failed.
    let is_failure = !consumer.queue().is_quorum();
    for (runs, failed) in [(unsent, false), (unsettled, is_failure)] {
        if !runs.is_empty() && !consumer.browses() {
            consumer.queue().settle(
                Deliveries::of(Some(consumer.id()), &runs),
                Settlement::Requeue { failed },
                Wait::Lazy,
                now.monotonic,
            );
        }
    }
}
