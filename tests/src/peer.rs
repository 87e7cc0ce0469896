//! The peer in a client's scenario: an AMQP 0-9-1 client that declares the objects that the client needs, publishes
//! to it and receives from it. A program sends a request as a line `peer JSON` and reads one line of JSON.
//!
//! | request | answer |
//! | --- | --- |
//! | `{"do": "declare", "queue": Q, "arguments": {..}, "exclusive": false}` | `{"messages": N}` |
//! | `{"do": "exchange", "exchange": X, "type": "direct"}` | `{}` |
//! | `{"do": "bind", "queue": Q, "exchange": X, "key": K}` | `{}` |
//! | `{"do": "count", "queue": Q}`: its ready messages | `{"messages": N}` |
//! | `{"do": "delete", "queue": Q}`, `{"do": "delete_exchange", "exchange": X}` | `{}` |
//! | `{"do": "publish", "exchange": "", "key": K, "body": "text"}`: persistent, confirmed | `{}` |
//! | `{"do": "sample", "queue": Q}`: one message with every property | `{}` |
//! | `{"do": "get", "queue": Q}` | `{"body": "text", "redelivered": false, "exchange": X, "key": K, "properties": {..}}` or `{"empty": true}` |
//!
//! Omitted fields have the values shown. `arguments` and headers hold strings, integers (signed 64-bit), booleans,
//! lists and maps; `properties` has 0-9-1's names, including `headers`. A failed request is answered with `{"error":
//! "text"}`.

use std::fmt::Display;
use std::net::SocketAddr;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::PATIENCE;

/// A connection that is opened when first needed, and again after it broke.
pub struct Peer {
    uri: String,
    runtime: Runtime,
    connection: Option<Connection>,
}

impl Peer {
    /// A peer at the broker's AMQP address.
    ///
    /// # Panics
    /// If the machine has no descriptor left for its runtime.
    pub fn to(broker: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // No heartbeats: nothing runs between two requests.
        Self { uri: format!("amqp://guest:guest@{broker}/%2F?heartbeat=0"), runtime, connection: None }
    }

    /// Executes one request.
    ///
    /// # Errors
    /// The request can't be parsed; a refusal by the broker is an answer.
    pub fn answer(&mut self, request: &str) -> Result<String, String> {
        let request: Value = serde_json::from_str(request).map_err(|error| format!("peer: {error}: {request}"))?;
        let Self { uri, runtime, connection } = self;
        let work = async {
            let channel = match channel(connection, uri).await {
                Ok(channel) => channel,
                Err(_) => {
                    *connection = None;
                    channel(connection, uri).await.map_err(text)?
                }
            };
            let answer = perform(&channel, &request).await;
            let _ = channel.close(200, "done".into()).await;
            answer
        };
        // A broker that sends malformed data must not block the cell.
        let answer = runtime.block_on(async {
            timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(format!("no answer from the broker: {request}")))
        });
        Ok(answer.unwrap_or_else(|error| json!({ "error": error })).to_string())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(async { timeout(PATIENCE, connection.close(200, "done".into())).await });
        }
    }
}

async fn channel(connection: &mut Option<Connection>, uri: &str) -> lapin::Result<Channel> {
    if connection.is_none() {
        *connection = Some(Connection::connect(uri, ConnectionProperties::default()).await?);
    }
    connection.as_ref().expect("made above").create_channel().await
}

fn text(error: impl Display) -> String {
    error.to_string()
}

async fn perform(channel: &Channel, request: &Value) -> Result<Value, String> {
    let word = |key: &str| request[key].as_str().unwrap_or_default();
    let (queue, exchange, key) = (word("queue"), word("exchange"), word("key"));
    match word("do") {
        "declare" => {
            let exclusive = request["exclusive"].as_bool().unwrap_or_default();
            let options = QueueDeclareOptions { durable: !exclusive, exclusive, ..QueueDeclareOptions::default() };
            let arguments = table(request["arguments"].as_object());
            let answer = channel.queue_declare(queue.into(), options, arguments).await.map_err(text)?;
            Ok(json!({ "messages": answer.message_count() }))
        }
        "count" => {
            let options = QueueDeclareOptions::default().passive();
            let answer = channel.queue_declare(queue.into(), options, FieldTable::default()).await.map_err(text)?;
            Ok(json!({ "messages": answer.message_count() }))
        }
        "exchange" => {
            let kind = ExchangeKind::Custom(request["type"].as_str().unwrap_or("direct").into());
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            channel.exchange_declare(exchange.into(), kind, options, FieldTable::default()).await.map_err(text)?;
            Ok(json!({}))
        }
        "bind" => {
            let options = QueueBindOptions::default();
            let arguments = table(request["arguments"].as_object());
            channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments).await.map_err(text)?;
            Ok(json!({}))
        }
        "delete" => {
            channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.map_err(text)?;
            Ok(json!({}))
        }
        "delete_exchange" => {
            channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await.map_err(text)?;
            Ok(json!({}))
        }
        "publish" => {
            let properties = BasicProperties::default().with_delivery_mode(2);
            publish(channel, exchange, key, word("body"), properties).await
        }
        "sample" => publish(channel, "", queue, "body ✓", sample()).await,
        "get" => get(channel, queue).await,
        other => Err(format!("the peer can't '{other}'")),
    }
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &str,
    properties: BasicProperties,
) -> Result<Value, String> {
    channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(text)?;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let confirm =
        channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties).await.map_err(text)?;
    let confirmation = confirm.await.map_err(text)?;
    if confirmation.is_ack() && confirmation.take_message().is_none() {
        Ok(json!({}))
    } else {
        Err("the publish was refused or came back".into())
    }
}

/// The message that `from_091` receives.
fn sample() -> BasicProperties {
    let headers = json!({ "x-a": "note", "b": 7, "c": "ключ" });
    BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_headers(table(headers.as_object()))
        .with_delivery_mode(2)
        .with_priority(5)
        .with_correlation_id("correlation".into())
        .with_reply_to("answers".into())
        .with_message_id("message".into())
        .with_timestamp(1_700_000_000)
        .with_type("kind".into())
        .with_user_id("guest".into())
        .with_app_id("app".into())
}

async fn get(channel: &Channel, queue: &str) -> Result<Value, String> {
    let options = BasicGetOptions { no_ack: true };
    let Some(message) = channel.basic_get(queue.into(), options).await.map_err(text)? else {
        return Ok(json!({ "empty": true }));
    };
    let delivery = &message.delivery;
    let properties = &delivery.properties;
    let mut shown = Map::new();
    let mut show = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            shown.insert(name.into(), value);
        }
    };
    let words = [
        ("content_type", properties.content_type()),
        ("content_encoding", properties.content_encoding()),
        ("correlation_id", properties.correlation_id()),
        ("reply_to", properties.reply_to()),
        ("expiration", properties.expiration()),
        ("message_id", properties.message_id()),
        ("type", properties.kind()),
        ("user_id", properties.user_id()),
        ("app_id", properties.app_id()),
    ];
    for (name, word) in words {
        show(name, word.as_ref().map(|word| json!(word.as_str())));
    }
    show("delivery_mode", properties.delivery_mode().map(|mode| json!(mode)));
    show("priority", properties.priority().map(|priority| json!(priority)));
    show("timestamp", properties.timestamp().map(|timestamp| json!(timestamp)));
    show("headers", properties.headers().as_ref().map(object));
    Ok(json!({
        "body": String::from_utf8_lossy(&delivery.data),
        "redelivered": delivery.redelivered,
        "exchange": delivery.exchange.as_str(),
        "key": delivery.routing_key.as_str(),
        "properties": shown,
    }))
}

fn table(object: Option<&Map<String, Value>>) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in object.into_iter().flatten() {
        table.insert(key.as_str().into(), field(value));
    }
    table
}

fn field(value: &Value) -> AMQPValue {
    match value {
        Value::Bool(bool) => AMQPValue::Boolean(*bool),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| AMQPValue::Double(number.as_f64().unwrap_or_default()), AMQPValue::LongLongInt),
        Value::String(text) => AMQPValue::LongString(text.as_str().into()),
        Value::Array(list) => AMQPValue::FieldArray(FieldArray::from(list.iter().map(field).collect::<Vec<_>>())),
        Value::Object(object) => AMQPValue::FieldTable(table(Some(object))),
        Value::Null => AMQPValue::Void,
    }
}

fn object(table: &FieldTable) -> Value {
    table.inner().iter().map(|(key, value)| (key.to_string(), shown(value))).collect::<Map<_, _>>().into()
}

fn shown(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(bool) => json!(bool),
        AMQPValue::ShortShortInt(number) => json!(number),
        AMQPValue::ShortShortUInt(number) => json!(number),
        AMQPValue::ShortInt(number) => json!(number),
        AMQPValue::ShortUInt(number) => json!(number),
        AMQPValue::LongInt(number) => json!(number),
        AMQPValue::LongUInt(number) => json!(number),
        AMQPValue::LongLongInt(number) => json!(number),
        AMQPValue::Float(number) => json!(number),
        AMQPValue::Double(number) => json!(number),
        AMQPValue::Timestamp(seconds) => json!(seconds),
        AMQPValue::ShortString(text) => json!(text.as_str()),
        AMQPValue::LongString(text) => json!(String::from_utf8_lossy(text.as_bytes())),
        AMQPValue::ByteArray(bytes) => json!(String::from_utf8_lossy(bytes.as_slice())),
        AMQPValue::FieldArray(list) => list.as_slice().iter().map(shown).collect(),
        AMQPValue::FieldTable(table) => object(table),
        AMQPValue::DecimalValue(decimal) => json!(format!("{}e-{}", decimal.value, decimal.scale)),
        AMQPValue::Void => Value::Null,
    }
}
