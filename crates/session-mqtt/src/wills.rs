//! Wills without their connections: those with a delay, and those of clients that were connected when the node went down.

use std::sync::Arc;

use leveret_broker::broker::Broker;
use leveret_broker::headers::MessageHeaders;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::route::{self, Publisher, RouteQueues};
use leveret_broker::time::Now;
use leveret_message::headers::Headers;
use leveret_message::mqtt::{MqttHead, is_told_by_key, routing_key};
use leveret_message::overlay::Overlay;
use leveret_message::{Batch, BatchBuilder, Encoding, Envelope, StoredMessage};
use leveret_model::{Arguments, Command, DeclareQueue, Identity, Permit, Value};
use leveret_mqtt::{PropertyId, PropertyList};

use super::client_ids::ClientKey;
use super::ledger::RecordLedger;
use super::retained::Retained;
use super::session_record::{RecordSlot, RecordedWill, SessionRecord};
use super::session_records::SessionRecords;
use super::stored_will::{StoredWill, queue_name};
use super::together;

/// Milliseconds for which the queue of a will stays after its message left.
const QUEUE_STAYS_MS: i64 = 600_000;

/// Publishes the will of a client that was connected when the node went down, after its delay.
pub(crate) fn publish_recorded(
    ledger: &RecordLedger<SessionRecords>,
    broker: &Arc<Broker>,
    key: &ClientKey,
    recorded: RecordedWill,
    now: Now,
) {
    let RecordedWill { will, user, session_expiry_s } = recorded;
    let Some(shared) = ledger.shared() else { return };
    let exchange = &*shared.settings.exchange;
    let delay_s = will.delay_s.min(session_expiry_s);
    let routing_key = routing_key(&will.topic);
    let batch = batch_of(&will, &key.client_id, exchange, delay_s > 0, now);
    let snapshot = broker.registry.snapshot_full();
    let who = Identity::of_model(user);
    let publisher = Publisher { who: &who, vhost: &key.vhost, client_id: Some(&key.client_id) };
    let headers = MessageHeaders(Headers::stored(&batch.message(0).view()));
    match route::extended(&snapshot, &publisher, exchange.as_bytes(), &[&routing_key], &headers) {
        Err(refused) => {
            tracing::warn!(
                "MQTT: the will of client '{}', vhost '{}', isn't published: {refused}",
                key.client_id,
                key.vhost
            );
            ledger.note(broker, &key.client_id, &SessionRecord::Over(RecordSlot::Will), now);
        }
        Ok(_) if delay_s > 0 => {
            let Some(sessions) = ledger.queue() else { return };
            let (topic, batch) = (&will.topic, Arc::new(batch));
            delay(broker, key, DelayedWill { topic, exchange, batch, sessions: Some(sessions), delay_s }, now);
        }
        Ok(route) => {
            if will.retain && shared.settings.retained_max > 0 {
                let retained = Retained::of_will(&will, &key.client_id, now);
                shared.keep_later(broker, &key.vhost, retained, now);
            }
            route.count(1, now.monotonic);
            let Some(sessions) = ledger.queue() else { return };
            publish_once(broker, &route.queues, &Arc::new(batch), Some(sessions), &key.client_id, now);
        }
    }
}

/// The message of a will. One with a delay waits in a queue, where its own time to live would end it.
pub(crate) fn batch_of(will: &StoredWill, client_id: &str, exchange: &str, is_delayed: bool, now: Now) -> Batch {
    let given = PropertyList::written(&will.properties);
    let head = MqttHead {
        qos: will.qos,
        retain: will.retain,
        kept: false,
        client_id,
        topic: (!is_told_by_key(&will.topic)).then_some(&*will.topic),
        properties: given,
    };
    let mut properties = Vec::new();
    head.write(&mut properties);
    let expiry_s = given.number(PropertyId::MessageExpiryInterval).filter(|_| !is_delayed);
    let key = routing_key(&will.topic);
    let envelope = Envelope {
        durable: true,
        priority: None,
        exchange: exchange.as_bytes(),
        routing_key: &key,
        received_ms: now.wall_ms,
        expiry_ms: expiry_s.map_or(0, |expiry_s| Envelope::expiry(now.wall_ms, u64::from(expiry_s) * 1000)),
    };
    let mut builder = BatchBuilder::default();
    builder.push_message(&StoredMessage {
        encoding: Encoding::Mqtt,
        envelope,
        overlay: Overlay::new(&[]),
        properties: &properties,
        body: &will.payload,
    });
    builder.finish()
}

/// A will that waits.
pub(crate) struct DelayedWill<'a> {
    pub topic: &'a str,
    pub exchange: &'a str,
    pub batch: Arc<Batch>,
    /// The ledger that has its record, if there is one.
    pub sessions: Option<QueueRef>,
    pub delay_s: u32,
}

/// Has a will wait in a queue of its own, from which it is dead-lettered to its topic. The client and its permissions were checked.
pub(crate) fn delay(broker: &Arc<Broker>, key: &ClientKey, delayed: DelayedWill<'_>, now: Now) {
    let DelayedWill { topic, exchange, batch, sessions, delay_s } = delayed;
    let delay_ms = i64::from(delay_s) * 1000;
    let arguments = Arguments::from_iter([
        ("x-message-ttl", Value::Int(delay_ms)),
        ("x-expires", Value::Int(delay_ms + QUEUE_STAYS_MS)),
        ("x-dead-letter-exchange", Value::from(exchange)),
        ("x-dead-letter-routing-key", Value::string(routing_key(topic))),
    ]);
    let declare = DeclareQueue::durable(key.vhost.clone(), queue_name(&key.client_id), arguments);
    let request = ChangeRequest::new(Permit::system(), Command::DeclareQueue(declare));
    let (key, later) = (key.clone(), Arc::downgrade(broker));
    // The connection may be gone by then.
    broker.registry.change(request, now.monotonic).then(move |outcome| {
        let Some(broker) = later.upgrade() else { return };
        match outcome {
            Ok(changed) => {
                let Some(queue) = changed.declared else { return };
                publish_once(&broker, &RouteQueues::only(queue), &batch, sessions, &key.client_id, now);
            }
            Err(refused) => {
                tracing::warn!(
                    "MQTT: the will of client '{}', vhost '{}', isn't published: {refused}",
                    key.client_id,
                    key.vhost
                );
            }
        }
    });
}

/// Publishes a will, and ends its record, as one group of the log: after a crash there is one or the other.
pub(crate) fn publish_once(
    broker: &Arc<Broker>,
    queues: &RouteQueues,
    batch: &Arc<Batch>,
    sessions: Option<QueueRef>,
    client_id: &str,
    now: Now,
) {
    let over = Arc::new(SessionRecord::Over(RecordSlot::Will).batch(client_id, now.wall_ms).finish());
    let all = queues.iter().map(|queue| (queue, batch)).chain(sessions.iter().map(|queue| (queue, &over)));
    together::publish_alone(broker, all, now);
}
