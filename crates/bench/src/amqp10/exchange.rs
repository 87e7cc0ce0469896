//! The exchange of a load with its bindings.

use leveret_amqp10::OwnedValue;
use leveret_amqp10::value::OwnedMap;
use leveret_strict_client::amqp10::Client;

use crate::BenchError;
use crate::connection::Connection;
use crate::route;
use crate::settings::Settings;

/// Declares the exchange, replacing an existing one, and binds the queues. The management links are attached already.
pub(super) fn prepare(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    let name = settings.exchange.name();
    delete(connection, settings)?;
    let mut exchange = OwnedMap::default();
    // Not durable: its bindings needn't outlive the run.
    exchange.push("type", settings.exchange.kind()).push("durable", false);
    connection.request("PUT", &format!("/exchanges/{name}"), &OwnedValue::Map(exchange), &mut 0)?;
    for binding in route::bindings(settings) {
        let mut arguments = OwnedMap::default();
        if !binding.headers.is_empty() {
            arguments.push("x-match", "all");
        }
        for (header, value) in &binding.headers {
            arguments.push(*header, value.as_str());
        }
        let mut body = OwnedMap::default();
        body.push("source", name.as_str()).push("destination_queue", settings.queue(binding.queue).as_str());
        body.push("binding_key", binding.key.as_str()).push("arguments", arguments);
        connection.request("POST", "/bindings", &OwnedValue::Map(body), &mut 0)?;
    }
    Ok(())
}

/// Deletes the exchange, which may not exist.
pub(super) fn delete(connection: &mut Connection<Client>, settings: &Settings) -> Result<(), BenchError> {
    let path = format!("/exchanges/{}", settings.exchange.name());
    connection.request("DELETE", &path, &OwnedValue::Null, &mut 0).map(drop)
}
