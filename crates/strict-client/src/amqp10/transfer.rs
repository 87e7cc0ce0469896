//! Transfers from the peer.

use leveret_amqp10::performative::Transfer;
use leveret_amqp10::{SenderSettleMode, Serial, encode_performative};

use super::client::keep;
use super::event::{Delivery, Event};
use super::link::{Assembly, LinkEnd, LinkState, ReceiverEnd, Tag};
use super::session::{Session, SessionState, Surroundings};
use super::window::Window;
use crate::{Rule, Violation};

/// A rule broken by a transfer, before it becomes a [`Violation`].
type Broken = (Rule, &'static str);

impl Session {
    #[inline]
    pub(crate) fn on_transfer(
        &mut self,
        transfer: &Transfer<'_>,
        payload: &[u8],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Violation> {
        match self.take(transfer, payload, around) {
            Ok(()) => Ok(()),
            Err((rule, why)) => Err(self.refuse(
                rule,
                format!("transfer with handle {}, delivery-id {:?}, {why}", transfer.handle, transfer.delivery_id),
            )),
        }
    }

    #[inline]
    fn take(&mut self, transfer: &Transfer<'_>, payload: &[u8], around: &mut Surroundings<'_>) -> Result<(), Broken> {
        if self.incoming_edge.distance_from(self.next_incoming_id) <= 0 {
            return Err((Rule::SessionWindow, "the window is used up"));
        }
        self.next_incoming_id.advance();
        self.incoming_window = self.incoming_window.saturating_sub(1);
        self.widen_if_due(around.out);

        let (channel, ending) = (self.channel, self.state == SessionState::Ending);
        let ours = self.by_remote.iter().find(|(remote, _)| *remote == transfer.handle).map(|(_, ours)| *ours);
        let link = match ours.and_then(|ours| self.links.get_mut(ours as usize)) {
            Some(Some(link)) => link,
            _ => return Err((Rule::HandleAttached, "which is not attached")),
        };
        debug_assert!(link.state != LinkState::Attaching, "a link with a remote handle is attached");
        let LinkEnd::Receiver(end) = &mut link.end else {
            return Err((Rule::HandleAttached, "whose sender is the client"));
        };
        let handle = link.handle;

        let delivery = match end.assembly.take() {
            None => begin_delivery(end, &mut self.incoming, handle, transfer)?,
            Some(open) => continue_delivery(open, transfer)?,
        };
        if transfer.aborted {
            end.parts.clear();
            let incoming = self.incoming.as_mut().expect("a delivery was begun");
            incoming.settle(delivery.delivery_id, delivery.delivery_id, |_| {});
            end.tags.remove(&delivery.tag);
            around.events.push(Event::Aborted { channel, handle, delivery_id: delivery.delivery_id });
            return Ok(());
        }
        let size = (end.parts.len() + payload.len()) as u64;
        if end.max_message_size != 0 && size > end.max_message_size {
            return Err((Rule::MessageSize, "the message is larger than max-message-size"));
        }
        if transfer.more {
            end.parts.extend_from_slice(payload);
            end.assembly = Some(delivery);
            return Ok(());
        }
        check_settled(end.settle_mode, delivery.settled)?;
        if delivery.settled {
            let incoming = self.incoming.as_mut().expect("a delivery was begun");
            incoming.settle(delivery.delivery_id, delivery.delivery_id, |_| {});
            end.tags.remove(&delivery.tag);
        }
        let payload = if end.parts.is_empty() {
            keep(around.arena, payload)
        } else {
            end.parts.extend_from_slice(payload);
            let span = keep(around.arena, &end.parts);
            end.parts = Vec::new();
            span
        };
        // Deliveries are ignored while the session ends.
        if !ending {
            let tag = keep(around.arena, delivery.tag.as_bytes());
            around.events.push(Event::Delivered(Delivery {
                channel,
                handle,
                delivery_id: delivery.delivery_id,
                tag,
                message_format: delivery.message_format,
                settled: delivery.settled,
                payload,
                transfers: delivery.transfers,
            }));
        }
        Ok(())
    }

    #[inline]
    fn widen_if_due(&mut self, out: &mut Vec<u8>) {
        let size = self.options.incoming_window;
        if self.options.widen && self.incoming_window <= size / 2 && self.state == SessionState::Begun {
            self.widen(size);
            encode_performative(out, self.channel, &self.flow().into());
        }
    }
}

fn begin_delivery(
    end: &mut ReceiverEnd,
    incoming: &mut Option<Window<Tag>>,
    handle: u32,
    transfer: &Transfer<'_>,
) -> Result<Assembly, Broken> {
    let Some(delivery_id) = transfer.delivery_id.map(Serial) else {
        return Err((Rule::Continuation, "a delivery begins without delivery-id"));
    };
    let Some(tag) = transfer.delivery_tag.map(Tag::new) else {
        return Err((Rule::UniqueTag, "a delivery begins without delivery-tag"));
    };
    let incoming = incoming.get_or_insert_with(|| Window::new(delivery_id));
    if incoming.next() != delivery_id {
        return Err((Rule::DeliveryId, "which isn't the last one plus one"));
    }
    if end.grants.credit(end.delivery_count) == 0 {
        return Err((Rule::LinkCredit, "the credit is used up"));
    }
    let Some(message_format) = transfer.message_format else {
        return Err((Rule::Continuation, "a delivery begins without message-format"));
    };
    end.delivery_count.advance();
    if !end.tags.insert(tag) {
        return Err((Rule::UniqueTag, "whose delivery-tag has an unsettled delivery"));
    }
    incoming.push(handle, tag, false);
    let settled = transfer.settled.unwrap_or(false);
    Ok(Assembly { delivery_id, tag, message_format, settled, transfers: 1 })
}

fn continue_delivery(open: Assembly, transfer: &Transfer<'_>) -> Result<Assembly, Broken> {
    let other = |field: Option<u32>, first: u32| field.is_some_and(|value| value != first);
    if other(transfer.delivery_id, open.delivery_id.0) {
        return Err((Rule::Continuation, "while another delivery isn't complete"));
    }
    if transfer.delivery_tag.is_some_and(|tag| tag != open.tag.as_bytes()) {
        return Err((Rule::Continuation, "whose delivery-tag changes within the delivery"));
    }
    if other(transfer.message_format, open.message_format) {
        return Err((Rule::Continuation, "whose message-format changes within the delivery"));
    }
    let settled = open.settled || transfer.settled.unwrap_or(false);
    Ok(Assembly { settled, transfers: open.transfers + 1, ..open })
}

fn check_settled(mode: SenderSettleMode, settled: bool) -> Result<(), Broken> {
    match (mode, settled) {
        (SenderSettleMode::Settled, false) => Err((Rule::SettleMode, "unsettled on a link that sends settled ones")),
        (SenderSettleMode::Unsettled, true) => Err((Rule::SettleMode, "settled on a link that sends unsettled ones")),
        _ => Ok(()),
    }
}
