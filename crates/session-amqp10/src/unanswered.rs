//! Requests whose responses aren't sent yet.

use leveret_amqp10::{Role, condition};

use super::connection::Connection;
use super::error::{Failure, Result};
use super::link::Link;
use super::pairs::{PairName, Requests, Responses, UNANSWERED_MAX};
use super::session::Session;
use leveret_broker::ticket::Awaited;

impl Connection {
    /// The position that the first response waits for.
    pub(crate) fn next_response_awaited(&self) -> Option<Awaited> {
        let streams = &self.client.broker.streams;
        self.responses.front()?.response.wait.next_awaited(&|stream| streams.reached(stream))
    }

    /// Whether a request that removes messages or a binding isn't answered.
    pub(crate) fn is_removing(&self) -> bool {
        self.responses.iter().any(|waiting| waiting.removes)
    }

    /// Refuses a new request half if too many responses wait. A new half brings credit, while responses to an earlier
    /// one may still wait for the client's credit; more than one half's worth is refused.
    pub(super) fn check_unanswered(&self, session: &mut Session, pair: &PairName) -> Result<()> {
        let Some(handle) = session.half(pair, Role::Receiver) else { return Ok(()) };
        let on_their_way = session.pending.count(handle);
        let Some(Link::Responses(responses)) = session.link(handle) else { return Ok(()) };
        let waiting = self.responses.iter().filter(|waiting| waiting.key == responses.key()).count();
        match waiting + responses.unsent() + on_their_way {
            unanswered if unanswered < UNANSWERED_MAX => Ok(()),
            unanswered => Err(Failure::link(
                condition::PRECONDITION_FAILED,
                format!("{unanswered} responses of this management link pair wait: grant credit for them first"),
            )),
        }
    }

    /// Handles the end of a message of several transfers. If it was a response, another request may come: a response
    /// that waits for the client's window or socket doesn't count as sent yet.
    pub(crate) fn response_sent(&mut self, session: &mut Session, handle: u32) {
        let Some(Link::Responses(responses)) = session.link(handle) else { return };
        let pair = responses.pair().clone();
        self.with_requests(session, &pair, |requests| requests.answered(1));
    }

    /// Handles the end of the response half.
    pub(crate) fn leave_responses(&mut self, session: &mut Session, handle: u32, responses: &Responses) {
        self.links.remove(&responses.key());
        session.pending.retain(|pending| !pending.is_for(handle));
        self.with_requests(session, responses.pair(), Requests::forget_unanswered);
    }

    fn with_requests(&mut self, session: &mut Session, pair: &PairName, call: impl FnOnce(&mut Requests)) {
        let Some(handle) = session.half(pair, Role::Sender) else { return };
        let Some(Link::Requests(requests)) = session.link(handle) else { return };
        call(requests);
        if requests.is_flow_due() {
            session.note_granted(handle);
        }
    }
}
