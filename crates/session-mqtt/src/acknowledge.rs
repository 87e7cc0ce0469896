//! PUBACK, PUBREC, PUBREL and PUBCOMP of the client.

use leveret_broker::settlement::Settlement;
use leveret_broker::ticket::Ticket;
use leveret_broker::time::Now;
use leveret_broker::traffic::counted_as;
use leveret_log::Wait;
use leveret_mqtt::{Ack, AckKind, ReasonCode};
use leveret_queue::Deliveries;

use super::confirming::Confirming;
use super::exchanges::{Outgoing, Unacknowledged, runs_of};
use super::failure::BrokenRule;
use super::session::Session;
use super::session_record::{RecordSlot, SessionRecord};
use super::subscriptions::Level;

impl Session {
    /// Handles an acknowledgement. Identifiers that are unknown are answered where the protocol has an answer, and otherwise passed over:
    /// clients send them again after a reconnect.
    pub(crate) fn ack(&mut self, ack: &Ack<'_>, now: Now) -> Result<(), BrokenRule> {
        let id = ack.packet_id;
        match ack.kind {
            AckKind::PubAck => {
                if let Some(Outgoing::Sent(message)) = self.exchanges.get(id) {
                    self.exchanges.end(id);
                    self.acked.push(message);
                }
            }
            AckKind::PubRec => self.received_once(id, ack.reason, now)?,
            AckKind::PubRel => {
                if self.exchanges.forget_received(id) {
                    let wait = self.note_in_session(&SessionRecord::Over(RecordSlot::Received(id)), now);
                    self.confirming.push(wait, Confirming::Complete(id));
                } else {
                    self.send_ack(AckKind::PubComp, id, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND);
                }
            }
            AckKind::PubComp => {
                if let Some(Outgoing::Released(_)) = self.exchanges.get(id) {
                    self.exchanges.end(id);
                    // If a crash forgets it, PUBREL is sent again.
                    self.note_in_session(&SessionRecord::Over(RecordSlot::Released(id)), now);
                    self.has_window(now);
                }
            }
        }
        Ok(())
    }

    /// PUBREC: the message leaves its queue for good, and PUBREL follows once the disk has that. A crash before then brings the message
    /// back with the same packet identifier, by which the client recognises it. The record that it is released comes first: with it,
    /// a message that is still in its queue isn't sent again.
    fn received_once(&mut self, id: u16, reason: ReasonCode, now: Now) -> Result<(), BrokenRule> {
        match self.exchanges.get(id) {
            Some(Outgoing::SentOnce(message)) if reason.is_error() => {
                // [MQTT-4.3.3-4]: the exchange is over.
                self.exchanges.end(id);
                self.acked.push(message);
            }
            Some(Outgoing::SentOnce(message)) => {
                self.exchanges.release(id, message.number);
                let record = SessionRecord::Released {
                    id,
                    number: message.number,
                    session_expiry_s: self.terms.session_expiry_s(),
                };
                let Some(mut wait) = self.must_note_in_session(&record, now) else {
                    let text = "the log of sessions takes nothing, so that a message of QoS 2 can't be released";
                    return Err(BrokenRule::new(ReasonCode::SERVER_UNAVAILABLE, text));
                };
                wait.and(self.settle(vec![message], Wait::Confirm, now).unwrap_or_default().into());
                self.confirming.push(wait, Confirming::Release(id));
            }
            Some(Outgoing::Released(_)) => {
                let wait = self.all_noted();
                self.confirming.push(wait, Confirming::Release(id));
            }
            Some(Outgoing::Sent(_)) | None => {
                self.send_ack(AckKind::PubRel, id, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND);
            }
        }
        Ok(())
    }

    /// Hands the acknowledgements of a read to the queue.
    pub(crate) fn flush_acks(&mut self, now: Now) {
        if self.acked.is_empty() {
            return;
        }
        let messages = std::mem::take(&mut self.acked);
        self.settle(messages, Wait::Lazy, now);
        self.has_window(now);
    }

    /// Removes messages of the queue for QoS 1 and 2 for good.
    pub(crate) fn settle(&mut self, messages: Vec<Unacknowledged>, wait: Wait, now: Now) -> Option<Ticket> {
        if messages.is_empty() {
            return None;
        }
        let consumer = self.consumers.get(Level::One)?;
        self.client.counters.acked_of(counted_as(consumer.queue().info())).add(messages.len() as u64);
        let runs = runs_of(messages);
        consumer.queue().settle(
            Deliveries::of(Some(consumer.id()), &runs),
            Settlement::Acknowledge,
            wait,
            now.monotonic,
        )
    }

    /// There may be room for further messages: wakes the consumer that waits for it.
    pub(crate) fn has_window(&mut self, now: Now) {
        if let Some(consumer) = self.consumers.get_mut(Level::One) {
            consumer.unpark(now.monotonic);
        }
    }
}
