//! What waits for the disk: queues to be applied, confirms, answers.

use std::sync::Arc;

use leveret_amqp091::{
    Method, encode_method,
    method::{basic, exchange, queue},
};
use leveret_log::Position;

use super::held::{Answer, Held};
use super::publish::short;
use super::session::Session;
use crate::queue_handle::QueueRef;

/// A run that this connection published and nobody could see before it is durable.
pub(crate) struct Unapplied {
    /// Of its first run.
    pub first: Position,
    /// Of its last run.
    pub position: Position,
    pub queue: QueueRef,
    pub bytes: u64,
}

impl Session {
    /// Applies, confirms and answers whatever became durable.
    pub(crate) fn durable_work(&mut self) {
        let durable = self.broker.commit.durable();
        let mut applied: Option<QueueRef> = None;
        while let Some(unapplied) = self.unapplied.pop_front_if(|first| first.position <= durable) {
            self.undurable_bytes -= unapplied.bytes;
            if !applied.as_ref().is_some_and(|last| Arc::ptr_eq(last, &unapplied.queue)) {
                unapplied.queue.apply();
                applied = Some(unapplied.queue);
            }
        }
        // Nothing is confirmed before it is in its queue, also when later runs of the entry aren't durable.
        if let Some(unapplied) = self.unapplied.front().filter(|unapplied| unapplied.first <= durable) {
            unapplied.queue.apply();
        }
        self.confirm_durable();
        match &self.held {
            Held::Durable { position, .. } if *position <= durable => {
                let Held::Durable { answer, .. } = std::mem::take(&mut self.held) else { return };
                self.broker.registry.publish();
                self.answer(answer);
            }
            Held::LogRoom { .. } if !self.publishes_wait() => {
                self.held.end();
            }
            _ => {}
        }
    }

    /// Sends the confirms that are due.
    pub(crate) fn confirm_durable(&mut self) {
        if self.confirming.is_empty() {
            return;
        }
        let durable = self.broker.commit.durable();
        let (channels, output, counters) = (&mut self.channels, &mut self.output, &self.counters);
        self.confirming.retain(|number| {
            let Some(confirms) = channels.get_mut(number).and_then(|channel| channel.confirms.as_mut()) else {
                return false;
            };
            let before = confirms.unanswered();
            while let Some(confirm) = confirms.next(durable) {
                let (delivery_tag, multiple) = (confirm.sequence, confirm.multiple);
                let method = if confirm.accepted {
                    Method::BasicAck(basic::Ack { delivery_tag, multiple })
                } else {
                    Method::BasicNack(basic::Nack { delivery_tag, multiple, requeue: false })
                };
                encode_method(output.buffer(), *number, &method);
            }
            counters.confirmed.add(before - confirms.unanswered());
            confirms.unanswered() > 0
        });
    }

    pub(crate) fn note_confirming(&mut self, number: u16) {
        if !self.confirming.contains(&number) {
            self.confirming.push(number);
        }
    }

    pub(crate) fn note_unapplied(&mut self, position: Position, queue: &QueueRef, bytes: u64) {
        self.undurable_bytes += bytes;
        match self.unapplied.back_mut() {
            Some(last) if Arc::ptr_eq(&last.queue, queue) && last.position + 64 > position && last.bytes < 4096 => {
                // Few small runs of the same queue: the first is answered with the last.
                last.position = position;
                last.bytes += bytes;
            }
            _ => self.unapplied.push_back(Unapplied { first: position, position, queue: queue.clone(), bytes }),
        }
    }

    /// Answers now, or holds input back until `position` is durable.
    pub(crate) fn answer_when_durable(&mut self, position: Position, answer: Answer) {
        if position <= self.broker.commit.durable() {
            self.broker.registry.publish();
            self.answer(answer);
        } else {
            self.held = Held::Durable { position, answer };
        }
    }

    /// Leaves word with the commit stream when something of this connection isn't durable.
    pub(crate) fn register(&mut self) {
        let mut wanted = self.unapplied.front().map(|first| first.position);
        match &self.held {
            Held::Durable { position, .. } => wanted = Some(wanted.map_or(*position, |other| other.min(*position))),
            Held::No if self.publishes_wait() => wanted = Some(wanted.unwrap_or(self.broker.commit.durable() + 1)),
            Held::LogRoom { .. } => wanted = Some(wanted.unwrap_or(self.broker.commit.durable() + 1)),
            _ => {}
        }
        if let Some(position) = wanted
            && self.registered.is_none_or(|registered| registered > position)
        {
            self.registered = Some(position);
            self.broker.commit.notify(position, &self.outbox);
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        let name;
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
        };
        encode_method(self.output.buffer(), number, &method);
    }
}
