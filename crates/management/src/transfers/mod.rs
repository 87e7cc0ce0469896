//! The routes of transfers, and their work.

mod job;

use std::io;
use std::path::PathBuf;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::queue_handle::ReadyEnds;
use leveret_model::Action;
use serde_json::Value;

use crate::api::Api;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields;
use crate::queues::{permit_transfer, transfer_range, transfer_target};
use crate::running_transfers::{Transfer, TransferProgress, TransferRequest, TransferState, write};

/// GET of all transfers in the vhosts that the user may see.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.topology();
    let sees = |transfer: &Transfer| call.identity.sees(&topology, &transfer.asked.vhost);
    let all = call.api.transfers().all();
    json(all.iter().filter(|transfer| sees(transfer)).map(|transfer| transfer.view()).collect())
}

/// GET of the transfers out of a queue.
pub(crate) async fn of_queue(call: Call) -> HandlerResult {
    let all = call.api.transfers().all();
    json(all.iter().filter(|transfer| is_of(&call, transfer)).map(|transfer| transfer.view()).collect())
}

fn is_of(call: &Call, transfer: &Transfer) -> bool {
    transfer.asked.vhost == call.word(0) && transfer.asked.queue == call.word(1)
}

/// POST with `to`, or `exchange` and `routing_key`, with `copy`, and with `first` and `last`. Answers once it is certain to be carried
/// out.
pub(crate) async fn begin(call: Call) -> HandlerResult {
    let (vhost, name) = (call.word(0), call.word(1));
    let body = call.object()?;
    if body.get("to").is_none_or(Value::is_null) && body.get("exchange").is_none_or(Value::is_null) {
        return Err(Error::BadRequest(
            "neither to nor exchange: name the queue, or the exchange and routing_key".into(),
        ));
    }
    let target = transfer_target(&body, name)?;
    let (first, last) = transfer_range(&body)?;
    let copy = fields::flag(&body, "copy")?;
    let snapshot = call.api.broker().registry.snapshot_full();
    let queue = snapshot.queue(vhost, name).ok_or(Error::NotFound)?;
    permit_transfer(&call, &snapshot.topology, &target)?;
    if queue.is_stream() && !copy {
        return Err(Error::BadRequest(format!(
            "queue '{name}' is a stream: its messages stay. Copy them (copy: true)"
        )));
    }
    // Messages that come later stay: a move into the same queue would never end.
    let ends = call.api.answer(queue.ask(ReadyEnds(first..=last))).await?;
    let (lowest, last, total) = ends.unwrap_or((first, first, 0));
    let asked = TransferRequest {
        vhost: vhost.to_owned(),
        queue: name.to_owned(),
        queue_id: queue.info().id.0,
        target,
        copy,
        first,
        last,
        total,
        user: call.identity.shared_name().to_string(),
        began: call.api.node().clock().now().wall_ms,
    };
    let progress = TransferProgress { state: TransferState::Running, done: 0, next: lowest, reason: None, ended: None };
    let transfer = call.api.transfers().add(asked, progress).map_err(Error::BadRequest)?;
    if let Err(error) = call.api.keep_transfers().await {
        call.api.transfers().forget(transfer.id);
        return Err(Error::Unavailable(format!("cannot write that it is to be carried out: {error}")));
    }
    tracing::info!(
        "user '{}' begins the {} {} of {total} messages of queue '{name}' in vhost '{vhost}'",
        transfer.asked.user,
        transfer.asked.what(),
        transfer.id,
    );
    let view = transfer.view();
    tokio::spawn(job::run(call.api.clone(), transfer));
    Ok((StatusCode::CREATED, axum::Json(view)).into_response())
}

/// DELETE of one: cancels it while it runs, and forgets it once it has ended.
pub(crate) async fn end(call: Call) -> HandlerResult {
    let topology = call.topology();
    call.identity.permit(&topology, call.word(0), Action::Consume(call.word(1)))?;
    let found = call.word(2).parse().ok().and_then(|id| call.api.transfers().find(id));
    let transfer = found.filter(|transfer| is_of(&call, transfer)).ok_or(Error::NotFound)?;
    if transfer.is_over() {
        call.api.transfers().forget(transfer.id);
        call.api.keep_transfers().await.map_err(|error| Error::Unavailable(error.to_string()))?;
    } else {
        job::end(&call.api, &transfer, TransferState::Cancelled, None).await;
        transfer.cancel.notify_one();
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl Api {
    /// Goes on with the transfers that an earlier node didn't finish. Returns the work, to be run beside the requests.
    pub async fn resume_transfers(self) {
        if let Err(error) = self.transfers().read(&self.transfers_file()) {
            let file = self.transfers_file();
            tracing::warn!("moves and copies of messages that hadn't ended are given up: {}: {error}", file.display());
        }
        for transfer in self.transfers().all().into_iter().filter(|transfer| !transfer.is_over()) {
            tokio::spawn(job::run(self.clone(), transfer));
        }
    }

    fn transfers_file(&self) -> PathBuf {
        self.data_directory().join("transfers.json")
    }

    /// Writes all transfers; they are on disk when this returns.
    ///
    /// # Errors
    /// The disk's.
    async fn keep_transfers(&self) -> io::Result<()> {
        let _writing = self.transfers().writing.lock().await;
        let (content, path) = (self.transfers().content()?, self.transfers_file());
        tokio::task::spawn_blocking(move || write(&path, &content)).await.map_err(io::Error::other)?
    }
}
