//! The half of a pair on which responses go out: in the order of the requests, as the client's credit allows.

use leveret_amqp10::{Role, condition};

use crate::connection::Connection;
use crate::error::{Failure, Result, Scope};
use crate::link::Link;
use crate::pairs::PairName;
use crate::pairs::refusal::{Refusal, Status};
use crate::pairs::request::Request;
use crate::pairs::response::Response;
use crate::pairs::{Requests, ResponseGrant, Responses, UNANSWERED_MAX, Waiting};
use crate::pending::{Pending, Rest};
use crate::session::Session;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitEnd;

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
        let waiting = self.responses.iter().filter(|waiting| waiting.key == responses.key).count();
        match waiting + responses.unsent() + on_their_way {
            unanswered if unanswered < UNANSWERED_MAX => Ok(()),
            unanswered => Err(Failure::link(
                condition::PRECONDITION_FAILED,
                format!("{unanswered} responses of this management link pair wait: grant credit for them first"),
            )),
        }
    }

    /// Takes over the answers that requests asked for.
    pub(crate) fn take_request_answers(&mut self, now: Now) {
        let mut responses = std::mem::take(&mut self.responses);
        for waiting in responses.iter_mut().filter(|waiting| waiting.asks.is_some()) {
            self.take_change_of(waiting, now);
            self.end_question(waiting);
        }
        self.responses = responses;
    }

    /// Goes on with a request whose change was made or refused. It may ask a queue then.
    fn take_change_of(&mut self, waiting: &mut Waiting, now: Now) {
        let Some((changing, answer)) = waiting.response.asked() else { return };
        let Some(outcome) = self.client.take_change(answer, now) else { return };
        let result = self.changed(changing, outcome, now);
        if let Err(refusal) = &result {
            self.tell_failed(format_args!("{changing:?}"), refusal);
        }
        waiting.response.be(result);
        waiting.response.notify(&self.client.outbox, waiting.key);
    }

    /// The link of a request that is answered takes the next one.
    fn end_question(&mut self, waiting: &mut Waiting) {
        if waiting.response.is_answered()
            && let Some((channel, handle)) = waiting.asks.take()
        {
            self.questions.forget_request(channel, handle);
        }
    }

    /// Serves the request that waits for all before it, if there is none left.
    fn serve_next(&mut self, now: Now) {
        let Some(mut waiting) = self.responses.pop_front() else { return };
        if let Some(message) = waiting.response.take_unserved()
            && let Ok(request) = Request::parse(&message)
        {
            waiting.response = self.respond(&request, now);
            waiting.response.notify(&self.client.outbox, waiting.key);
            self.end_question(&mut waiting);
        }
        self.responses.push_front(waiting);
    }

    /// Sends the responses whose changes became durable.
    pub(crate) fn answer_requests(&mut self, now: Now) {
        let streams = self.client.broker.streams.clone();
        let mut renews_token = false;
        loop {
            self.serve_next(now);
            let Some(end) = self.responses.front().and_then(|waiting| waiting.end(&streams)) else { break };
            let Some(mut waiting) = self.responses.pop_front() else { break };
            if !end.is_reached() {
                waiting.response.be(Err(Refusal::Answer(Status::InternalServerError, WaitEnd::GONE_TEXT.to_owned())));
            }
            if !waiting.response.wait.is_nothing() {
                // For each one: the log goes on meanwhile, so the change of the next one may have become durable only now.
                self.client.broker.registry.publish();
            }
            renews_token |= waiting.renews_token;
            let Some(&(channel, handle)) = self.links.get(&waiting.key) else { continue };
            let Some(mut session) = self.sessions.take(channel) else { continue };
            if !session.ending {
                self.answer_request(&mut session, handle, waiting.response, now);
            }
            self.sessions.put(session);
        }
        if renews_token {
            self.end_forbidden(now);
        }
    }

    fn answer_request(&mut self, session: &mut Session, handle: u32, response: Response, now: Now) {
        let message = match response.into_message() {
            Ok(message) => message,
            Err(refused) => {
                let failure = Failure::from(refused).ending(Scope::Session);
                return self.fail_session(session, failure, now);
            }
        };
        let Some(Link::Responses(responses)) = session.link(handle) else { return };
        responses.push(message);
        if let Err(failure) = self.send_responses(session, handle, now) {
            self.fail_link(session, handle, failure, now);
        }
    }

    /// Handles a flow of the client for the response half.
    pub(crate) fn grant_responses(
        &mut self,
        session: &mut Session,
        handle: u32,
        grant: ResponseGrant,
        now: Now,
    ) -> Result<()> {
        let Some(Link::Responses(responses)) = session.link(handle) else { return Ok(()) };
        responses.set_credit(grant.seen, grant.credit);
        self.send_responses(session, handle, now)?;
        let Some(Link::Responses(responses)) = session.link(handle) else { return Ok(()) };
        if grant.drain {
            responses.drain();
        }
        if grant.drain || grant.echo {
            let state = responses.state(handle, grant.drain);
            self.send_link_state(session, state);
        }
        Ok(())
    }

    /// Hands as many responses as the credit allows to the session's window.
    fn send_responses(&mut self, session: &mut Session, handle: u32, now: Now) -> Result<()> {
        let mut taken = false;
        while let Some(Link::Responses(responses)) = session.link(handle)
            && let Some((payload, tag)) = responses.next()?
        {
            let delivery_id = session.next_delivery_id;
            session.next_delivery_id.advance();
            session.pending.push_back(Pending::Rest(Rest {
                handle,
                delivery_id,
                tag,
                settled: true,
                payload,
                sent: 0,
                body: None,
            }));
            taken = true;
        }
        if taken {
            self.continue_session(session, now);
        }
        Ok(())
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
        self.links.remove(&responses.key);
        session.pending.retain(|pending| !pending.is_for(handle));
        self.with_requests(session, responses.pair(), Requests::forget_unanswered);
    }

    fn with_requests(&mut self, session: &mut Session, pair: &PairName, call: impl FnOnce(&mut Requests)) {
        let Some(handle) = session.half(pair, Role::Sender) else { return };
        let Some(Link::Requests(requests)) = session.link(handle) else { return };
        call(requests);
        if requests.flow_due {
            session.granted.push(handle);
        }
    }
}
