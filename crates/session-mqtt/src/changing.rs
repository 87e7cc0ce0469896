//! Changes of the control plane that a packet asked for, and what follows them.

use std::collections::VecDeque;

use leveret_broker::asked::Later;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::wait_for::WaitFor;
use leveret_mqtt::ReasonCode;

use super::subscriptions::{Level, Subscription};

/// The key with which a connection is signalled that a change was made.
pub(crate) const CHANGE_KEY: u64 = 0;

/// The part of a packet that a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeFor {
    /// The topic filter with this index in its packet.
    Filter(usize),
    /// This queue of the session.
    Queue(Level),
}

/// The step that follows the changes.
pub(crate) enum Then {
    /// The session begins or goes on: CONNACK.
    Open,
    /// SUBACK.
    Subscribed(Subscribing),
    /// UNSUBACK.
    Unsubscribed(Unsubscribing),
}

/// Changes that were asked for.
pub(crate) struct Changing {
    /// The next ones.
    pub requests: VecDeque<(ChangeFor, ChangeRequest)>,
    pub wait: WaitFor,
    pub then: Then,
    /// The outcome of the one that was asked for.
    pub asked: Option<(ChangeFor, Later<ChangeOutcome>)>,
}

/// A SUBSCRIBE whose bindings are being made.
pub(crate) struct Subscribing {
    pub packet_id: u16,
    /// The code of each filter.
    pub codes: Vec<u8>,
    /// The subscriptions that aren't refused, by the indexes of their filters.
    pub accepted: Vec<(usize, Subscription)>,
}

impl Subscribing {
    /// Refuses a filter, or all that need a queue.
    pub(crate) fn refuse(&mut self, target: ChangeFor, reason: ReasonCode) {
        let codes = &mut self.codes;
        self.accepted.retain(|(index, subscription)| {
            let is_refused = match target {
                ChangeFor::Filter(refused) => refused == *index,
                ChangeFor::Queue(level) => level == Level::of(subscription.options.qos),
            };
            if is_refused {
                codes[*index] = reason.0;
            }
            !is_refused
        });
    }
}

/// An UNSUBSCRIBE whose bindings are being removed.
pub(crate) struct Unsubscribing {
    pub packet_id: u16,
    /// The code of each filter.
    pub codes: Vec<u8>,
    /// The filters that aren't refused, by their indexes.
    pub accepted: Vec<(usize, Box<str>)>,
}

impl Unsubscribing {
    /// Refuses a filter.
    pub(crate) fn refuse(&mut self, target: ChangeFor, reason: ReasonCode) {
        if let ChangeFor::Filter(refused) = target {
            self.codes[refused] = reason.0;
            self.accepted.retain(|(index, _)| *index != refused);
        }
    }
}
