//! Messages on their way in: those of one route that come in one read go to their queues together.

use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_message::StoredMessage;
use leveret_message::batch::INLINE_BELOW;
use leveret_mqtt::ReasonCode;
use leveret_session::client_connection::WAIT_SHOWN_MAX;
use leveret_session::fan_out::{FanOut, FannedOut};
use smallvec::SmallVec;

use super::confirming::{Acknowledged, Confirming};
use super::input_hold::MqttHold;
use super::publish_run::{LargeBody, OnItsWay, TakenRun};
use super::session::Session;

impl Session {
    /// Adds a message to the run, which is acknowledged once its queues have it.
    pub(crate) fn push(
        &mut self,
        message: &StoredMessage<'_>,
        route: Arc<Route>,
        ack: Option<Acknowledged>,
        kept: WaitFor,
        now: Now,
    ) {
        let (persistent, length) = (message.envelope.durable, message.body.len());
        let shared = &self.client.broker.shared;
        let (to_file, in_file) =
            (route.wants_file(shared, persistent, length), route.streams(shared, persistent, length));
        if to_file || !self.publishing.goes_along(&route, persistent) {
            self.flush_run(now);
        }
        let large = (length >= INLINE_BELOW).then(|| {
            let body = Bytes::copy_from_slice(message.body);
            let file = to_file.then(|| self.client.broker.bodies.write(&body, &self.client.outbox));
            LargeBody { body, file, in_file }
        });
        let is_full = self.publishing.push(message, &route, (ack, kept), large, self.client.pace.burst());
        self.client.routes.keep(route);
        if to_file && self.publishing.is_pending() {
            self.held = MqttHold::Body;
        } else if is_full {
            self.flush_in_parts(now);
        }
    }

    /// The queues of the last route, which show this connection's waits.
    pub(crate) fn published_to(&self) -> SmallVec<[QueueRef; 2]> {
        self.publishing.queues().take(WAIT_SHOWN_MAX).cloned().collect()
    }

    /// Hands the whole run to its queues, before something else is done.
    pub(crate) fn flush_run(&mut self, now: Now) {
        if let Some(mut run) = self.take_run(now) {
            run.fan_out.whole(&mut self.client, now.monotonic);
            self.fanned_out(run, now);
        }
    }

    /// Hands the run to as many of its queues as the turn allows. No input is read until the others have it.
    pub(crate) fn flush_in_parts(&mut self, now: Now) {
        if let Some(run) = self.take_run(now) {
            self.publishing.set_unfinished(Box::new(run));
            self.go_on_with_run(now);
        }
    }

    /// Goes on with a run that not all queues have.
    pub(crate) fn go_on_with_run(&mut self, now: Now) {
        let Some(mut run) = self.publishing.take_unfinished() else { return };
        match run.fan_out.part(&mut self.client, now.monotonic) {
            true => self.fanned_out(*run, now),
            false => self.publishing.set_unfinished(run),
        }
    }

    /// Ends a run that not all queues have: the connection ends.
    pub(crate) fn end_run(&mut self, now: Now) {
        if let Some(mut run) = self.publishing.take_unfinished() {
            run.fan_out.whole(&mut self.client, now.monotonic);
            self.fanned_out(*run, now);
        }
        if self.publishing.is_pending() {
            // Its client left without an acknowledgement.
            self.publishing.drop_run();
        }
        self.flush_run(now);
    }

    fn take_run(&mut self, now: Now) -> Option<OnItsWay> {
        let TakenRun { route, batch, persistent, file, acks, kept } = self.publishing.take_run()?;
        route.count(batch.len() as u64, now.monotonic);
        self.client.trace_published(0, &route, &batch, now);
        Some(OnItsWay { acks, kept, fan_out: FanOut::new(&self.client, route, batch, persistent, file) })
    }

    /// Finishes a run that all its queues were offered.
    fn fanned_out(&mut self, run: OnItsWay, now: Now) {
        let FannedOut { batch, mut accepted, wait, reached_nobody, slot, paced_by, .. } =
            run.fan_out.end(&mut self.client);
        if reached_nobody {
            accepted = batch.len() as u32;
            self.client.counters.unroutable_dropped.add(u64::from(accepted));
        }
        self.client.pace.published(slot, paced_by, !run.acks.is_empty(), now.monotonic);
        if run.acks.is_empty() {
            return;
        }
        self.client.counters.published_with_confirm.add(run.acks.len() as u64);
        let answer = |(at, ack): (u32, Acknowledged)| match at < accepted {
            true => (at, ack),
            false => (at, Acknowledged { reason: ReasonCode::QUOTA_EXCEEDED, ..ack }),
        };
        let wait = if run.kept.is_nothing() { wait } else { WaitFor::all([wait, run.kept]) };
        self.confirming.push(wait, Confirming::Publishes(run.acks.into_iter().map(answer).collect()));
    }
}
