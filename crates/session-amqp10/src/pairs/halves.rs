//! The halves of a link pair: requests come in on one, responses go out on the other.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp10::{SenderSettleMode, Serial, condition, performative::Attach, performative::Transfer};

use super::response::Response;
use crate::assembly::{Assembly, Complete};
use crate::error::{Failure, Result};
use crate::grant::Grant;
use crate::link_state::{INITIAL_DELIVERY_COUNT, LinkState};
use leveret_broker::partial::PartialMessages;
use leveret_broker::settings::LinkCredit;
use leveret_broker::streams::Streams;
use leveret_broker::wait_for::WaitEnd;

/// The identity of a pair, which both halves share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PairName {
    /// The name of both links.
    name: Arc<str>,
    /// The client's address in both links.
    client: Option<Arc<str>>,
}

impl PairName {
    pub(crate) fn new(attach: &Attach<'_>, client: Option<&str>) -> Self {
        Self { name: attach.name.into(), client: client.map(Into::into) }
    }

    /// The name of both links.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The client's address in both links.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }
}

/// Number of requests that the client may send ahead, as in RabbitMQ.
const CREDIT: LinkCredit =
    LinkCredit { start: 8, adaptive: false, unconfirmed_messages_max: 8, unconfirmed_bytes_max: u64::MAX };

/// Number of requests of one half that may wait for their responses.
pub(crate) const UNANSWERED_MAX: usize = CREDIT.start as usize;

/// The receiving endpoint of the request half.
pub(crate) struct Requests {
    pair: PairName,
    grant: Grant,
    /// The client has to be sent a flow with its credit.
    flow_due: bool,
    assembly: Assembly,
    /// Number of requests whose response wasn't sent yet.
    unanswered: u32,
}

impl Requests {
    pub(crate) fn new(pair: PairName, initial: Serial, partial: PartialMessages) -> Self {
        Self {
            pair,
            grant: Grant::new(CREDIT, initial),
            flow_due: true,
            assembly: Assembly::new(SenderSettleMode::Settled, partial),
            unanswered: 0,
        }
    }

    /// The pair that it is half of.
    pub(crate) fn pair(&self) -> &PairName {
        &self.pair
    }

    /// Whether the client has to be sent a flow with its credit.
    pub(crate) fn is_flow_due(&self) -> bool {
        self.flow_due
    }

    /// The client may have asked for the state of the link.
    pub(crate) fn echo(&mut self, is_asked: bool) {
        self.flow_due |= is_asked;
    }

    /// The credit that the client has to be sent, if it has to.
    pub(crate) fn take_flow(&mut self) -> Option<&Grant> {
        std::mem::take(&mut self.flow_due).then_some(&self.grant)
    }

    /// Takes a transfer; returns the request if it is complete.
    ///
    /// # Errors
    /// It breaks the rules of transfers, or is too large.
    pub(crate) fn receive<'a>(
        &mut self,
        transfer: &Transfer<'a>,
        payload: &'a [u8],
        size_max: u64,
    ) -> Result<Option<Complete<'a>>> {
        self.assembly.receive(transfer, payload, size_max, &mut self.grant)
    }

    /// Notes that a response will be sent.
    pub(crate) fn asked(&mut self) {
        self.unanswered += 1;
    }

    /// Notes that responses were sent, which makes room for more requests.
    pub(crate) fn answered(&mut self, count: u32) {
        self.unanswered -= count.min(self.unanswered);
        self.top_up();
    }

    /// Forgets unanswered requests: the client detached the other half, so no response will be sent.
    pub(crate) fn forget_unanswered(&mut self) {
        self.answered(self.unanswered);
    }

    /// Grants more credit if it is due.
    pub(crate) fn top_up(&mut self) {
        self.flow_due |= self.grant.top_up_fixed(self.unanswered);
    }
}

/// The sending endpoint of the response half.
pub(crate) struct Responses {
    pair: PairName,
    /// The key of the link in responses that wait for the disk.
    key: u64,
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
    /// Keys of links whose queue ended before the deletion that the request asks for was answered: they end when the response was sent.
    pub gone: Vec<u64>,
}

impl Waiting {
    /// How its wait ended, when the response may be sent, once those before it are.
    pub(crate) fn end(&self, streams: &Streams) -> Option<WaitEnd> {
        if self.asks.is_some() { None } else { streams.end(&self.response.wait) }
    }
}

impl Responses {
    pub(crate) fn new(pair: PairName, key: u64, max_message_size: u64) -> Self {
        Self { pair, key, max_message_size, delivery_count: INITIAL_DELIVERY_COUNT, credit: 0, ready: VecDeque::new() }
    }

    /// The key of the link in responses that wait for the disk.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// The pair that it is half of.
    pub(crate) fn pair(&self) -> &PairName {
        &self.pair
    }

    /// Adds a response, to be sent as the client's credit allows.
    pub(crate) fn push(&mut self, message: Vec<u8>) {
        self.ready.push_back(message);
    }

    /// Number of responses that wait for credit.
    pub(crate) fn unsent(&self) -> usize {
        self.ready.len()
    }

    /// Takes out the next response that the credit allows, with the tag of its delivery.
    ///
    /// # Errors
    /// The client doesn't take a message of its size.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, [u8; 4])>> {
        if self.credit == 0 {
            return Ok(None);
        }
        let Some(payload) = self.ready.pop_front() else { return Ok(None) };
        let (size, most) = (payload.len() as u64, self.max_message_size);
        if most > 0 && size > most {
            return Err(Failure::link(
                condition::MESSAGE_SIZE_EXCEEDED,
                format!("message size ({size} bytes) > maximum message size ({most} bytes)"),
            ));
        }
        let tag = self.delivery_count.0.to_be_bytes();
        self.credit -= 1;
        self.delivery_count.advance();
        Ok(Some((payload, tag)))
    }

    /// Uses up the rest of the credit, since nothing is left to send.
    pub(crate) fn drain(&mut self) {
        self.delivery_count = Serial(self.delivery_count.0.wrapping_add(self.credit));
        self.credit = 0;
    }

    /// Takes over the receiver's view of the link's state (2.6.7).
    pub(crate) fn set_credit(&mut self, seen: Serial, credit: u32) {
        let sent = self.delivery_count.since(seen);
        self.credit = credit.saturating_sub(sent);
    }

    /// Its state, as a flow tells it.
    pub(crate) fn state(&self, handle: u32, drain: bool) -> LinkState {
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

/// The link part of a flow of the client.
pub(crate) struct ResponseGrant {
    /// The client's delivery-count.
    pub seen: Serial,
    pub credit: u32,
    pub drain: bool,
    pub echo: bool,
}
