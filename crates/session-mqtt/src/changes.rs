//! Packets that change the control plane: their changes are asked for one by one, and answered once all are durable. Until then the
//! connection takes no further packet.

use std::collections::VecDeque;

use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_model::{Refused, RefusedKind};
use leveret_mqtt::ReasonCode;
use leveret_session::driven::Steps as _;

use super::held::InputHold;
use super::session::Session;
use super::subscribe::Subscribing;
use super::subscriptions::Level;
use super::unsubscribe::Unsubscribing;

/// The key with which a connection is signalled that a change was made.
pub(crate) const CHANGE_KEY: u64 = 0;

/// What a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The topic filter with this index in its packet.
    Filter(usize),
    /// This queue of the session.
    Queue(Level),
}

/// What follows the changes.
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
    pub requests: VecDeque<(Target, ChangeRequest)>,
    pub wait: WaitFor,
    pub then: Then,
    /// The outcome of the one that was asked for.
    asked: Option<(Target, Later<ChangeOutcome>)>,
}

/// The reason code of a refusal.
pub(crate) fn reason_of(refused: &Refused) -> ReasonCode {
    match refused.kind {
        RefusedKind::AccessRefused | RefusedKind::NotAllowed => ReasonCode::NOT_AUTHORIZED,
        RefusedKind::LimitReached => ReasonCode::QUOTA_EXCEEDED,
        _ => ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
    }
}

impl Session {
    /// Asks for changes, and goes on when they are durable.
    pub(crate) fn change(&mut self, requests: VecDeque<(Target, ChangeRequest)>, then: Then, now: Now) {
        self.ask_next(Box::new(Changing { requests, wait: WaitFor::default(), then, asked: None }), now);
    }

    fn ask_next(&mut self, mut changing: Box<Changing>, now: Now) {
        while let Some((target, request)) = changing.requests.pop_front() {
            match self.client.change(request, now) {
                NowOrLater::Now(outcome) => self.note_outcome(&mut changing, target, outcome),
                NowOrLater::Later(answer) => {
                    answer.notify(self.client.outbox.clone(), CHANGE_KEY);
                    changing.asked = Some((target, answer));
                    self.held = InputHold::Asked(changing);
                    return;
                }
            }
        }
        if self.client.broker.streams.have(&changing.wait) {
            self.held = InputHold::No;
            self.client.broker.registry.publish();
            return self.proceed(changing.then, now);
        }
        self.held = InputHold::Durable(Box::new((changing.wait, changing.then)));
    }

    fn note_outcome(&mut self, changing: &mut Changing, target: Target, outcome: ChangeOutcome) {
        match outcome {
            Ok(changed) => changing.wait.and(changed.ticket.into()),
            Err(refused) => {
                self.tell_refused(&refused.to_string());
                match &mut changing.then {
                    Then::Subscribed(subscribing) => subscribing.refuse(target, reason_of(&refused)),
                    Then::Unsubscribed(unsubscribing) => unsubscribing.refuse(target, reason_of(&refused)),
                    // A queue that can't be deleted is found again.
                    Then::Open => {}
                }
            }
        }
    }

    /// Takes the outcome of a change that came later.
    pub(crate) fn take_change(&mut self, now: Now) {
        let InputHold::Asked(changing) = &self.held else { return };
        let Some((target, answer)) = &changing.asked else { return };
        let target = *target;
        let Some(outcome) = self.client.take_change(answer, now) else { return };
        let InputHold::Asked(mut changing) = std::mem::take(&mut self.held) else { return };
        changing.asked = None;
        self.note_outcome(&mut changing, target, outcome);
        self.ask_next(changing, now);
    }

    /// Goes on with the packet whose changes are durable.
    pub(crate) fn proceed(&mut self, then: Then, now: Now) {
        if self.is_over() {
            return;
        }
        match then {
            Then::Open => self.opened(now),
            Then::Subscribed(subscribing) => self.subscribed(subscribing, now),
            Then::Unsubscribed(unsubscribing) => self.unsubscribed(unsubscribing, now),
        }
    }
}
