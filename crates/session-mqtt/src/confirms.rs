//! Acknowledgements of what the client published, once the disk has it, and PUBREL once a message has left its queue for good.

use leveret_broker::time::Now;
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
        while let Some(due) = self.confirming.pop(&applied) {
            match due {
                Confirming::Publishes(all) => all.into_iter().for_each(|ack| self.acknowledge(ack)),
                Confirming::Release(packet_id) => self.send_ack(AckKind::PubRel, packet_id, ReasonCode::SUCCESS),
            }
        }
    }

    /// Acknowledges a message. Before MQTT 5 a refusal can't be told: the client sends the message again when it comes back.
    fn acknowledge(&mut self, ack: Acknowledged) {
        let is_refused = ack.reason.is_error();
        if is_refused && ack.kind == AckKind::PubRec {
            self.exchanges.forget_received(ack.packet_id);
        }
        if is_refused && !self.version.has_properties() {
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
        ack.encode(self.version, self.client.output.buffer());
    }
}
