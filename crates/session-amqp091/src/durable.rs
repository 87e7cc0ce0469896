//! Work that waits for the disk: runs to be applied, confirms, answers.

use leveret_amqp091::{
    Method, ReplyCode, encode_method,
    method::{basic, channel, exchange, queue, tx},
};
use leveret_queue::{WaitReason, Watermarks};

use super::encode::short;
use super::error::ProtocolError;
use super::held::{Answer, InputHold};
use super::session::{Phase, Session};
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::time::Now;
use leveret_broker::wait_for::{WaitEnd, WaitFor};
use leveret_session::commit::PartialReason;
use leveret_session::driven::Steps;

impl Session {
    /// Answers, or unblocks input, if what it waits for has been reached.
    pub(crate) fn end_reached_hold(&mut self, now: Now) {
        match &self.held {
            InputHold::Durable { wait, .. } if let Some(end) = wait.end(&self.client.applied()) => {
                let InputHold::Durable { answer, .. } = std::mem::take(&mut self.held) else { return };
                self.answer_at_end(answer, &end, now);
            }
            InputHold::Publishes { reason: WaitReason::LogFull | WaitReason::DiskFull } if !self.publishes_wait() => {
                self.end_hold();
            }
            InputHold::Upload if self.client.unwritten.is_low() => {
                self.end_hold();
            }
            InputHold::Body if !self.run.is_pending() => {
                self.end_hold();
                self.flush_in_parts(now);
            }
            _ => {}
        }
    }

    /// Sends the confirms that are due.
    pub(crate) fn confirm_durable(&mut self, now: Now) {
        if self.phase != Phase::Running {
            // Nothing may follow the broker's `connection.close`.
            return;
        }
        if self.late_returns.is_some() {
            // Before their confirms.
            self.return_late();
        }
        if self.confirming.is_empty() {
            return;
        }
        let streams = &self.client.broker.streams;
        let applied = self.client.applied();
        let reached = |stream| match is_planted(Bug::ConfirmWhenWritten) {
            true => streams.reached(stream).map(|reached| Watermarks::synced(reached.written)),
            false => applied(stream),
        };
        let (channels, output, counters) = (&mut self.channels, &mut self.client.output, &self.client.counters);
        let (contents, pace) = (&mut self.contents, &mut self.client.pace);
        self.confirming.retain(|number| {
            let Some(channel) = channels.get_mut(number) else { return false };
            let Some(confirms) = channel.confirms.as_mut().filter(|_| channel.is_confirming) else { return false };
            let before = confirms.unanswered();
            while let Some(confirm) = confirms.next(&reached, now.monotonic) {
                let (delivery_tag, multiple) = (confirm.sequence, confirm.multiple);
                let method = if confirm.accepted {
                    Method::BasicAck(basic::Ack { delivery_tag, multiple })
                } else {
                    Method::BasicNack(basic::Nack { delivery_tag, multiple, requeue: false })
                };
                encode_method(contents.out(output, *number), *number, &method);
            }
            if let Some(at) = confirms.next_paced(now.monotonic) {
                pace.wake_at(at);
            }
            let unanswered = confirms.unanswered();
            counters.confirmed.add(before - unanswered);
            channel.stats.confirmed(before - unanswered, now.monotonic);
            channel.is_confirming = unanswered > 0;
            channel.is_confirming
        });
    }

    pub(crate) fn note_confirming(&mut self, number: u16) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        if !std::mem::replace(&mut channel.is_confirming, true) {
            self.confirming.push(number);
        }
    }

    /// Answers now, or blocks input until the position is reached.
    pub(crate) fn answer_when_durable(&mut self, wait: impl Into<WaitFor>, answer: Answer) {
        let wait = wait.into();
        let is_reached = match answer {
            // Its messages are in their queues when they are applied.
            Answer::TxCommitOk { .. } => wait.is_reached(&self.client.applied()),
            _ => self.client.broker.streams.have(&wait),
        };
        if is_reached {
            self.client.broker.registry.publish();
            self.answer(answer);
        } else {
            self.held = InputHold::Durable { wait, answer };
        }
    }

    /// Answers when its wait is over.
    fn answer_at_end(&mut self, answer: Answer, end: &WaitEnd, now: Now) {
        match (answer, PartialReason::of(end)) {
            (answer, None) => {
                self.client.broker.registry.publish();
                self.answer(answer);
            }
            (Answer::TxCommitOk { channel }, Some(reason)) => self.commit_is_partial(channel, reason, now),
            // The log left that it waited for. Without an answer the client would wait for ever, and a wrong one would be worse.
            (_, Some(_)) => self.fail(0, ProtocolError::new(ReplyCode::InternalError, WaitEnd::GONE_TEXT), now),
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        let (name, tag);
        let (number, method) = match answer {
            Answer::Nothing => return,
            Answer::QueueDeclareOk { channel, queue, messages, consumers } => {
                name = queue;
                let queue = short(name.as_bytes());
                let answer = queue::DeclareOk { queue, message_count: messages, consumer_count: consumers };
                (channel, Method::QueueDeclareOk(answer))
            }
            Answer::QueueDeleteOk { channel, deleted } => {
                let count: u64 = deleted.iter().map(|queue| queue.deleted_messages()).sum();
                let message_count = u32::try_from(count).unwrap_or(u32::MAX);
                (channel, Method::QueueDeleteOk(queue::DeleteOk { message_count }))
            }
            Answer::QueueBindOk { channel } => (channel, Method::QueueBindOk(queue::BindOk {})),
            Answer::QueueUnbindOk { channel } => (channel, Method::QueueUnbindOk(queue::UnbindOk {})),
            Answer::QueuePurgeOk { channel, messages } => {
                (channel, Method::QueuePurgeOk(queue::PurgeOk { message_count: messages }))
            }
            Answer::ExchangeDeclareOk { channel } => (channel, Method::ExchangeDeclareOk(exchange::DeclareOk {})),
            Answer::ExchangeDeleteOk { channel } => (channel, Method::ExchangeDeleteOk(exchange::DeleteOk {})),
            Answer::ExchangeBindOk { channel } => (channel, Method::ExchangeBindOk(exchange::BindOk {})),
            Answer::ExchangeUnbindOk { channel } => (channel, Method::ExchangeUnbindOk(exchange::UnbindOk {})),
            Answer::TxCommitOk { channel } => (channel, Method::TxCommitOk(tx::CommitOk {})),
            Answer::BasicCancelOk { channel, tag: ended } => {
                tag = ended;
                (channel, Method::BasicCancelOk(basic::CancelOk { consumer_tag: short(&tag) }))
            }
            Answer::ChannelCloseOk { channel } => {
                self.contents.forget(channel);
                (channel, Method::ChannelCloseOk(channel::CloseOk {}))
            }
            Answer::ConnectionCloseOk => return self.close_ok(),
        };
        encode_method(self.out(number), number, &method);
    }
}
