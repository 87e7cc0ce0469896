//! Methods that look at what queues hold. Earlier publishes of their connection have to be in the queues by then: clients that publish
//! without confirms rely on it, as the methods of a channel take effect in order.

use leveret_amqp091::{Frame, FrameKind, Method, method::basic};

use super::session::{Phase, Session};

/// Class and method, as their frames begin, of `basic.get`, `basic.consume`, `queue.declare`, `queue.bind`, `queue.purge`,
/// `queue.delete` and `exchange.bind`.
fn is_asking(class_and_method: [u8; 4]) -> bool {
    matches!(class_and_method, [0, 60, 0, 70] | [0, 60, 0, 20] | [0, 50, 0, 10 | 20 | 30 | 40] | [0, 40, 0, 30])
}

impl Session {
    /// Whether a frame looks at what queues hold.
    pub(crate) fn asks_for_contents(&self, frame: &Frame<'_>) -> bool {
        frame.kind == FrameKind::Method
            && frame.payload.first_chunk().is_some_and(|begin| is_asking(*begin))
            && self.phase == Phase::Running
            && Method::decode(frame.payload).is_ok_and(|method| self.looks_at_contents(&method))
    }

    fn looks_at_contents(&self, method: &Method<'_>) -> bool {
        match method {
            // The answer says how many messages the queue has.
            Method::QueueDeclare(declare) => declare.passive || !declare.nowait,
            // A new binding brings the last messages of its exchange.
            Method::QueueBind(bind) => self.keeps_history(bind.exchange.as_bytes()),
            Method::ExchangeBind(bind) => self.keeps_history(bind.source.as_bytes()),
            Method::BasicConsume(consume) => self.begins_at_an_offset(consume),
            _ => true,
        }
    }

    /// Whether this exchange keeps its last messages. One that was declared without waiting for the answer is published by now: its
    /// channel took no further method before.
    fn keeps_history(&self, exchange: &[u8]) -> bool {
        let Ok(name) = str::from_utf8(exchange) else { return false };
        let snapshot = self.client.broker.registry.snapshot();
        snapshot.topology.exchange(&self.client.vhost, name).is_some_and(|exchange| exchange.history_queue.is_some())
    }

    /// Whether a consumer may begin behind the last message of a stream.
    fn begins_at_an_offset(&self, consume: &basic::Consume<'_>) -> bool {
        let Ok(name) = str::from_utf8(consume.queue.as_bytes()) else { return false };
        // Without a name it is the channel's last queue, which isn't looked up for this.
        let snapshot = self.client.broker.registry.snapshot();
        name.is_empty() || snapshot.queue(&self.client.vhost, name).is_some_and(|queue| queue.is_stream())
    }
}
