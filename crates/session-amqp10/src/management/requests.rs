//! The half of a pair on which requests come in.

use std::fmt;

use leveret_amqp10::{Role, SenderSettleMode, Serial, condition, performative::Transfer};

use super::pair::PairName;
use super::refusal::Refusal;
use super::request::Request;
use super::response::Response;
use super::responses::Waiting;
use crate::assembly::Assembly;
use crate::connection::Connection;
use crate::error::{Failure, Result};
use crate::grant::Grant;
use crate::held::InputHold;
use crate::link::Link;
use crate::questions::Question;
use crate::session::Session;
use leveret_broker::partial::PartialMessages;
use leveret_broker::settings::LinkCredit;
use leveret_broker::time::Now;

/// Number of requests that the client may send ahead, as in RabbitMQ.
pub(super) const CREDIT: LinkCredit =
    LinkCredit { start: 8, adaptive: false, unconfirmed_messages_max: 8, unconfirmed_bytes_max: u64::MAX };

/// The receiving endpoint of the request half.
pub(crate) struct Requests {
    pub(super) pair: PairName,
    pub(crate) grant: Grant,
    /// The client has to be sent a flow with its credit.
    pub(crate) flow_due: bool,
    assembly: Assembly,
    /// Number of requests whose response wasn't sent yet.
    unanswered: u32,
}

impl Requests {
    pub(super) fn new(pair: PairName, initial: Serial, partial: PartialMessages) -> Self {
        Self {
            pair,
            grant: Grant::new(CREDIT, initial),
            flow_due: true,
            assembly: Assembly::new(SenderSettleMode::Settled, partial),
            unanswered: 0,
        }
    }

    /// Notes that responses were sent, which makes room for more requests.
    pub(super) fn answered(&mut self, count: u32) {
        self.unanswered -= count.min(self.unanswered);
        self.top_up();
    }

    /// Forgets unanswered requests: the client detached the other half, so no response will be sent.
    pub(super) fn forget_unanswered(&mut self) {
        self.answered(self.unanswered);
    }

    fn top_up(&mut self) {
        self.flow_due |= self.grant.top_up_fixed(self.unanswered);
    }
}

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
        if let Some(complete) = requests.assembly.receive(transfer, payload, size_max, &mut requests.grant)? {
            let Some(handle) = session.half(&requests.pair, Role::Receiver) else {
                return Err(Failure::link(
                    condition::PRECONDITION_FAILED,
                    "received transfer on half open management link pair: attach its receiving half first",
                ));
            };
            let Some(Link::Responses(responses)) = session.link(handle) else { return Ok(()) };
            let key = responses.key;
            let message = complete.payload.bytes();
            let request = Request::parse(message)?;
            let mut response = match request.looks() && !self.responses.is_empty() {
                true => Response::unserved(message),
                false => self.respond(&request, now),
            };
            let mut asks = None;
            if !response.is_answered() {
                response.notify(&self.client.outbox, key);
                self.questions.ask(session.channel, transfer.handle, Question::Request);
                asks = Some((session.channel, transfer.handle));
            }
            let renews_token = std::mem::take(&mut self.renews_token);
            let removes = request.removes();
            let waiting = Waiting { key, asks, response, removes, renews_token };
            if removes && !waiting.is_due(&self.client.broker.streams) {
                self.held = InputHold::Removal;
            }
            self.responses.push_back(waiting);
            requests.unanswered += 1;
        }
        requests.top_up();
        if requests.flow_due {
            session.granted.push(transfer.handle);
        }
        Ok(())
    }

    /// Serves a request.
    pub(super) fn respond(&mut self, request: &Request<'_>, now: Now) -> Response {
        let served = self.serve_request(request, now);
        if let Err(refusal) = &served {
            let (method, target) = (request.method.unwrap_or_default(), request.target.unwrap_or_default());
            self.tell_failed(format_args!("{} {}", cut(method), cut(target)), refusal);
        }
        Response::new(request.id, served)
    }

    /// Writes to the log why a request failed.
    pub(super) fn tell_failed(&self, what: fmt::Arguments<'_>, refusal: &Refusal) {
        tracing::warn!(
            connection = %self.client.name,
            user = %self.client.user,
            "request {what} failed: {}",
            cut(&refusal.to_string()),
        );
    }
}

/// The beginning of a client's text, short enough for a line of the log.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(256)]
}
