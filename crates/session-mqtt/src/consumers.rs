//! The consumers of a session: one for each of its queues.

use std::sync::Arc;

use leveret_model::{Action, Arguments, DeclareQueue, Value};
use leveret_mqtt::ReasonCode;
use leveret_queue::{ConsumerFlow, ConsumerMode, ConsumerOptions};

use super::consumer::{Consumer, TAG};
use super::failure::reason_of;
use super::session::Session;
use super::subscriptions::Level;
use leveret_broker::asked::NowOrLater;
use leveret_broker::quota::Kind;
use leveret_broker::time::Now;
use leveret_session::client_connection::ConsumerUse;

impl Session {
    /// The declaration of a queue of the session. It goes with its connection, or after the session's expiry.
    pub(crate) fn declaration(&self, level: Level) -> DeclareQueue {
        let settings = &self.shared.settings;
        let ends_with_connection = !self.terms.outlives_connection();
        let mut arguments = Arguments::default();
        if ends_with_connection && level == Level::Zero {
            // Messages that wait for a client that doesn't read are bounded.
            arguments = arguments.with("x-max-length", Value::Int(settings.waiting_max as i64));
            arguments = arguments.with("x-max-length-bytes", Value::Int(settings.waiting_bytes_max as i64));
        }
        if !ends_with_connection && self.terms.session_expiry_s() != u32::MAX {
            arguments = arguments.with("x-expires", Value::Int(i64::from(self.terms.session_expiry_s()) * 1000));
        }
        if !ends_with_connection && settings.quorum_queues {
            arguments = arguments.with("x-queue-type", Value::from("quorum"));
        }
        DeclareQueue {
            vhost: self.client.vhost.clone(),
            name: level.queue_name(self.terms.client_id()),
            server_named: false,
            durable: !ends_with_connection,
            auto_delete: false,
            exclusive: ends_with_connection,
            connection: Some(self.client.id),
            arguments,
        }
    }

    /// Consumes from a queue of the session, if it doesn't yet.
    ///
    /// # Errors
    /// The reason code, when the client may not, or the queue is gone.
    pub(crate) fn consume(&mut self, level: Level, now: Now) -> Result<(), ReasonCode> {
        if self.consumers.get(level).is_some() {
            return Ok(());
        }
        let name = level.queue_name(self.terms.client_id());
        let refuse = |session: &Self, why: &str, reason| {
            session.tell_refused(why);
            Err(reason)
        };
        let queue = match self.client.known_queue(&name, Action::Consume(&name)) {
            Ok(queue) => queue,
            Err(refused) => return refuse(self, &refused.to_string(), reason_of(&refused)),
        };
        if let Err(why) = queue.check_runs() {
            return refuse(self, &why, ReasonCode::SERVER_UNAVAILABLE);
        }
        if self.client.account.take(Kind::Consumers).is_err() {
            let why = "the limit of consumers is reached; raise consumer_max_per_node";
            return refuse(self, why, ReasonCode::QUOTA_EXCEEDED);
        }
        let id = self.client.broker.fresh_consumer_id();
        let prefetch = self.shared.settings.prefetch.min(self.terms.receive_max());
        let automatic_ack = level == Level::Zero;
        let flow = ConsumerFlow::Prefetch(if automatic_ack { 0 } else { prefetch.into() });
        let options = ConsumerOptions {
            link: self.client.outbox.clone(),
            key: id.0,
            tag: TAG.into(),
            channel: Arc::from(format!("{} (0)", self.client.name)),
            automatic_ack,
            flow,
            priority: 0,
            // Another node doesn't end the connection there that has the same client id: the session is never read by both.
            exclusive: queue.is_away(),
            mode: ConsumerMode::Move,
            filter: None,
            stream: None,
            timeout_ms: None,
            user: self.client.identity.name().clone(),
            arguments: Arguments::default(),
        };
        let asked = match queue.consume(id, options, now.monotonic) {
            NowOrLater::Now(Ok(())) => None,
            NowOrLater::Now(Err(_)) => {
                self.client.account.give(Kind::Consumers, 1);
                return refuse(
                    self,
                    &format!("no queue '{name}' to consume from"),
                    ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
                );
            }
            NowOrLater::Later(answer) => {
                answer.notify(self.client.outbox.clone(), id.0);
                Some(answer)
            }
        };
        let consumer = Consumer::new(id, queue, asked);
        let way = ConsumerUse { exclusive: false, no_ack: automatic_ack, prefetch };
        self.client.consumer_opened(&consumer.event(), way, &Arguments::default());
        self.consumers.set(level, consumer);
        Ok(())
    }

    /// The queue of the consumer with this key, and the consumer.
    pub(crate) fn level_of(&self, key: u64) -> Option<Level> {
        self.consumers.level_of(key)
    }

    /// Forgets a consumer.
    pub(crate) fn forget_consumer(&mut self, level: Level) -> Option<Box<Consumer>> {
        let consumer = self.consumers.take(level)?;
        self.client.account.give(Kind::Consumers, 1);
        self.client.consumer_closed(&consumer.event());
        Some(consumer)
    }
}
