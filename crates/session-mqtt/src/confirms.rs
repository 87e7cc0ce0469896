//! Acknowledgements of what the client published, once the disk has it, and PUBREL once a message has left its queue for good.

use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitEnd;
use leveret_mqtt::{Ack, AckKind, PropertyList, ReasonCode};

use super::confirming::{Acknowledged, Confirming};
use super::session::{MqttPhase, Session};

impl Session {
    /// Sends what is due.
    pub(crate) fn confirm_durable(&mut self, _now: Now) {
        if self.phase != MqttPhase::Open {
            return;
        }
        let applied = self.client.applied();
        while let Some((due, end)) = self.confirming.pop(&applied) {
            let is_lost = matches!(end, WaitEnd::Gone);
            match due {
                Confirming::Publishes(all) => {
                    all.into_iter().for_each(|(at, ack)| self.acknowledge(ended(at, ack, &end)))
                }
                // The client sends its packet again.
                Confirming::Release(_) | Confirming::Complete(_) if is_lost => {}
                Confirming::Release(packet_id) => self.send_ack(AckKind::PubRel, packet_id, ReasonCode::SUCCESS),
                Confirming::Complete(packet_id) => self.send_ack(AckKind::PubComp, packet_id, ReasonCode::SUCCESS),
            }
        }
    }

    /// Acknowledges a message. Before MQTT 5 a refusal can't be told: the client sends the message again when it comes back.
    fn acknowledge(&mut self, ack: Acknowledged) {
        let is_refused = ack.reason.is_error();
        if is_refused && ack.kind == AckKind::PubRec {
            self.exchanges.forget_received(ack.packet_id);
        }
        if is_refused && !self.terms.version().has_properties() {
            return;
        }
        if !is_refused {
            self.client.counters.confirmed.increment();
        }
        self.send_ack(ack.kind, ack.packet_id, ack.reason);
    }

    /// Sends PUBACK, PUBREC, PUBREL or PUBCOMP.
    pub(crate) fn send_ack(&mut self, kind: AckKind, packet_id: u16, reason: ReasonCode) {
        let ack = Ack { kind, packet_id, reason, properties: PropertyList::NONE };
        ack.encode(self.terms.version(), self.client.output.buffer());
    }
}

/// The acknowledgement of the message at this index of its run, whose wait has ended.
fn ended(at: u32, ack: Acknowledged, end: &WaitEnd) -> Acknowledged {
    let reason = match end {
        WaitEnd::Refused(refusal) if at >= refusal.accepted => ReasonCode::QUOTA_EXCEEDED,
        WaitEnd::Reached | WaitEnd::Refused(_) => return ack,
        WaitEnd::Unrouted if ack.reason.is_error() => return ack,
        WaitEnd::Unrouted => ReasonCode::NO_MATCHING_SUBSCRIBERS,
        WaitEnd::Gone => ReasonCode::UNSPECIFIED_ERROR,
    };
    Acknowledged { reason, ..ack }
}
