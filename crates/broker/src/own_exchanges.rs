//! Publishes events and log lines to the broker's own exchanges.

use leveret_message::own::{HeaderTable, HeaderValue, OwnProperties, event_amqp10};
use leveret_message::{Encoding, StoredMessage};

use crate::broker::Broker;
use crate::notices::{EVENT_EXCHANGE, LOG_EXCHANGE, Notice, publishing};
use crate::own_messages::OwnRun;
use crate::settings::EventForm;
use crate::time::Now;

/// Most notices that one turn publishes.
const TURN_NOTICES: usize = 64;

/// A message of a notice.
struct Message {
    encoding: Encoding,
    properties: Vec<u8>,
    body: Vec<u8>,
}

impl Broker {
    /// Publishes the oldest events and log lines that wait.
    pub(crate) fn publish_notices(&self, now: Now) {
        if self.notices.is_empty() {
            return;
        }
        publishing(|| {
            let snapshot = self.registry.snapshot_full();
            let vhosts = self.notices.vhosts();
            let mut events = OwnRun::new(self, &snapshot, (&vhosts.events, EVENT_EXCHANGE), true, now);
            let mut lines = OwnRun::new(self, &snapshot, (&vhosts.lines, LOG_EXCHANGE), false, now);
            events.make_urgent();
            lines.make_urgent();
            for notice in self.notices.take(TURN_NOTICES) {
                let (run, key, message) = match notice {
                    Notice::Event(key, headers) => (&mut events, key, event(self.settings.event_form, headers, now)),
                    Notice::Line { level, content_type, time_s, body } => {
                        let properties = OwnProperties {
                            headers: vec![("node".into(), HeaderValue::text(&self.settings.node_name))],
                            persistent: false,
                            content_type: Some(content_type),
                            timestamp: Some(time_s),
                        };
                        let properties = properties.encode_amqp091();
                        (&mut lines, level, Message { encoding: Encoding::Amqp091, properties, body })
                    }
                };
                let Message { encoding, properties, body } = &message;
                let message = StoredMessage { encoding: *encoding, properties, body, ..StoredMessage::default() };
                run.push(key.as_bytes(), &message);
            }
        });
    }
}

/// An event with the time at which it is published, right after it happened.
fn event(form: EventForm, mut headers: HeaderTable, now: Now) -> Message {
    match form {
        EventForm::Amqp091 => {
            let time = i64::try_from(now.wall_ms).unwrap_or(i64::MAX);
            headers.push(("timestamp_in_ms".into(), HeaderValue::Long(time)));
            let timestamp = Some(now.wall_ms / 1000);
            let properties = OwnProperties { headers, persistent: true, content_type: None, timestamp };
            Message { encoding: Encoding::Amqp091, properties: properties.encode_amqp091(), body: Vec::new() }
        }
        EventForm::Amqp10 => {
            let (properties, body) = event_amqp10(&headers, now.wall_ms);
            Message { encoding: Encoding::Amqp10, properties, body }
        }
    }
}
