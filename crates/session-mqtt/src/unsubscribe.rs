//! UNSUBSCRIBE: the bindings of topic filters end. Messages that the queues have are still delivered only if another subscription
//! matches them.

use std::collections::VecDeque;

use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;
use leveret_model::{Command, RefusedKind};
use leveret_mqtt::{PropertyList, ReasonCode, UnsubAck, Unsubscribe};

use super::changing::{ChangeFor, Then, Unsubscribing};
use super::failure::{BrokenRule, is_unauthorized, reason_of, refused_as_a_whole};
use super::session::Session;
use super::subscriptions::Level;

impl Session {
    /// UNSUBSCRIBE.
    pub(crate) fn unsubscribe(&mut self, unsubscribe: &Unsubscribe<'_>, now: Now) -> Result<(), BrokenRule> {
        let mut unsubscribing =
            Unsubscribing { packet_id: unsubscribe.packet_id, codes: Vec::new(), accepted: Vec::new() };
        let mut requests = VecDeque::new();
        for (index, filter) in unsubscribe.topics.iter().enumerate() {
            let Some(known) = self.subscriptions.get(filter) else {
                unsubscribing.codes.push(ReasonCode::NO_SUBSCRIPTION_EXISTED.0);
                continue;
            };
            let bind = self.binding(known);
            let queue = Level::of(known.options.qos).queue_name(self.terms.client_id());
            unsubscribing.codes.push(ReasonCode::SUCCESS.0);
            match self.may_bind(&bind, &queue) {
                Err(refused) if refused.kind == RefusedKind::Unanswered => return Err(refused_as_a_whole(&refused)),
                Ok(permit) => {
                    requests.push_back((ChangeFor::Filter(index), ChangeRequest::new(permit, Command::Unbind(bind))));
                    unsubscribing.accepted.push((index, filter.into()));
                }
                Err(refused) if is_unauthorized(&refused) && self.shared.settings.disconnects_unauthorized => {
                    return Err(BrokenRule::new(ReasonCode::NOT_AUTHORIZED, refused.to_string()));
                }
                Err(refused) => {
                    self.tell_refused(&refused.to_string());
                    unsubscribing.codes[index] = reason_of(&refused).0;
                }
            }
        }
        self.change(requests, Then::Unsubscribed(unsubscribing), now);
        Ok(())
    }

    /// The bindings of an UNSUBSCRIBE are gone: answers.
    pub(crate) fn unsubscribed(&mut self, unsubscribing: Unsubscribing, _now: Now) {
        let Unsubscribing { packet_id, codes, accepted } = unsubscribing;
        for (_, filter) in accepted {
            self.subscriptions.remove(&filter);
            self.searches.retain(|search| search.filter != filter);
        }
        let unsuback = UnsubAck { packet_id, properties: PropertyList::NONE, codes: &codes };
        unsuback.encode(self.terms.version(), self.client.output.buffer());
    }
}
