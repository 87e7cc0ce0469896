//! A trace as an entry of a file, in the forms of RabbitMQ's plugin.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leveret_broker::direct::PlainMessage;
use leveret_broker::events::{erlang_pairs, erlang_texts};
use leveret_model::{Arguments, Value};
use serde_json::json;

use crate::running_traces::Format;

/// Appends the entry of a message of the firehose that was taken at `time`, with at most this many bytes of its payload.
pub(super) fn append(format: Format, message: &PlainMessage, time: &str, payload_max: usize, out: &mut Vec<u8>) {
    let none = Arguments::default();
    let headers = match message.properties.get("headers") {
        Some(Value::Table(headers)) => headers,
        _ => &none,
    };
    let payload = &message.body[..message.body.len().min(payload_max)];
    let entry = Entry { headers, queue: message.routing_key.strip_prefix("deliver."), time, payload };
    match format {
        Format::Text => entry.text(out),
        Format::Json => entry.json(out),
    }
}

struct Entry<'a> {
    headers: &'a Arguments,
    /// The queue that it was delivered from; none if it was published.
    queue: Option<&'a str>,
    time: &'a str,
    payload: &'a [u8],
}

impl Entry<'_> {
    fn text_of(&self, name: &str) -> String {
        match self.headers.get(name) {
            Some(Value::String(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }

    fn texts(&self, name: &str) -> Vec<&[u8]> {
        match self.headers.get(name) {
            Some(Value::Array(values)) => values
                .iter()
                .filter_map(|value| match value {
                    Value::String(bytes) => Some(&**bytes),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn channel(&self) -> i64 {
        self.headers.get("channel").and_then(Value::as_int).unwrap_or(0)
    }

    fn properties(&self) -> Arguments {
        match self.headers.get("properties") {
            Some(Value::Table(properties)) => properties.clone(),
            _ => Arguments::default(),
        }
    }

    fn kind(&self) -> &'static str {
        if self.queue.is_some() { "received" } else { "published" }
    }

    fn text(&self, out: &mut Vec<u8>) {
        let keys = erlang_texts(self.texts("routing_keys").into_iter());
        let properties = erlang_pairs(&self.properties()).join(",\n               ");
        let mut text = format!(
            "\n{:=<80}\n{}: Message {}\n\nNode:         {}\nConnection:   {}\nVirtual host: {}\nUser:         {}\n\
             Channel:      {}\nExchange:     {}\nRouting keys: {keys}\n",
            "",
            self.time,
            self.kind(),
            self.text_of("node"),
            self.text_of("connection"),
            self.text_of("vhost"),
            self.text_of("user"),
            self.channel(),
            self.text_of("exchange_name"),
        );
        // Writing into memory doesn't fail.
        let _ = match self.queue {
            Some(queue) => writeln!(text, "Queue:        {queue}"),
            None => writeln!(text, "Routed queues: {}", erlang_texts(self.texts("routed_queues").into_iter())),
        };
        let _ = write!(text, "Properties:   [{properties}]\nPayload: \n");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(self.payload);
        out.push(b'\n');
    }

    fn json(&self, out: &mut Vec<u8>) {
        let texts = |name| -> Vec<_> {
            self.texts(name).into_iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
        };
        let entry = json!({
            "timestamp": self.time,
            "type": self.kind(),
            "node": self.text_of("node"),
            "connection": self.text_of("connection"),
            "vhost": self.text_of("vhost"),
            "user": self.text_of("user"),
            "channel": self.channel(),
            "exchange": self.text_of("exchange_name"),
            // The plugin writes the word for what is missing.
            "queue": self.queue.unwrap_or("none"),
            "routed_queues": match self.queue {
                Some(_) => json!("none"),
                None => json!(texts("routed_queues")),
            },
            "routing_keys": texts("routing_keys"),
            "properties": self.properties().to_json(),
            "payload": STANDARD.encode(self.payload),
        });
        out.extend_from_slice(entry.to_string().as_bytes());
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(key: &str, kind: &str) -> PlainMessage {
        let properties = json!({"delivery_mode": 2, "headers": {"a": 1, "l": ["x"]}});
        let mut headers = json!({
            "node": "n@h", "connection": "c", "vhost": "/", "user": "guest", "channel": 3, "exchange_name": "x",
            "routing_keys": ["k"], "properties": properties,
        });
        headers[kind] = if kind == "redelivered" { json!(0) } else { json!(["q"]) };
        PlainMessage {
            exchange: "amq.rabbitmq.trace".into(),
            routing_key: key.into(),
            properties: Arguments::from_json(&json!({"headers": headers})),
            body: b"body"[..].into(),
            in_file: false,
            redelivered: false,
        }
    }

    fn entry(format: Format, message: &PlainMessage, payload_max: usize) -> String {
        let mut out = Vec::new();
        append(format, message, "T", payload_max, &mut out);
        String::from_utf8(out).expect("a text")
    }

    #[test]
    fn a_text_has_the_form_of_the_plugin() {
        let expected = format!(
            "\n{}\nT: Message published\n\nNode:         n@h\nConnection:   c\nVirtual host: /\nUser:         guest\n\
             Channel:      3\nExchange:     x\nRouting keys: [<<\"k\">>]\nRouted queues: [<<\"q\">>]\n\
             Properties:   [{{<<\"delivery_mode\">>,signedint,2}},\n               \
             {{<<\"headers\">>,table,[{{<<\"a\">>,signedint,1}},{{<<\"l\">>,array,[{{longstr,<<\"x\">>}}]}}]}}]\n\
             Payload: \nbody\n",
            "=".repeat(80)
        );
        assert_eq!(entry(Format::Text, &message("publish.x", "routed_queues"), usize::MAX), expected);
        let received = entry(Format::Text, &message("deliver.q", "redelivered"), 2);
        assert!(received.contains("Message received") && received.contains("\nQueue:        q\n"), "{received}");
        assert!(received.ends_with("Payload: \nbo\n"));
    }

    #[test]
    fn a_line_of_json_has_the_fields_of_the_plugin() {
        let line = entry(Format::Json, &message("publish.x", "routed_queues"), 3);
        let published: serde_json::Value = serde_json::from_str(&line).expect("an object");
        assert_eq!((&published["type"], &published["queue"]), (&json!("published"), &json!("none")));
        assert_eq!((&published["routed_queues"], &published["payload"]), (&json!(["q"]), &json!("Ym9k")));
        assert_eq!(published["properties"]["headers"], json!({"a": 1, "l": ["x"]}));
        let line = entry(Format::Json, &message("deliver.q", "redelivered"), 0);
        let received: serde_json::Value = serde_json::from_str(&line).expect("an object");
        assert_eq!((&received["queue"], &received["routed_queues"]), (&json!("q"), &json!("none")));
    }
}
