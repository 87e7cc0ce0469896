//! The half of a pair on which responses go out: in the order of the requests, as the client's credit allows.

use leveret_amqp10::condition;
use leveret_model::{Action, Refused};

use super::connection::Connection;
use super::error::{Failure, Result, Scope};
use super::link::Link;
use super::pairs::refusal::{Refusal, Status};
use super::pairs::request::Request;
use super::pairs::response::Response;
use super::pairs::{ResponseGrant, Waiting};
use super::pending::{Pending, Rest};
use super::publisher::Destination;
use super::session::Session;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitEnd;

impl Connection {
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
        if self.client.is_asking() {
            return;
        }
        let Some(mut waiting) = self.responses.pop_front() else { return };
        if let Some(message) = waiting.response.take_unserved()
            && let Ok(request) = Request::parse(&message)
        {
            waiting.response = self.respond(&request, &message, now);
            waiting.renews_token = std::mem::take(&mut self.renews_token);
            if waiting.response.is_unserved() {
                // The backend is asked now; the frame of the request isn't taken again, but the request is served again.
                let _is_asking = self.client.parks(now) || self.client.catches_up(now);
            } else {
                self.client.has_found();
            }
            waiting.response.notify(&self.client.outbox, waiting.key);
            self.end_question(&mut waiting);
        }
        self.responses.push_front(waiting);
    }

    /// Sends the responses whose changes became durable.
    pub(crate) fn answer_requests(&mut self, now: Now) {
        if self.responses.is_empty() {
            return;
        }
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
            let gone = std::mem::take(&mut waiting.gone);
            self.send_response(waiting, now);
            gone.into_iter().for_each(|key| self.queue_gone(key, now));
        }
        if let Some(text) = self.refused_token.filter(|_| self.responses.is_empty()) {
            self.refused_token = None;
            return self.fail(Failure::connection(condition::UNAUTHORIZED_ACCESS, text), now);
        }
        if renews_token {
            self.end_forbidden(now);
        }
    }

    fn send_response(&mut self, waiting: Waiting, now: Now) {
        let Some(&(channel, handle)) = self.links.get(&waiting.key) else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if !session.is_ending() {
            self.answer_request(&mut session, handle, waiting.response, now);
        }
        self.sessions.put(session);
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
            let delivery_id = session.next_delivery_id();
            session.use_delivery_id();
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

    /// Ends the sessions with links that the user's permissions don't allow any more, after a token was renewed.
    fn end_forbidden(&mut self, now: Now) {
        if let Some(refused) = self.client.no_longer_grants(Action::Enter) {
            return self.fail(Failure::from(refused).ending(Scope::Connection), now);
        }
        for channel in self.sessions.channels() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            let refused = session.links().find_map(|link| self.no_longer(link));
            if let Some(refused) = refused.filter(|_| !session.is_ending()) {
                self.fail_session(&mut session, Failure::from(refused).ending(Scope::Session), now);
            }
            self.sessions.put(session);
        }
    }

    /// The reason why a link wouldn't be attached now.
    fn no_longer(&self, link: &Link) -> Option<Refused> {
        let action = match link {
            Link::Consumer(consumer) => Action::Consume(&consumer.queue().info().name),
            Link::Replies(replies) => Action::Consume(replies.target().name()),
            Link::Publisher(publisher) => match publisher.destination() {
                Destination::Exchange { exchange, .. } => Action::Publish(exchange),
                Destination::Queue(_) => Action::Publish(""),
                // Each message is checked.
                Destination::Anonymous => return None,
            },
            _ => return None,
        };
        self.client.no_longer_grants(action)
    }
}
