//! Errors that end a session or the connection, detaches of the client, and queues that are gone (specification 2.4.3, 2.5.5, 2.6.6).

use leveret_amqp10::performative::Detach;

use super::connection::{Connection, Phase};
use super::error::{Failure, Result, Scope};
use super::held::InputHold;
use super::link::Link;
use super::pairs::{Changing, Waiting};
use super::session::Session;
use leveret_broker::time::Now;

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
            false => self.endings.close_at_end(failure),
        }
    }

    /// Ends a session with an error. Further frames for it are ignored until the client ends it, too.
    pub(crate) fn fail_session(&mut self, session: &mut Session, failure: Failure, now: Now) {
        let what = format_args!("ending session {}", session.channel());
        self.told().refused(what, failure.condition.as_str(), &failure.description);
        session.end();
        match !self.endings.have_links() && self.leave_session(session, now) {
            true => self.send_end(session.channel(), Some(&failure)),
            false => self.endings.push_session(session.channel(), failure),
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
            let what = format_args!("the client detached link {handle} of session {}", session.channel());
            self.told().refused(what, error.condition.as_str(), error.description.unwrap_or_default());
        }
        let gone_at = self.leave_link(session, handle, *link, unsettled, now);
        if self.waits_for(gone_at) {
            session.put(handle, Box::new(Link::Left));
            return Ok(());
        }
        self.send_detach(session.channel(), handle, detach.closed, None);
        self.resume_parked(session, now);
        Ok(())
    }

    /// Handles the end of a queue that a link consumes from or publishes to.
    pub(crate) fn queue_gone(&mut self, key: u64, now: Now) {
        // A client that deletes a queue hears of the deletion first, on whichever node the queue was. Clients take the end of a link that
        // comes before for a failure.
        let deletes = |waiting: &&mut Waiting| matches!(waiting.response.asked(), Some((Changing::DeleteQueue, _)));
        if let Some(waiting) = self.responses.iter_mut().find(deletes) {
            return waiting.gone.push(key);
        }
        let Some((channel, handle)) = self.links.get(&key).copied() else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if session.is_leaving() {
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
}
