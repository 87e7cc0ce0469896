//! Outcomes of publishes that are due.

use leveret_amqp10::performative::Disposition;
use leveret_amqp10::{DeliveryState, Error, Performative, Role, Serial, condition, encode_performative};
use leveret_queue::Watermarks;

use super::connection::Connection;
use super::link::Link;
use super::rejection;
use super::session::Session;
use super::unconfirmed::{Due, PublishOutcome, merge};
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitEnd;

impl Connection {
    /// Sends the outcomes that are due, merged over all links of a session.
    pub(crate) fn confirm(&mut self, now: Now) {
        for channel in self.sessions.channels_with_work() {
            let Some(mut session) = self.sessions.take(channel) else { continue };
            if session.is_confirming() {
                self.confirm_session(&mut session, now);
            }
            self.sessions.put(session);
        }
    }

    pub(crate) fn confirm_session(&mut self, session: &mut Session, now: Now) {
        let broker = self.client.broker.clone();
        let applied = self.client.applied();
        let reached = |stream| match is_planted(Bug::AcceptWhenWritten) {
            true => broker.streams.reached(stream).map(|reached| Watermarks::synced(reached.written)),
            false => applied(stream),
        };
        let sync = broker.commit.sync_time();
        let mut due = std::mem::take(&mut self.due);
        for handle in session.take_confirming() {
            let Some(Link::Publisher(publisher)) = session.link(handle) else { continue };
            publisher.take_due(&reached, sync, now.monotonic, &mut due);
            // Credit comes with the slot, even if every outcome was sent before.
            let grants_at = publisher.grants_at();
            let is_paced = grants_at > now.monotonic;
            if is_paced {
                self.client.pace.wake_at(grants_at);
            }
            let (waits, granted) = (publisher.awaits_outcomes() || is_paced, publisher.is_flow_due());
            if waits {
                session.note_confirming(handle);
            }
            if granted {
                session.note_granted(handle);
            }
        }
        merge(&mut due);
        for Due { first, last, outcome } in due.drain(..) {
            if outcome == PublishOutcome::Accepted {
                self.client.counters.confirmed.add(u64::from(last.since(first)) + 1);
            }
            self.send_outcome(session.channel(), first, last, &outcome);
        }
        self.due = due;
    }

    /// Sends the client the outcome of its messages.
    pub(crate) fn send_outcome(&mut self, channel: u16, first: Serial, last: Serial, outcome: &PublishOutcome) {
        // A function, as a closure can't be generic over the lifetime.
        fn disposition(first: Serial, last: Serial, state: DeliveryState<'_>) -> Performative<'_> {
            Performative::Disposition(Disposition {
                role: Role::Receiver,
                first: first.0,
                last: (first != last).then_some(last.0),
                settled: true,
                state: Some(state),
                batchable: false,
            })
        }
        let mut rejected = |error: Error<'_>| {
            self.send_error(channel, error, |error| {
                disposition(first, last, DeliveryState::Rejected { error: Some(error) })
            });
        };
        match outcome {
            PublishOutcome::Accepted => {
                let accepted = disposition(first, last, DeliveryState::Accepted);
                encode_performative(self.client.output.buffer(), channel, &accepted);
            }
            PublishOutcome::Released => {
                let released = disposition(first, last, DeliveryState::Released);
                encode_performative(self.client.output.buffer(), channel, &released);
            }
            PublishOutcome::Rejected { queue, reason } => rejection::with_refusal(queue, reason, rejected),
            PublishOutcome::Unroutable(failure) => rejection::with_error(failure, rejected),
            PublishOutcome::Lost => rejected(Error::new(condition::INTERNAL_ERROR, WaitEnd::GONE_TEXT)),
        }
    }
}
