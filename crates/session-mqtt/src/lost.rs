//! Consumers whose queues answer late, or are gone.

use leveret_mqtt::ReasonCode;

use super::failure::BrokenRule;
use super::session::Session;
use super::subscriptions::Level;
use leveret_broker::time::Now;

impl Session {
    /// The queue has answered whether it has the consumer with this key. If not, it is gone, and the session with it.
    pub(crate) fn consumer_answered(&mut self, key: u64, now: Now) {
        let Some(level) = self.level_of(key) else { return };
        let asked = self.consumers[level as usize].as_mut().and_then(|consumer| consumer.asked.take());
        if let Some(Err(_)) = asked.and_then(|answer| answer.take()) {
            self.lose_queue(level, now);
        }
    }

    /// Ends the connection, since a queue of its session is gone.
    pub(crate) fn lose_queue(&mut self, level: Level, now: Now) {
        self.forget_consumer(level);
        let text = format!("queue '{}' of the session is gone", level.queue_name(&self.client_id));
        self.fail(&BrokenRule::new(ReasonCode::ADMINISTRATIVE_ACTION, text), now);
    }
}
