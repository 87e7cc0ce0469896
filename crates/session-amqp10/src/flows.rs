//! Flows that are sent: windows, credit, states of links (specification 2.7.4).

use leveret_amqp10::performative::Flow;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Performative, encode_performative};
use leveret_queue::CreditState;

use super::connection::Connection;
use super::link::Link;
use super::link_state::LinkState;
use super::session::Session;

/// The property of a link's state that tells a receiver whether it is the single active one, as in RabbitMQ 4.3.
const ACTIVE: &str = "rabbitmq:active";

impl Connection {
    /// Handles the state of a consumer's link after a flow of the client: sends it, if the client asked for it.
    #[inline]
    pub(crate) fn granted(
        &mut self,
        session: &mut Session,
        handle: u32,
        drain: bool,
        echo: bool,
        state: Option<CreditState>,
    ) {
        // Its queue is gone and the link is about to be detached: there is no state left to send.
        let Some(mut state) = state else { return };
        if let Some(Link::Consumer(consumer)) = session.link(handle) {
            state = consumer.since(state);
        }
        if drain
            && state.credit == 0
            && let Some(Link::Consumer(consumer)) = session.link(handle)
        {
            consumer.drained(state.delivery_count);
        }
        // A drain that finds messages ends with a signal, after the last of them.
        if (drain && state.credit == 0) || (!drain && echo) {
            self.send_link_state(session, LinkState::new(handle, &state, drain));
        }
    }

    /// Sends a receiver the state of its link, after the transfers that still wait for its window.
    pub(crate) fn send_link_state(&mut self, session: &mut Session, state: LinkState) {
        if session.pending.is_empty() {
            self.encode_link_state(session, state);
        } else {
            session.pending.push_state(state);
        }
    }

    pub(crate) fn encode_link_state(&mut self, session: &Session, state: LinkState) {
        let properties = state.active.map(|active| EncodedMap::new().with(ACTIVE, active));
        let flow = Flow {
            handle: Some(state.handle),
            delivery_count: Some(state.delivery_count),
            link_credit: Some(state.link_credit),
            available: Some(state.available),
            drain: state.drain,
            properties: properties.as_ref().map(EncodedMap::as_map),
            ..session.window.flow()
        };
        encode_performative(self.client.output.buffer(), session.channel(), &Performative::Flow(flow));
    }

    /// Sends the flows that are due: windows that opened, credit that was granted.
    pub(crate) fn send_flows(&mut self) {
        for channel in self.sessions.unlist() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            self.send_session_flows(&mut session);
            self.sessions.put(session);
        }
    }

    pub(crate) fn send_session_flows(&mut self, session: &mut Session) {
        if session.is_ending() || session.is_leaving() {
            // Nothing may follow our end (2.5.5), and a client that has ended expects nothing.
            return;
        }
        let channel = session.channel();
        for handle in session.take_granted() {
            let base = session.window.flow();
            let due = match session.link(handle) {
                Some(Link::Publisher(publisher)) => publisher.take_flow(),
                Some(Link::Requests(requests)) => requests.take_flow(),
                Some(Link::Coordinator(coordinator)) => coordinator.take_flow(),
                _ => None,
            };
            let Some(grant) = due else { continue };
            let flow = Flow {
                handle: Some(handle),
                delivery_count: Some(grant.delivery_count().0),
                link_credit: Some(grant.credit()),
                ..base
            };
            session.window_told();
            encode_performative(self.client.output.buffer(), channel, &Performative::Flow(flow));
        }
        if session.take_flow() {
            let flow = session.window.flow();
            encode_performative(self.client.output.buffer(), channel, &Performative::Flow(flow));
        }
    }

    /// Raises or clears the alarm on every session: its incoming window closes or opens.
    pub(crate) fn set_alarm(&mut self, raised: bool) {
        for channel in self.sessions.channels() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            let is_due = session.window.set_shut(raised);
            session.owe_flow(is_due);
            self.sessions.put(session);
        }
    }
}
