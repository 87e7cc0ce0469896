//! `basic.get`.

use std::sync::Arc;

use leveret_amqp091::{Method, ReplyCode, ShortStr, encode_content_body, encode_header, encode_method, method::basic};
use leveret_message::deliver::{to_amqp091, within};
use leveret_model::Action;
use leveret_queue::{GetOutcome, Link};

use super::contents::Lead;
use super::encode::{delivery_of, short};
use super::error::{ProtocolError, Result, no_channel, precondition};
use super::held::InputHold;
use super::questions::{Getting, Question};
use super::session::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::LedgerQueueRef;
use leveret_broker::reply_to::is_volatile;
use leveret_broker::stats::Stat;
use leveret_broker::time::Now;

const CLASS_BASIC: u16 = 60;

impl Session {
    /// `basic.get`. If the message has to be read from disk, the channel waits meanwhile.
    pub(crate) fn get(&mut self, channel: u16, get: &basic::Get<'_>, now: Now) -> Result<()> {
        let name = self.queue_name(channel, get.queue)?;
        if is_volatile(name.as_bytes()) {
            return Err(self.refuse_reply_queue(&name, "basic.get"));
        }
        let queue = self.usable_queue(&name, Action::Consume(&name))?;
        self.try_get(channel, queue.check_get()?, get.no_ack, now)
    }

    /// Answers a get, or has the channel wait until that is possible.
    pub(crate) fn try_get(&mut self, channel: u16, queue: LedgerQueueRef, no_ack: bool, now: Now) -> Result<()> {
        let max = self.client.broker.settings.unsettled_per_channel_max;
        if !no_ack
            && let Some(entry) = self.channels.get(&channel)
            && entry.unsettled().room(max, &self.client.account) == 0
        {
            return Err(precondition(format!(
                "number of unacknowledged deliveries on channel {channel} has reached the maximum allowed limit, its own \
                 ({max}) or that of its user, vhost or node; acknowledge some, or raise unsettled_max_per_channel, \
                 unsettled_max_per_user, unsettled_max_per_vhost or unsettled_max_per_node"
            )));
        }
        let link: Arc<dyn Link> = self.client.outbox.clone();
        match queue.get(no_ack, &link, u64::from(channel), now.monotonic) {
            NowOrLater::Now(outcome) => self.got(channel, queue, no_ack, outcome, now),
            NowOrLater::Later(answer) => {
                let state = Getting::Asked { answer, is_loaded: false };
                self.ask(channel, Question::Get { queue, no_ack, state });
                Ok(())
            }
        }
    }

    /// Handles the answer of the queue.
    pub(super) fn got(
        &mut self,
        channel: u16,
        queue: LedgerQueueRef,
        no_ack: bool,
        outcome: GetOutcome,
        now: Now,
    ) -> Result<()> {
        let quorum = queue.is_quorum();
        let (taken, left) = match outcome {
            GetOutcome::Wait => {
                self.ask(channel, Question::Get { queue, no_ack, state: Getting::Reading });
                return Ok(());
            }
            GetOutcome::Failed(reason) => return Err(ProtocolError::new(ReplyCode::NotFound, queue.crashed(&reason))),
            GetOutcome::Converted => return self.try_get(channel, queue.newest(), no_ack, now),
            GetOutcome::Empty => {
                self.client.counters.get_empty_of(quorum).add(1);
                self.channel(channel)?.stats_mut().count_of_queue(queue.info(), Stat::GetEmpty, 1, now.monotonic);
                let answer = Method::BasicGetEmpty(basic::GetEmpty { cluster_id: ShortStr::EMPTY });
                encode_method(self.out(channel), channel, &answer);
                return Ok(());
            }
            GetOutcome::Message(taken, left) => (taken, left),
        };
        self.client.counters.get_of(quorum, no_ack).add(1);
        let stat = if no_ack { Stat::GetNoAck } else { Stat::Get };
        if taken.redelivered {
            self.client.counters.redelivered_of(quorum).add(1);
        }
        let delivery = delivery_of(&taken, &self.client.broker.settings, now);
        self.client.trace_delivered(channel, &queue.info().name, taken.part(), &delivery, now);
        let (frame_max, properties_max) = (self.negotiated.frame_max(), self.negotiated.properties_max());
        let (node_ms, looks) = (self.client.broker.consumer_timeout_ms(), &mut self.client.looks);
        let entry = self.channels.get_mut(&channel).ok_or_else(|| no_channel(channel))?;
        entry.stats_mut().count_of_queue(queue.info(), stat, 1, now.monotonic);
        entry.stats_mut().count_of_queue(queue.info(), Stat::Redeliver, u64::from(taken.redelivered), now.monotonic);
        let tag = entry.unsettled_mut().next_tag();
        if !no_ack {
            let source = entry.unsettled_mut().get_source(&queue);
            entry.unsettled_mut().delivered(tag, source, &taken, 0, now.monotonic);
            let timeout = entry.unsettled().source(source).timeout;
            entry.unsettled_mut().watch(timeout, node_ms, now.monotonic, channel, looks);
        }
        if taken.ends_in_file() {
            if let Some(entry) = self.channels.get_mut(&channel) {
                entry.unsettled_mut().report(&mut self.client.account);
            }
            self.begin_content(channel, Lead::GetOk { left }, tag, taken, &queue);
            self.held = InputHold::Content;
            return Ok(());
        }
        let message = taken.batch.message(taken.index as usize).view();
        let answer = basic::GetOk {
            delivery_tag: tag,
            redelivered: taken.redelivered,
            exchange: short(message.envelope.exchange),
            routing_key: short(message.envelope.routing_key),
            message_count: u32::try_from(left).unwrap_or(u32::MAX),
        };
        let content = to_amqp091(&message, &delivery);
        let properties = within(&message, content.properties, properties_max)
            .map_err(|bytes| ProtocolError::header_too_large(bytes, frame_max))?;
        let out = self.out(channel);
        encode_method(out, channel, &Method::BasicGetOk(answer));
        encode_header(out, channel, CLASS_BASIC, content.body.len() as u64, &properties);
        encode_content_body(out, channel, &content.body, frame_max);
        if let Some(entry) = self.channels.get_mut(&channel) {
            entry.unsettled_mut().report(&mut self.client.account);
        }
        Ok(())
    }
}
