//! The half of a pair on which requests come in.

use std::fmt;

use leveret_amqp10::{Role, condition, performative::Transfer};

use crate::connection::Connection;
use crate::error::{Failure, Result};
use crate::held::InputHold;
use crate::link::Link;
use crate::pairs::refusal::{Refusal, Status};
use crate::pairs::request::Request;
use crate::pairs::response::Response;
use crate::pairs::{Requests, Waiting};
use crate::questions::Question;
use crate::session::Session;
use leveret_broker::time::Now;

impl Connection {
    /// Handles a transfer on the request half.
    pub(crate) fn receive_request(
        &mut self,
        session: &mut Session,
        requests: &mut Requests,
        transfer: &Transfer<'_>,
        payload: &[u8],
        now: Now,
    ) -> Result<()> {
        let size_max = self.client.broker.settings.max_message_size;
        if let Some(complete) = requests.receive(transfer, payload, size_max)? {
            let Some(handle) = session.half(requests.pair(), Role::Receiver) else {
                return Err(Failure::link(
                    condition::PRECONDITION_FAILED,
                    "received transfer on half open management link pair: attach its receiving half first",
                ));
            };
            let Some(Link::Responses(responses)) = session.link(handle) else { return Ok(()) };
            let key = responses.key();
            let message = complete.payload.bytes();
            let request = Request::parse(message)?;
            let mut response = match request.looks() && !self.responses.is_empty() {
                true => Response::unserved(message),
                false => self.respond(&request, message, now),
            };
            let mut asks = None;
            if !response.is_answered() {
                response.notify(&self.client.outbox, key);
                self.questions.ask(session.channel(), transfer.handle, Question::Request);
                asks = Some((session.channel(), transfer.handle));
            }
            let renews_token = std::mem::take(&mut self.renews_token);
            let removes = request.removes();
            let waiting = Waiting { key, asks, response, removes, renews_token, gone: Vec::new() };
            if removes && waiting.end(&self.client.broker.streams).is_none() {
                self.held = InputHold::Removal;
            }
            self.responses.push_back(waiting);
            requests.asked();
        }
        requests.top_up();
        if requests.is_flow_due() {
            session.note_granted(transfer.handle);
        }
        Ok(())
    }

    /// Serves a request, of which this is the message. It stays unserved if a backend has to answer first, or if it finds nothing and this
    /// node may be behind others.
    pub(crate) fn respond(&mut self, request: &Request<'_>, message: &[u8], now: Now) -> Response {
        let served = self.serve_request(request, now);
        let finds_nothing = matches!(served, Err(Refusal::Answer(Status::NotFound, _))) && self.client.may_be_behind();
        if served.is_err() && (self.client.awaits_answer() || self.client.is_asking() || finds_nothing) {
            return Response::unserved(message);
        }
        if let Err(refusal) = &served {
            let (method, target) = (request.method.unwrap_or_default(), request.target.unwrap_or_default());
            self.tell_failed(format_args!("{} {}", cut(method), cut(target)), refusal);
        }
        Response::new(request.id, served)
    }

    /// Writes to the log why a request failed.
    pub(crate) fn tell_failed(&self, what: fmt::Arguments<'_>, refusal: &Refusal) {
        tracing::warn!(
            connection = %self.client.name,
            user = %self.client.identity.name(),
            "request {what} failed: {}",
            cut(&refusal.to_string()),
        );
    }
}

/// The beginning of a client's text, short enough for a line of the log.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(256)]
}
