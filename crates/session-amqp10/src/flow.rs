//! `flow` of the client: windows, credit, drain (specification 2.7.4).

use leveret_amqp10::performative::Flow;
use leveret_amqp10::{Serial, condition};
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

impl Connection {
    /// Handles a flow of the client.
    pub(crate) fn flow(&mut self, session: &mut Session, flow: &Flow<'_>, now: Now) -> Result<()> {
        session.window.received_flow(flow)?;
        self.continue_session(session, now);
        let Some(handle) = flow.handle else {
            session.echo(flow.echo);
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
                match consumer.queue().grant(consumer.id(), seen, credit, flow.drain, now.monotonic) {
                    NowOrLater::Now(state) => {
                        consumer.granted(seen, credit);
                        self.granted(session, handle, flow.drain, flow.echo, state);
                    }
                    NowOrLater::Later(answer) => {
                        answer.notify(self.client.outbox.clone(), consumer.key());
                        let granting = Granting { credit: (seen, credit), drain: flow.drain, echo: flow.echo };
                        let question = Question::Credit(granting, answer);
                        self.questions.ask(session.channel(), handle, question);
                    }
                }
            }
            Link::Publisher(publisher) => {
                publisher.echo(flow.echo);
                session.note_granted(handle);
            }
            Link::Coordinator(coordinator) => {
                coordinator.echo(flow.echo);
                session.note_granted(handle);
            }
            Link::Replies(replies) => {
                let credit = flow.link_credit.unwrap_or(0);
                let state = replies.grant(flow.delivery_count.unwrap_or(0), credit, flow.drain);
                if flow.drain || flow.echo {
                    self.send_link_state(session, LinkState::new(handle, &state, flow.drain));
                }
            }
            Link::Requests(requests) => {
                requests.echo(flow.echo);
                session.note_granted(handle);
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
            && consumer.activity_changed(active, change)
        {
            let state = LinkState::of_activity(handle, &consumer.state(available), active);
            self.send_link_state(&mut session, state);
        }
        self.sessions.put(session);
    }
}
