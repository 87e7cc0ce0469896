//! Answers to methods: at once, or once something is durable or gone.

use leveret_amqp091::method::{basic, channel, connection, exchange, queue, tx};
use leveret_amqp091::{Method, encode_method};

use super::encode::short;
use super::held::{Answer, InputHold};
use super::questions::Question;
use super::session::{Phase, Session};
use leveret_broker::wait_for::WaitFor;
use leveret_session::gone::GoneAt;

impl Session {
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

    pub(crate) fn note_confirming(&mut self, number: u16) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        self.confirming.note(number, channel);
    }

    pub(crate) fn close_ok(&mut self) {
        encode_method(self.client.output.buffer(), 0, &Method::ConnectionCloseOk(connection::CloseOk {}));
        self.phase = Phase::Finished;
    }

    /// Has a channel wait for its queue.
    pub(super) fn ask(&mut self, channel: u16, question: Question) {
        self.questions.ask(channel, question, &self.client.outbox);
    }

    /// Answers the end of something on a channel once the queues are gone that are deleted with it.
    pub(super) fn answer_when_gone(&mut self, channel: u16, mut gone_at: GoneAt, answer: Answer) {
        match gone_at.ticket() {
            Some(ticket) => self.answer_when_durable(ticket, answer),
            None => self.ask(channel, Question::End { gone_at, answer }),
        }
    }
}
