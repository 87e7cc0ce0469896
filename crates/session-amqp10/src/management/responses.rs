//! The half of a pair on which responses go out: in the order of the requests, as the client's credit allows.

use std::collections::VecDeque;

use leveret_amqp10::{Role, Serial, condition};

use super::pair::PairName;
use super::request::Request;
use super::requests::CREDIT;
use super::response::Response;
use crate::connection::Connection;
use crate::error::{Failure, Result, Scope};
use crate::link::Link;
use crate::link_state::{INITIAL_DELIVERY_COUNT, LinkState};
use crate::pending::{Pending, Rest};
use crate::session::Session;
use leveret_broker::streams::Streams;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Now;

/// The sending endpoint of the response half.
pub(crate) struct Responses {
    pub(super) pair: PairName,
    /// The key of the link in responses that wait for the disk.
    pub(crate) key: u64,
    /// The largest message in bytes that the client takes; 0 for no limit.
    max_message_size: u64,
    delivery_count: Serial,
    credit: u32,
    /// Messages that wait for credit. The other half's credit bounds them.
    ready: VecDeque<Vec<u8>>,
}

/// A response that waits for the disk, or for earlier responses.
pub(crate) struct Waiting {
    /// [`Responses::key`] of its link.
    pub key: u64,
    /// The channel and handle of the request's link, which takes no other request before the queue has answered that this
    /// one asked.
    pub asks: Option<(u16, u32)>,
    pub response: Response,
    /// Whether the request removes messages or a binding: input is blocked until it is carried out.
    pub removes: bool,
    /// Whether the links of the connection have to be checked when it has been sent.
    pub renews_token: bool,
}

impl Waiting {
    /// Whether the response may be sent, once those before it are.
    pub(super) fn is_due(&self, streams: &Streams) -> bool {
        self.asks.is_none() && streams.have(&self.response.wait)
    }
}

impl Responses {
    pub(super) fn new(pair: PairName, key: u64, max_message_size: u64) -> Self {
        Self { pair, key, max_message_size, delivery_count: INITIAL_DELIVERY_COUNT, credit: 0, ready: VecDeque::new() }
    }

    /// Takes over the receiver's view of the link's state (2.6.7).
    fn set_credit(&mut self, seen: Serial, credit: u32) {
        let sent = self.delivery_count.since(seen);
        self.credit = credit.saturating_sub(sent);
    }

    fn state(&self, handle: u32, drain: bool) -> LinkState {
        let available = self.ready.len() as u32;
        LinkState {
            handle,
            delivery_count: self.delivery_count.0,
            link_credit: self.credit,
            available,
            drain,
            active: None,
        }
    }
}

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
        match waiting + responses.ready.len() + on_their_way {
            unanswered if unanswered < CREDIT.start as usize => Ok(()),
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
            let Some(waiting) = self.responses.pop_front_if(|waiting| waiting.is_due(&streams)) else { break };
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
        responses.ready.push_back(message);
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
            // Nothing is left to send, so the drain uses up the rest of the credit.
            responses.delivery_count = Serial(responses.delivery_count.0.wrapping_add(responses.credit));
            responses.credit = 0;
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
            && responses.credit > 0
            && let Some(payload) = responses.ready.pop_front()
        {
            let (size, most) = (payload.len() as u64, responses.max_message_size);
            if most > 0 && size > most {
                return Err(Failure::link(
                    condition::MESSAGE_SIZE_EXCEEDED,
                    format!("message size ({size} bytes) > maximum message size ({most} bytes)"),
                ));
            }
            let tag = responses.delivery_count.0.to_be_bytes();
            responses.credit -= 1;
            responses.delivery_count.advance();
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
        let pair = responses.pair.clone();
        self.with_requests(session, &pair, |requests| requests.answered(1));
    }

    /// Handles the end of the response half.
    pub(crate) fn leave_responses(&mut self, session: &mut Session, handle: u32, responses: &Responses) {
        self.links.remove(&responses.key);
        session.pending.retain(|pending| !pending.is_for(handle));
        self.with_requests(session, &responses.pair, super::Requests::forget_unanswered);
    }

    fn with_requests(&mut self, session: &mut Session, pair: &PairName, call: impl FnOnce(&mut super::Requests)) {
        let Some(handle) = session.half(pair, Role::Sender) else { return };
        let Some(Link::Requests(requests)) = session.link(handle) else { return };
        call(requests);
        if requests.flow_due {
            session.granted.push(handle);
        }
    }
}

/// The link part of a flow of the client.
pub(crate) struct ResponseGrant {
    /// The client's delivery-count.
    pub seen: Serial,
    pub credit: u32,
    pub drain: bool,
    pub echo: bool,
}
