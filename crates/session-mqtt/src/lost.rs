//! Consumers whose queues answer late, or are gone.

use leveret_mqtt::ReasonCode;

use super::consumer::Consumer;
use super::failure::BrokenRule;
use super::session::Session;
use super::subscriptions::Level;
use leveret_broker::time::Now;

impl Session {
    /// The queue has answered whether it has the consumer with this key. If not, it is gone, and the session with it.
    pub(crate) fn consumer_answered(&mut self, key: u64, now: Now) {
        let Some(level) = self.level_of(key) else { return };
        if self.consumers.get_mut(level).is_some_and(Consumer::is_refused) {
            self.forget_consumer(level);
            let name = level.queue_name(self.terms.client_id());
            let text = format!("queue '{name}' of the session is gone, or a connection at another node has it");
            self.fail(&BrokenRule::new(ReasonCode::SERVER_UNAVAILABLE, text), now);
        }
    }

    /// Ends the connection, since a queue of its session is gone.
    pub(crate) fn lose_queue(&mut self, level: Level, now: Now) {
        self.forget_consumer(level);
        let text = format!("queue '{}' of the session is gone", level.queue_name(self.terms.client_id()));
        self.fail(&BrokenRule::new(ReasonCode::ADMINISTRATIVE_ACTION, text), now);
    }
}
