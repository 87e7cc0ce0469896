//! The connection's answers to inquiries.

use leveret_amqp10::value::MapRef;
use leveret_model::Arguments;

use super::connection::Connection;
use super::link::Link;
use super::session::Session;
use leveret_broker::inquiry::Inquiry;
use leveret_broker::queue_handle::ConsumerState;
use leveret_broker::time::{Now, SECOND};
use leveret_broker::views::{ConnectionView, IncomingView, OutgoingView, SessionView};

/// The part of a client's properties that can be shown.
pub(super) fn arguments(properties: MapRef<'_>) -> Arguments {
    super::pairs::arguments::shown(properties)
}

impl Connection {
    /// The connection as listings show it.
    pub(crate) fn describe_connection(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        let sessions: Vec<SessionView> = self
            .sessions
            .iter()
            .filter(|session| !session.is_ending())
            .map(|session| self.describe_session(session))
            .collect();
        let is_blocked = self.client.broker.alarms.publishing_blocked();
        ConnectionView {
            frame_max: self.opened.frame_max_out().min(self.opened.frame_max_in()),
            timeout_s: self.client.silence.input_every() / SECOND,
            client_properties: if inquiry.is_brief() { Arguments::default() } else { self.opened.properties().clone() },
            container_id: Some(self.opened.container().clone()),
            pending_frames: self.responses.len() + sessions.iter().map(|session| session.pending).sum::<usize>(),
            sessions,
            ..self.client.view(is_blocked, now)
        }
    }

    fn describe_session(&self, session: &Session) -> SessionView {
        let flow = session.window.flow();
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        let max_message_size = self.client.broker.settings.max_message_size;
        for (handle, link) in session.attached() {
            match link {
                Link::Publisher(publisher) => incoming.push(IncomingView {
                    handle,
                    name: publisher.name().clone(),
                    target: publisher.address().cloned(),
                    settle_mode: publisher.settle_mode(),
                    max_message_size,
                    delivery_count: publisher.grant().delivery_count().0,
                    credit: publisher.grant().credit(),
                    unconfirmed: publisher.unconfirmed(),
                }),
                Link::Consumer(consumer) => {
                    let status = consumer.queue().look(ConsumerState(consumer.id()));
                    outgoing.push(OutgoingView {
                        handle,
                        name: consumer.terms().name.clone(),
                        source: consumer.terms().address.clone(),
                        queue: Some(consumer.queue().info().name.clone()),
                        settled: consumer.is_settled(),
                        max_message_size: consumer.terms().max_message_size,
                        timeout_ms: consumer.terms().own_timeout_ms,
                        delivery_count: status.as_ref().map_or(0, |status| status.delivery_count),
                        credit: status.as_ref().and_then(|status| status.link_credit).unwrap_or(0),
                        wait: status.map(|status| status.wait),
                    });
                }
                // These links have no queue or exchange, so there is little to show.
                Link::Replies(_)
                | Link::Coordinator(_)
                | Link::Requests(_)
                | Link::Responses(_)
                | Link::Left
                | Link::Detached => {}
            }
        }
        SessionView {
            channel: session.channel(),
            handle_max: session.handle_max(),
            next_incoming_id: flow.next_incoming_id.unwrap_or(0),
            incoming_window: flow.incoming_window,
            next_outgoing_id: flow.next_outgoing_id,
            remote_incoming_window: session.window.room(),
            remote_outgoing_window: session.window.remote_outgoing(),
            unsettled: session.unsettled.len(),
            pending: session.pending.len(),
            incoming,
            outgoing,
        }
    }
}
