//! Links that we detach with an error.

use super::connection::Connection;
use super::error::Failure;
use super::leaving::FailedLink;
use super::link::Link;
use super::session::Session;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONSUMER;

impl Connection {
    /// Detaches a link with an error. Further frames for it are ignored until the client detaches it, too.
    pub(crate) fn fail_link(&mut self, session: &mut Session, handle: u32, failure: Failure, now: Now) {
        let what = format_args!("detaching link {handle} of session {}", session.channel());
        self.told().refused(what, failure.condition.as_str(), &failure.description);
        self.client.budget.spend(CONSUMER);
        let link = session.take(handle);
        session.put(handle, Box::new(Link::Detached));
        let failed = FailedLink { channel: session.channel(), handle, failure };
        if let Some(link) = link
            && let Some(link) = self.end_failed_link(session, &failed, link, now)
        {
            return self.endings.push_link(failed, link);
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
            && let Some((failed, link)) = self.endings.pop_link()
        {
            // Sessions end after their links.
            let Some(mut session) = self.sessions.take(failed.channel) else { continue };
            match self.end_failed_link(&mut session, &failed, link, now) {
                Some(link) => self.endings.put_link_back(failed, link),
                None => self.say_failed(&mut session, &failed, now),
            }
            self.sessions.put(session);
        }
        !self.endings.have_links()
    }

    /// Resumes the session's other consumers, for which the link may have left room.
    pub(super) fn resume_parked(&mut self, session: &mut Session, now: Now) {
        if session.parked() > 0 {
            self.continue_session(session, now);
        }
    }
}
