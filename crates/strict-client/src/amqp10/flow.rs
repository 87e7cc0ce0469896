//! Windows and credit.

use leveret_amqp10::performative::Flow;
use leveret_amqp10::{MapRef, Serial, encode_performative};

use super::event::Event;
use super::link::{Link, LinkEnd, LinkState, ReceiverEnd, SenderEnd};
use super::send::Frames;
use super::session::{Session, SessionState, Surroundings};
use crate::{Rule, Violation};

/// The property by which RabbitMQ tells a receiver whether it is active.
const ACTIVE: &str = "rabbitmq:active";

/// A rule broken by a flow, before it becomes a [`Violation`].
type Broken = (Rule, String);

impl Session {
    pub(crate) fn on_flow(&mut self, flow: &Flow<'_>, around: &mut Surroundings<'_>) -> Result<(), Violation> {
        self.take_windows(flow).map_err(|(rule, why)| self.refuse(rule, format!("flow {why}")))?;
        self.pump(&mut Frames { out: around.out, size_max: around.max_frame_size });
        let Some(remote) = flow.handle else {
            let of_link = [flow.delivery_count, flow.link_credit, flow.available];
            if of_link.iter().any(Option::is_some) || flow.drain {
                return Err(self.refuse(Rule::FlowFields, "flow with fields of a link but without handle"));
            }
            if flow.echo && self.state != SessionState::Ending {
                encode_performative(around.out, self.channel, &self.flow().into());
            }
            around.events.push(Event::SessionFlow {
                channel: self.channel,
                window: self.remote_window,
                echo: flow.echo,
            });
            return Ok(());
        };
        let link = self.link_of_peer(remote, "flow")?;
        let handle = link.handle;
        let taken = match &mut link.end {
            LinkEnd::Sender(end) => take_from_receiver(end, flow),
            LinkEnd::Receiver(end) => take_from_sender(end, flow),
        };
        let (credit, delivery_count, drained) =
            taken.map_err(|(rule, why)| self.refuse(rule, format!("flow for handle {remote}, {why}")))?;
        let link = self.links[handle as usize].as_deref().expect("the link was found above");
        let is_going = self.state == SessionState::Ending || matches!(link.state, LinkState::Detaching { .. });
        if flow.echo && !is_going {
            encode_performative(around.out, self.channel, &self.link_flow(link).into());
        }
        around.events.push(Event::LinkFlow {
            channel: self.channel,
            handle,
            credit,
            delivery_count,
            available: flow.available,
            drained,
            echo: flow.echo,
            active: flow.properties.and_then(|properties| properties.lookup(ACTIVE)).and_then(|value| value.as_bool()),
        });
        Ok(())
    }

    /// Processes the session's part of a flow (2.5.6).
    fn take_windows(&mut self, flow: &Flow<'_>) -> Result<(), Broken> {
        let Some(next_incoming_id) = flow.next_incoming_id.map(Serial) else {
            return Err((Rule::TransferIds, "without next-incoming-id, though the peer has answered begin".into()));
        };
        let sent = self.next_outgoing_id;
        if !next_incoming_id.is_within(self.seen_by_peer, sent) {
            let seen = self.seen_by_peer;
            let text = format!("with next-incoming-id {next_incoming_id}, expected {seen} to {sent}");
            return Err((Rule::TransferIds, text));
        }
        if Serial(flow.next_outgoing_id) != self.next_incoming_id {
            let text = format!("with next-outgoing-id {}, expected {}", flow.next_outgoing_id, self.next_incoming_id);
            return Err((Rule::TransferIds, text));
        }
        self.seen_by_peer = next_incoming_id;
        self.remote_window = flow.incoming_window.saturating_sub(sent.since(next_incoming_id));
        Ok(())
    }

    /// Grants credit by a flow. If it is lower than before, it counts once the peer has seen it.
    pub(crate) fn grant(&mut self, handle: u32, granted: &Granted<'_>, out: &mut Vec<u8>) {
        let Granted { credit, drain, echo, properties } = *granted;
        if self.options.widen && self.state == SessionState::Begun {
            self.widen(self.options.incoming_window);
        }
        let LinkEnd::Receiver(end) = &mut self.link(handle).end else { panic!("handle {handle} is a sender's") };
        let limit = end.delivery_count.add(credit);
        end.grants.push(end.delivery_count, limit, drain);
        let link: &Link = self.links[handle as usize].as_deref().expect("the link was found above");
        let flow = Flow { echo, properties, ..self.link_flow(link) };
        encode_performative(out, self.channel, &flow.into());
    }
}

/// A receiver's grant of credit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Granted<'a> {
    pub credit: u32,
    pub drain: bool,
    pub echo: bool,
    pub properties: Option<MapRef<'a>>,
}

/// Processes a flow of a receiving peer: credit for the client (2.6.7).
fn take_from_receiver(end: &mut SenderEnd, flow: &Flow<'_>) -> Result<(u32, Serial, bool), Broken> {
    let Some(link_credit) = flow.link_credit else {
        return Err((Rule::FlowFields, "without link-credit, which a receiver sets".into()));
    };
    // Null means that the peer hadn't seen the client's attach, and so counts from the start.
    let seen = flow.delivery_count.map_or(end.delivery_count, Serial);
    if seen.distance_from(end.delivery_count) > 0 {
        let text = format!("with delivery-count {seen}, but only {} were sent", end.delivery_count);
        return Err((Rule::DeliveryCount, text));
    }
    end.credit = seen.add(link_credit).distance_from(end.delivery_count).max(0) as u32;
    Ok((end.credit, end.delivery_count, flow.drain))
}

/// Processes a flow of a sending peer, which shows the grants that it has seen.
fn take_from_sender(end: &mut ReceiverEnd, flow: &Flow<'_>) -> Result<(u32, Serial, bool), Broken> {
    let (Some(count), Some(credit)) = (flow.delivery_count.map(Serial), flow.link_credit) else {
        return Err((Rule::FlowFields, "without delivery-count and link-credit, which a sender sets".into()));
    };
    let counted = end.delivery_count;
    let limit = count.add(credit);
    let ahead = count.distance_from(counted);
    if ahead < 0 {
        return Err((Rule::DeliveryCount, format!("with delivery-count {count}, expected {counted}")));
    }
    let Some(grant) = end.grants.seen(limit, flow.drain, credit == 0 && ahead == 0) else {
        let granted = end.grants.limits();
        let text = format!(
            "with delivery-count {count} and link-credit {credit} after {counted} deliveries, which was never granted: \
             the limits are {granted:?}"
        );
        return Err((if ahead > 0 { Rule::DeliveryCount } else { Rule::CreditEcho }, text));
    };
    if ahead > 0 {
        if !grant.drain {
            let text = format!("with delivery-count {count}, expected {counted}: the link isn't drained");
            return Err((Rule::DeliveryCount, text));
        }
        if credit > 0 {
            return Err((Rule::Drain, format!("which skips {ahead} deliveries and keeps credit {credit}")));
        }
        if end.assembly.is_some() {
            return Err((Rule::Drain, "which ends the drain within a delivery".into()));
        }
        end.delivery_count = count;
    }
    Ok((credit, end.delivery_count, grant.drain && credit == 0))
}
