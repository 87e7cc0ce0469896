//! Packets that change the control plane: their changes are asked for one by one, and answered once all are durable. Until then the
//! connection takes no further packet.

use std::collections::VecDeque;

use super::changing::{CHANGE_KEY, ChangeFor, Changing, Then};
use super::failure::reason_of;
use super::input_hold::MqttHold;
use super::session::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::registry::{ChangeOutcome, ChangeRequest};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_session::driven::Steps as _;

impl Session {
    /// Asks for changes, and goes on when they are durable.
    pub(crate) fn change(&mut self, requests: VecDeque<(ChangeFor, ChangeRequest)>, then: Then, now: Now) {
        self.change_and(WaitFor::default(), requests, then, now);
    }

    /// Asks for changes, and goes on when they are durable and this condition is reached.
    pub(crate) fn change_and(
        &mut self,
        wait: WaitFor,
        requests: VecDeque<(ChangeFor, ChangeRequest)>,
        then: Then,
        now: Now,
    ) {
        self.ask_next(Box::new(Changing { requests, wait, then, asked: None }), now);
    }

    fn ask_next(&mut self, mut changing: Box<Changing>, now: Now) {
        while let Some((target, request)) = changing.requests.pop_front() {
            match self.client.change(request, now) {
                NowOrLater::Now(outcome) => self.note_outcome(&mut changing, target, outcome),
                NowOrLater::Later(answer) => {
                    answer.notify(self.client.outbox.clone(), CHANGE_KEY);
                    changing.asked = Some((target, answer));
                    self.held = MqttHold::Asked(changing);
                    return;
                }
            }
        }
        if self.client.broker.streams.have(&changing.wait) {
            self.held = MqttHold::No;
            self.client.broker.registry.publish();
            return self.proceed(changing.then, now);
        }
        self.held = MqttHold::Durable(Box::new((changing.wait, changing.then)));
    }

    fn note_outcome(&mut self, changing: &mut Changing, target: ChangeFor, outcome: ChangeOutcome) {
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
        let MqttHold::Asked(changing) = &self.held else { return };
        let Some((target, answer)) = &changing.asked else { return };
        let target = *target;
        let Some(outcome) = self.client.take_change(answer, now) else { return };
        let MqttHold::Asked(mut changing) = std::mem::take(&mut self.held) else { return };
        changing.asked = None;
        self.note_outcome(&mut changing, target, outcome);
        self.ask_next(changing, now);
    }

    /// Goes on with the packet whose changes are durable.
    fn proceed(&mut self, then: Then, now: Now) {
        if self.is_over() {
            return;
        }
        match then {
            Then::Open => self.opened(now),
            Then::Subscribed(subscribing) => self.subscribed(subscribing, now),
            Then::Unsubscribed(unsubscribing) => self.unsubscribed(unsubscribing, now),
        }
    }

    /// Goes on with what waited for the disk, if it has been reached.
    pub(crate) fn end_reached_hold(&mut self, now: Now) {
        match &self.held {
            MqttHold::Durable(waiting) if self.client.broker.streams.have(&waiting.0) => {
                let MqttHold::Durable(waiting) = std::mem::take(&mut self.held) else { return };
                self.client.broker.registry.publish();
                self.client.silence.heard(now);
                self.proceed(waiting.1, now);
            }
            MqttHold::Publishes(reason) if reason.is_for_room() && !self.publishes_wait() => {
                self.end_hold();
            }
            MqttHold::Body if !self.publishing.is_pending() => {
                self.end_hold();
                self.flush_in_parts(now);
            }
            _ => {}
        }
    }
}
