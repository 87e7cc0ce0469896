//! The routes of transfers, and their work.

mod job;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use leveret_broker::queue_handle::ReadyEnds;
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Action, Command, Permit};
use serde_json::Value;

use crate::api::Api;
use crate::call::{Call, HandlerResult, json};
use crate::error::Error;
use crate::fields;
use crate::queues::{permit_transfer, transfer_range, transfer_target};
use crate::running_transfers::{
    ENDED_MAX, Transfer, TransferProgress, TransferRequest, TransferState, parameter, write,
};

/// Time between two looks for transfers that another member carried out.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// GET of all transfers in the vhosts that the user may see.
pub(crate) async fn all(call: Call) -> HandlerResult {
    let topology = call.topology();
    let sees = |transfer: &Transfer| call.identity.sees(&topology, &transfer.asked.vhost);
    let all = call.api.all_transfers();
    json(all.iter().filter(|transfer| sees(transfer)).map(|transfer| transfer.view()).collect())
}

/// GET of the transfers out of a queue.
pub(crate) async fn of_queue(call: Call) -> HandlerResult {
    let all = call.api.all_transfers();
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
    let member = call.api.cluster_seen().member;
    let id = member.map(|member| parameter::next_id(&call.topology(), member.0));
    let transfer = call.api.transfers().add(id, asked, progress).map_err(Error::BadRequest)?;
    if let Err(error) = call.api.keep_transfer(&transfer).await {
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
    let known = |id| {
        let kept = || parameter::kept_one(&topology, id).filter(|_| call.api.is_member());
        call.api.transfers().find(id).or_else(kept)
    };
    let found = call.word(2).parse().ok().and_then(known);
    let transfer = found.filter(|transfer| is_of(&call, transfer)).ok_or(Error::NotFound)?;
    if transfer.is_over() {
        call.api.forget_transfer(transfer.id).await.map_err(Error::Unavailable)?;
    } else {
        job::end(&call.api, &transfer, TransferState::Cancelled, None).await;
        transfer.cancel.notify_one();
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl Api {
    /// All transfers that are known here: those that run here as they are, others as they were last kept.
    fn all_transfers(&self) -> Vec<Arc<Transfer>> {
        let mut all: BTreeMap<u64, Arc<Transfer>> = BTreeMap::new();
        if self.is_member() {
            all.extend(parameter::kept(&self.topology()).into_iter().map(|transfer| (transfer.id, transfer)));
        }
        all.extend(self.transfers().all().into_iter().map(|transfer| (transfer.id, transfer)));
        all.into_values().collect()
    }

    /// Goes on with the transfers that an earlier node, or another member, didn't finish. Returns the work, to be run beside the requests.
    pub async fn resume_transfers(self) {
        if let Err(error) = self.transfers().read(&self.transfers_file()) {
            let file = self.transfers_file();
            tracing::warn!("moves and copies of messages that hadn't ended are given up: {}: {error}", file.display());
        }
        if self.is_member() {
            return self.carry_out_kept().await;
        }
        for transfer in self.transfers().all().into_iter().filter(|transfer| !transfer.is_over()) {
            tokio::spawn(job::run(self.clone(), transfer));
        }
    }

    fn transfers_file(&self) -> PathBuf {
        self.data_directory().join("transfers.json")
    }

    /// Carries out those transfers of the cluster whose queues are on this node, as long as it is awaited.
    async fn carry_out_kept(&self) {
        // A node that was alone had them in a file. Ids of their own tell those apart from others.
        for transfer in self.transfers().all() {
            self.transfers().forget(transfer.id);
            if !transfer.is_over() && self.keep_transfer(&transfer).await.is_err() {
                tracing::warn!("the {} {} of messages is given up", transfer.asked.what(), transfer.id);
            }
        }
        if self.transfers_file().exists() {
            let _ = self.keep_transfers().await;
        }
        loop {
            for kept in parameter::kept(&self.topology()) {
                self.carry_out(&kept).await;
            }
            self.forget_ended().await;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn carry_out(&self, kept: &Transfer) {
        if let Some(running) = self.transfers().find(kept.id) {
            // Another member was asked to cancel it.
            let progress = kept.progress.lock().clone();
            if progress.state == TransferState::Cancelled && !running.is_over() {
                *running.progress.lock() = progress;
                self.transfers().forget(running.id);
                running.cancel.notify_one();
            }
            return;
        }
        if kept.is_over() {
            return;
        }
        let (snapshot, asked) = (self.broker().registry.snapshot_full(), &kept.asked);
        let seen = self.cluster_seen();
        let is_mine = match snapshot.queue(&asked.vhost, &asked.queue) {
            Some(queue) => !queue.is_away(),
            // It was deleted while nobody carried it out.
            None => seen.leader.is_some() && seen.leader == seen.member,
        };
        if !is_mine || !self.catches_up().await {
            return;
        }
        // It is as the member left it that carried it out before.
        let Some(kept) = parameter::kept_one(&self.topology(), kept.id).filter(|kept| !kept.is_over()) else { return };
        if let Some(transfer) = self.transfers().take_over(&kept) {
            tracing::info!(
                "goes on with the {} {} of messages of queue '{}' in vhost '{}'",
                transfer.asked.what(),
                transfer.id,
                transfer.asked.queue,
                transfer.asked.vhost
            );
            tokio::spawn(job::run(self.clone(), transfer));
        }
    }

    /// Forgets the oldest ended transfers of the cluster, if this node leads its metadata.
    async fn forget_ended(&self) {
        let seen = self.cluster_seen();
        if seen.leader.is_none() || seen.leader != seen.member {
            return;
        }
        let mut ended: Vec<_> = parameter::kept(&self.topology()).into_iter().filter(|one| one.is_over()).collect();
        ended.sort_by_key(|transfer| transfer.progress.lock().ended);
        let more = ended.len().saturating_sub(ENDED_MAX);
        for transfer in &ended[..more] {
            // The next round tries it again.
            let _ = self.forget_transfer(transfer.id).await;
        }
    }

    /// Keeps a transfer as it is now; it survives the node when this returns.
    ///
    /// # Errors
    /// The disk's, or the metadata has no leader.
    pub(super) async fn keep_transfer(&self, transfer: &Transfer) -> Result<(), String> {
        if !self.is_member() {
            return self.keep_transfers().await.map_err(|error| error.to_string());
        }
        let (name, value) = (parameter::name_of(transfer.id).into(), parameter::value_of(transfer));
        self.put_transfer(Command::PutGlobalParameter { name, value }).await
    }

    async fn forget_transfer(&self, id: u64) -> Result<(), String> {
        self.transfers().forget(id);
        if !self.is_member() {
            return self.keep_transfers().await.map_err(|error| error.to_string());
        }
        self.put_transfer(Command::DeleteGlobalParameter { name: parameter::name_of(id).into() }).await
    }

    async fn put_transfer(&self, command: Command) -> Result<(), String> {
        match self.change(ChangeRequest::new(Permit::system(), command)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refused)) => Err(refused.text),
            Err(_) => Err("the node stops".to_owned()),
        }
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
