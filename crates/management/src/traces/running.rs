//! The work of traces: each takes messages from a queue of its own, which is bound to the firehose, and writes them to its file.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leveret_broker::direct::Got;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::settlement::Settlement;
use leveret_model::{
    Arguments, Bind, Command, ConnectionId, DeclareQueue, DeleteQueue, DestinationName, Permit, Value,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::files::FILE_BYTES_MAX;
use super::record;
use crate::api::Api;
use crate::error::Error;
use crate::running_traces::{Trace, TraceRequest};
use crate::time::iso8601;

const TRACE_EXCHANGE: &str = "amq.rabbitmq.trace";
/// Most messages that wait to be written to a file: a trace that doesn't keep up loses the oldest.
const WAITING_MAX: i64 = 10_000;
/// Interval at which the queue of a trace is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most messages that are written at a time.
const PART: usize = 256;

/// Starts a trace, whose file is open and has this length.
///
/// # Errors
/// Its queue can't be declared or bound, or the node stops.
pub(super) async fn start(api: &Api, asked: TraceRequest, (file, length): (File, u64)) -> Result<(), Error> {
    let owner = ConnectionId(api.broker().fresh_id());
    let vhost: Arc<str> = asked.vhost.as_str().into();
    let queue: Arc<str> = format!("amq.tracing-{}", owner.0).into();
    let arguments = Arguments::new(vec![
        ("x-queue-type".into(), Value::string("classic")),
        ("x-max-length".into(), Value::Int(WAITING_MAX)),
    ]);
    let declare = DeclareQueue {
        server_named: true,
        durable: false,
        exclusive: true,
        connection: Some(owner),
        ..DeclareQueue::durable(vhost.clone(), queue.clone(), arguments)
    };
    let bind = Bind {
        vhost: vhost.clone(),
        source: TRACE_EXCHANGE.into(),
        destination: DestinationName::Queue(queue.clone()),
        routing_key: asked.pattern.as_bytes().into(),
        arguments: Arguments::default(),
        connection: Some(owner),
    };
    // Only administrators get here, and the queue is the node's own.
    api.submit_all(Permit::system(), vec![Command::DeclareQueue(declare), Command::Bind(bind)]).await?;
    api.durable(api.broker().registry.set_tracing(&vhost, true)).await?;
    let trace = Arc::new(Trace {
        queue: queue.to_string(),
        owner,
        is_stopping: AtomicBool::new(false),
        stop: Notify::new(),
        task: Mutex::new(None),
        asked,
    });
    api.traces().insert(trace.clone());
    tracing::info!("Tracer opened log file {}.log with format {}", trace.asked.name, trace.asked.format.name());
    let task = tokio::spawn(follow(api.clone(), trace.clone(), file, length));
    *trace.task.lock() = Some(task);
    Ok(())
}

/// Stops a trace; returns when all that was traced so far is written.
pub(super) async fn stop(trace: &Trace) {
    trace.is_stopping.store(true, Ordering::Release);
    trace.stop.notify_one();
    let task = trace.task.lock().take();
    if let Some(task) = task {
        // It doesn't panic; and if it did, it would be over as well.
        let _ = task.await;
    }
}

/// Writes the messages of a trace until it is stopped, or its queue or vhost is deleted.
async fn follow(api: Api, trace: Arc<Trace>, file: File, mut length: u64) {
    let mut file = Some(file);
    loop {
        let is_last = trace.is_stopping.load(Ordering::Acquire);
        let queue = api.broker().registry.snapshot_full().queue(&trace.asked.vhost, &trace.queue).cloned();
        let Some(queue) = queue else { break };
        while let Some(text) = take(&api, &trace, &queue).filter(|text| !text.is_empty()) {
            let bytes = text.len() as u64;
            if length + bytes > FILE_BYTES_MAX {
                if let Some(file) = file.take() {
                    drop(file);
                    let name = &trace.asked.name;
                    tracing::warn!(
                        "trace '{name}' writes no more: its file has reached {FILE_BYTES_MAX} bytes; delete it"
                    );
                }
                continue;
            }
            let Some(mut open) = file.take() else { continue };
            length += bytes;
            let written = tokio::task::spawn_blocking(move || open.write_all(&text).map(|()| open)).await;
            match written.map_err(std::io::Error::other).and_then(|written| written) {
                Ok(open) => file = Some(open),
                Err(reason) => tracing::error!("trace '{}' can't be written: {reason}", trace.asked.name),
            }
        }
        if is_last {
            break;
        }
        let _ = tokio::time::timeout(INTERVAL, trace.stop.notified()).await;
    }
    end(&api, &trace).await;
}

/// The next messages as entries of the file; nothing if there are none.
fn take(api: &Api, trace: &Trace, queue: &QueueRef) -> Option<Vec<u8>> {
    let (broker, now) = (api.broker(), api.node().clock().now());
    let queue = queue.as_ledger()?;
    let payload_max =
        trace.asked.max_payload_bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (mut text, mut held, time) = (Vec::new(), Vec::new(), iso8601(now.wall_ms));
    while held.len() < PART && text.len() as u64 <= FILE_BYTES_MAX {
        match broker.get_directly(&queue, "", || {}, now) {
            Got::Message(message, hold, _) => {
                record::append(trace.asked.format, &message, &time, payload_max, &mut text);
                held.push(hold);
            }
            Got::Later(queue, answer) => {
                queue.give_back(answer, false, now.monotonic);
                break;
            }
            // A message that has to be read from disk is there the next time.
            Got::Empty | Got::Wait | Got::Converted => break,
        }
    }
    if held.is_empty() {
        return None;
    }
    broker.dispose(&held, Settlement::Acknowledge, now.monotonic);
    Some(text)
}

async fn end(api: &Api, trace: &Trace) {
    api.traces().remove(&trace.asked);
    let delete = DeleteQueue {
        vhost: trace.asked.vhost.as_str().into(),
        name: trace.queue.as_str().into(),
        connection: Some(trace.owner),
        id: None,
    };
    // The node may be stopping, or the vhost may be gone.
    let _ = api.submit(Permit::system(), Command::DeleteQueue(delete)).await;
    if !api.traces().has_any_in(&trace.asked.vhost) {
        let _ = api.durable(api.broker().registry.set_tracing(&trace.asked.vhost, false)).await;
    }
    tracing::info!("Tracer closed log file {}.log", trace.asked.name);
}
