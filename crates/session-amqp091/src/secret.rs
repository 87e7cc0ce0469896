//! `connection.update-secret`: what the user's permissions don't allow any more ends.

use std::collections::BTreeSet;

use leveret_amqp091::{Method, ReplyCode, encode_method, method::connection};
use leveret_model::Action;

use super::error::{ProtocolError, Result, unanswered};
use super::session::Session;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::CONSUMER;

impl Session {
    /// The client renewed the secret that it logged in with. A token is checked like that of a login. Users of the node's own database
    /// have none that could expire: as in RabbitMQ, any secret is taken. The consumers that the user may not have any more are
    /// cancelled. Publishes are authorized one by one.
    ///
    /// # Errors
    /// 530: the backend refused the secret, or the user may not enter the vhost any more.
    pub(crate) fn update_secret(&mut self, secret: &[u8], reason: &str, now: Now) -> Result<()> {
        match self.client.check_renewal(secret, now).ok_or_else(unanswered)? {
            Ok(who) => {
                let mechanism = self.client.mechanism().clone();
                self.client.log_in(who, &mechanism, now);
            }
            Err(not_renewed) => {
                self.told().secret_refused(not_renewed.reason());
                return Err(ProtocolError::new(ReplyCode::NotAllowed, not_renewed.text()));
            }
        }
        self.told().secret_updated(reason);
        if self.client.no_longer_grants(Action::Enter).is_some() {
            let text =
                format!("access to vhost '{}' refused for user '{}'", self.client.vhost, self.client.identity.name());
            return Err(ProtocolError::new(ReplyCode::NotAllowed, text));
        }
        encode_method(self.out(0), 0, &Method::ConnectionUpdateSecretOk(connection::UpdateSecretOk {}));
        let keys: BTreeSet<u64> = self.consumers.keys().copied().collect();
        for key in keys {
            let name = self.consumers.get(&key).map(|consumer| consumer.queue().info().name.clone());
            let is_allowed = name.is_none_or(|name| self.client.no_longer_grants(Action::Consume(&name)).is_none());
            if !is_allowed && let Some(consumer) = self.forget_consumer(key) {
                self.client.budget.spend(CONSUMER);
                let left = consumer.queue().cancel(consumer.id(), now.monotonic);
                // A queue that goes with its last consumer goes in its own time: no answer waits for it.
                let _gone_at = self.client.delete_if_unused(consumer.queue(), left, now);
                self.send_cancel(&consumer);
            }
        }
        Ok(())
    }
}
