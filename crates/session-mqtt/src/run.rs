//! Messages on their way in: those of one route that come in one read go to their queues together.

use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::bodies::BodyFile;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_message::batch::INLINE_BELOW;
use leveret_message::{BatchBuilder, StoredMessage};
use leveret_mqtt::ReasonCode;
use leveret_session::client_connection::WAIT_SHOWN_MAX;
use leveret_session::fan_out::{self, FanOut, FannedOut};
use smallvec::SmallVec;

use super::confirming::{Acknowledged, Confirming};
use super::input_hold::MqttHold;
use super::publish_run::{OnItsWay, PublishRun};
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
        let is_same =
            self.run.as_ref().is_some_and(|run| run.persistent == persistent && run.route.is_same_way(&route));
        if to_file || !is_same {
            self.flush_run(now);
        }
        let broker = &self.client.broker;
        let run = self.run.get_or_insert_with(|| {
            Box::new(PublishRun {
                builder: BatchBuilder::default(),
                route: route.clone(),
                persistent,
                messages_max: fan_out::messages_max(&route),
                acks: Vec::new(),
                kept: WaitFor::default(),
                file: None,
            })
        });
        if !is_same {
            (run.messages_max, run.persistent, run.route) = (fan_out::messages_max(&route), persistent, route.clone());
        }
        let at = run.builder.len() as u32;
        run.acks.extend(ack.map(|ack| (at, ack)));
        if !kept.is_nothing() {
            run.kept = WaitFor::all([std::mem::take(&mut run.kept), kept]);
        }
        if length >= INLINE_BELOW {
            let body = Bytes::copy_from_slice(message.body);
            run.file = to_file.then(|| broker.bodies.write(&body, &self.client.outbox));
            match &run.file {
                Some(file) if in_file => run.builder.push_file(message, file.body(Bytes::new())),
                _ => run.builder.push_large(message, body),
            }
        } else {
            run.builder.push_message(message);
        }
        let is_full = run.builder.len() >= run.messages_max.min(self.client.pace.burst()) || run.builder.is_full();
        self.client.routes.keep(route);
        if to_file && self.run_is_pending() {
            self.held = MqttHold::Body;
        } else if is_full {
            self.flush_in_parts(now);
        }
    }

    /// Whether the run waits for the file of a body.
    pub(crate) fn run_is_pending(&self) -> bool {
        self.run.as_ref().and_then(|run| run.file.as_ref()).is_some_and(BodyFile::is_pending)
    }

    /// The queues of the last route, which show this connection's waits.
    pub(crate) fn published_to(&self) -> SmallVec<[QueueRef; 2]> {
        let queues = self.run.iter().flat_map(|run| run.route.queues.iter());
        queues.take(WAIT_SHOWN_MAX).cloned().collect()
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
            self.unfinished = Some(Box::new(run));
            self.go_on_with_run(now);
        }
    }

    /// Goes on with a run that not all queues have.
    pub(crate) fn go_on_with_run(&mut self, now: Now) {
        let Some(mut run) = self.unfinished.take() else { return };
        match run.fan_out.part(&mut self.client, now.monotonic) {
            true => self.fanned_out(*run, now),
            false => self.unfinished = Some(run),
        }
    }

    /// Ends a run that not all queues have: the connection ends.
    pub(crate) fn end_run(&mut self, now: Now) {
        if let Some(mut run) = self.unfinished.take() {
            run.fan_out.whole(&mut self.client, now.monotonic);
            self.fanned_out(*run, now);
        }
        if self.run_is_pending() {
            // Its client left without an acknowledgement.
            self.run = None;
        }
        self.flush_run(now);
    }

    fn take_run(&mut self, now: Now) -> Option<OnItsWay> {
        if self.run_is_pending() {
            return None;
        }
        let run = self.run.as_mut().filter(|run| !run.builder.is_empty())?;
        let (batch, acks, file) = (Arc::new(run.builder.finish()), std::mem::take(&mut run.acks), run.file.take());
        let (route, persistent, kept) = (run.route.clone(), run.persistent, std::mem::take(&mut run.kept));
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
