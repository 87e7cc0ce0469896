//! The node itself.

use leveret_node::{Listening, STOP_APP};
use serde_json::{Value, json};

use crate::call::{Call, HandlerResult, json, no_content};
use crate::error::Error;

/// GET.
pub(crate) async fn show(call: Call) -> HandlerResult {
    let api = &call.api;
    let settings = &api.broker().settings;
    let limits = api.node().alarm_limits();
    let listener = |listening: Listening| {
        json!({
            "protocol": listening.kind.protocol,
            "also_called": listening.kind.also_called,
            "interface": listening.interface(),
            "address": listening.address.ip().to_string(),
            "port": listening.address.port(),
            "purpose": listening.kind.purpose,
        })
    };
    let listeners: Vec<Value> = api.listeners().into_iter().map(listener).collect();
    json(json!({
        "name": api.name(),
        "running": true,
        "pid": std::process::id(),
        "data_directory": api.data_directory().canonicalize().unwrap_or_else(|_| api.data_directory().to_owned()),
        "product": settings.product,
        "rabbitmq_version": settings.version,
        "leveret_version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": api.uptime_ms(),
        "durability": api.durability(),
        "being_drained": api.broker().is_in_maintenance(),
        "total_memory_bytes": limits.total_memory_bytes,
        "memory_limit_bytes": limits.memory_bytes,
        "disk_free_limit_bytes": api.node().disk_free_limit(),
        "listeners": listeners,
    }))
}

/// POST: stops the node after the response.
pub(crate) async fn stop(call: Call) -> HandlerResult {
    call.api.node().ask_to_stop("rabbitmqctl");
    no_content()
}

/// POST: stops the node after the response; the process continues without a node, see [`stopped`](crate::stopped()).
pub(crate) async fn stop_app(call: Call) -> HandlerResult {
    call.api.node().ask_to_stop(STOP_APP);
    no_content()
}

/// POST.
pub(crate) async fn start_app(_: Call) -> HandlerResult {
    no_content()
}

/// POST: suspends listeners; open connections stay.
pub(crate) async fn suspend(call: Call) -> HandlerResult {
    call.api.node().suspend_listeners().await;
    no_content()
}

/// POST.
pub(crate) async fn resume(call: Call) -> HandlerResult {
    let resumed = call.api.node().revive();
    resumed.map_err(|error| Error::Unavailable(format!("cannot resume the listeners: {error}")))?;
    no_content()
}
