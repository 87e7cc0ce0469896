//! The end of a session or the connection with everything that it owns, in parts: see [`leveret_broker::turn_budget`].
//!
//! Until the last part is done, no input is read and nothing is delivered, so that neither the client nor a queue sees
//! it half done. A client's `end` or `close` stays at the head of the input until then.

use leveret_log::Wait;
use leveret_model::QueueId;
use leveret_queue::Deliveries;

use super::connection::Connection;
use super::leaving::Leaving;
use super::link::Link;
use super::session::Session;
use leveret_broker::quota::Kind;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONSUMER;

impl Connection {
    /// Ends as much of what a session owns as the turn may. True if nothing is left; then [`Connection::gone_at`] has
    /// the time from which on its queues are gone.
    pub(crate) fn leave_session(&mut self, session: &mut Session, now: Now) -> bool {
        if session.has_left() {
            return true;
        }
        if session.begin_leaving() {
            self.flush_settlements(now);
            self.forget_declaring(|(channel, _)| channel == session.channel());
            self.forget_attaching(|(channel, _)| channel == session.channel(), now);
            session.unsettled.watch_no_more(session.channel(), &mut self.client.looks);
        }
        let has_left = self.leave_session_part(session, now);
        // No frame may follow on its channel after `end`, and the channel may get another session. The end of a
        // coordinator answers the settlements of its transactions.
        self.answers.forget_session(session.channel());
        self.transactions.forget_channel(session.channel());
        has_left
    }

    fn leave_session_part(&mut self, session: &mut Session, now: Now) -> bool {
        let (settled, is_done) = session.unsettled.settle_oldest(&mut self.client.budget);
        for part in settled {
            if let Some(Link::Consumer(consumer)) = session.link(part.handle)
                && !consumer.browses()
                && !part.runs.is_empty()
            {
                consumer.queue().settle(
                    Deliveries::of(Some(consumer.id()), &part.runs),
                    Settlement::Requeue { failed: true },
                    Wait::Lazy,
                    now.monotonic,
                );
            }
        }
        if !is_done {
            return false;
        }
        while !self.client.budget.is_spent() {
            let Some((handle, link)) = session.pop() else {
                session.pending.clear();
                session.set_left();
                self.client.account.give(Kind::Channels, 1);
                self.client.channel_closed(session.channel(), 0);
                return true;
            };
            self.client.budget.spend(2 * CONSUMER);
            let gone_at = self.leave_link(session, handle, *link, Vec::new(), now);
            self.gone_at.and(gone_at);
        }
        false
    }

    /// Ends as much of what the connection owns as the turn may. True if nothing is left; then [`Connection::gone_at`]
    /// has the time from which on its queues are gone.
    pub(crate) fn leave(&mut self, now: Now) -> bool {
        self.flush_runs(now);
        self.endings.begin_to_leave();
        if !(self.go_on_fanning_out(now) && self.go_on_committing(now) && self.go_on_failing_links(now)) {
            return false;
        }
        self.flush_settlements(now);
        while let Leaving::Sessions { next } = self.endings.leaving() {
            if self.client.budget.is_spent() {
                return false;
            }
            self.client.budget.spend(CONSUMER);
            let Some(slot) = self.sessions.slot(next) else {
                self.begin_end_of_queues(now);
                break;
            };
            if let Some(mut session) = slot.take()
                && !self.leave_session(&mut session, now)
            {
                self.sessions.put(session);
                return false;
            }
            self.endings.left_session(next);
        }
        while !self.client.budget.is_spent() {
            let Leaving::Queues { mut next } = self.endings.leaving() else { break };
            let Some(gone_at) = self.client.delete_exclusive_queues(&mut next, now) else {
                self.client.left();
                self.endings.have_left();
                return true;
            };
            self.endings.queues_are_left(next);
            self.gone_at.and(gone_at);
        }
        false
    }

    /// Begins with the exclusive queues, after the last session.
    fn begin_end_of_queues(&mut self, now: Now) {
        self.client.turns.clear();
        self.answers = Default::default();
        self.end_requests(now);
        self.endings.queues_are_left(QueueId(0));
    }

    /// Continues to end links, sessions and the connection, in the order in which we began.
    pub(super) fn go_on_ending(&mut self, now: Now) {
        if !(self.go_on_fanning_out(now) && self.go_on_committing(now) && self.go_on_failing_links(now)) {
            return;
        }
        while !self.client.budget.is_spent()
            && let Some((channel, failure)) = self.endings.pop_session()
        {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            let has_left = self.leave_session(&mut session, now);
            self.sessions.put(session);
            if !has_left {
                self.endings.put_session_back(channel, failure);
                return;
            }
            self.send_end(channel, Some(&failure));
        }
        if self.endings.leaving().is_under_way()
            && !self.client.budget.is_spent()
            && self.leave(now)
            && let Some(failure) = self.endings.take_close()
            && !self.client.is_gone()
        {
            self.close_with(&failure, now);
        }
    }
}
