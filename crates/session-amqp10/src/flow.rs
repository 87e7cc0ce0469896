//! `flow`, both ways: windows, credit, drain (specification 2.7.4).

use leveret_amqp10::{Performative, Serial, condition, encode_performative, performative::Flow, value::EncodedMap};
use leveret_queue::CreditState;

use super::connection::Connection;
use super::deferral;
use super::error::{Failure, Result};
use super::link::Link;
use super::link_state::{INITIAL_DELIVERY_COUNT, LinkState};
use super::pairs::ResponseGrant;
use super::questions::{Granting, Question};
use super::session::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::time::Now;

/// The property of a link's state that tells a receiver whether it is the single active one, as in RabbitMQ 4.3.
const ACTIVE: &str = "rabbitmq:active";

impl Connection {
    /// Handles a flow of the client.
    pub(crate) fn flow(&mut self, session: &mut Session, flow: &Flow<'_>, now: Now) -> Result<()> {
        session.window.received_flow(flow)?;
        self.continue_session(session, now);
        let Some(handle) = flow.handle else {
            session.echo_due |= flow.echo;
            return Ok(());
        };
        let Some(link) = session.link(handle) else {
            return Err(Failure::session(condition::UNATTACHED_HANDLE, format!("Unattached link handle: {handle}")));
        };
        deferral::claim(link, flow)?;
        match link {
            Link::Consumer(consumer) => {
                // A receiver that hasn't seen our attach doesn't know our first delivery-count (2.6.7).
                let seen = flow.delivery_count.unwrap_or(0);
                let credit = flow.link_credit.unwrap_or(0);
                match consumer.queue.grant(consumer.id, seen, credit, flow.drain, now.monotonic) {
                    NowOrLater::Now(state) => {
                        consumer.granted(seen, credit);
                        self.granted(session, handle, flow.drain, flow.echo, state);
                    }
                    NowOrLater::Later(answer) => {
                        answer.notify(self.client.outbox.clone(), consumer.key);
                        let granting = Granting { credit: (seen, credit), drain: flow.drain, echo: flow.echo };
                        let question = Question::Credit(granting, answer);
                        self.questions.ask(session.channel, handle, question);
                    }
                }
            }
            Link::Publisher(publisher) => {
                publisher.flow_due |= flow.echo;
                session.granted.push(handle);
            }
            Link::Coordinator(coordinator) => {
                coordinator.flow_due |= flow.echo;
                session.granted.push(handle);
            }
            Link::Replies(replies) => {
                let credit = flow.link_credit.unwrap_or(0);
                let state = replies.grant(flow.delivery_count.unwrap_or(0), credit, flow.drain);
                if flow.drain || flow.echo {
                    self.send_link_state(session, LinkState::new(handle, &state, flow.drain));
                }
            }
            Link::Requests(requests) => {
                requests.flow_due |= flow.echo;
                session.granted.push(handle);
            }
            Link::Responses(_) => {
                let grant = ResponseGrant {
                    seen: flow.delivery_count.map_or(INITIAL_DELIVERY_COUNT, Serial),
                    credit: flow.link_credit.unwrap_or(0),
                    drain: flow.drain,
                    echo: flow.echo,
                };
                self.grant_responses(session, handle, grant, now)?;
            }
            Link::Left | Link::Detached => {}
        }
        Ok(())
    }

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

    /// Finishes a drain of the client: everything available was sent.
    pub(crate) fn drained(&mut self, key: u64, delivery_count: u32, available: u32) {
        let Some(&(channel, handle)) = self.links.get(&key) else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if let Some(Link::Consumer(consumer)) = session.link(handle) {
            consumer.drained(delivery_count);
        }
        let state = CreditState { delivery_count, credit: 0, available };
        self.send_link_state(&mut session, LinkState::new(handle, &state, true));
        self.sessions.put(session);
    }

    /// Tells a receiver that it became active, or is so no longer.
    pub(crate) fn activity_changed(&mut self, key: u64, active: bool, change: u32, available: u32) {
        let Some(&(channel, handle)) = self.links.get(&key) else { return };
        let Some(mut session) = self.sessions.take(channel) else { return };
        if let Some(Link::Consumer(consumer)) = session.link(handle)
            && consumer.activity.changed(active, change)
        {
            let state = LinkState::of_activity(handle, &consumer.state(available), active);
            self.send_link_state(&mut session, state);
        }
        self.sessions.put(session);
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
        encode_performative(self.client.output.buffer(), session.channel, &Performative::Flow(flow));
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
        if session.ending || session.leaving {
            // Nothing may follow our end (2.5.5), and a client that has ended expects nothing.
            return;
        }
        let channel = session.channel;
        for handle in std::mem::take(&mut session.granted) {
            let base = session.window.flow();
            let (grant, due) = match session.link(handle) {
                Some(Link::Publisher(publisher)) => (&publisher.grant, &mut publisher.flow_due),
                Some(Link::Requests(requests)) => (&requests.grant, &mut requests.flow_due),
                Some(Link::Coordinator(coordinator)) => (&coordinator.grant, &mut coordinator.flow_due),
                _ => continue,
            };
            if !std::mem::take(due) {
                continue;
            }
            let flow = Flow {
                handle: Some(handle),
                delivery_count: Some(grant.delivery_count().0),
                link_credit: Some(grant.credit()),
                ..base
            };
            session.flow_due = false;
            encode_performative(self.client.output.buffer(), channel, &Performative::Flow(flow));
        }
        if std::mem::take(&mut session.flow_due) | std::mem::take(&mut session.echo_due) {
            let flow = session.window.flow();
            encode_performative(self.client.output.buffer(), channel, &Performative::Flow(flow));
        }
    }

    /// Raises or clears the alarm on every session: its incoming window closes or opens.
    pub(crate) fn set_alarm(&mut self, raised: bool) {
        for channel in self.sessions.channels() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            session.flow_due |= session.window.set_shut(raised);
            self.sessions.put(session);
        }
    }
}
