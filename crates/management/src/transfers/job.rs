//! The run of a transfer.

use std::sync::Arc;
use std::time::Duration;

use leveret_broker::queue_handle::{QueueRef, ReadyEnds};
use leveret_broker::search::{Search, SearchTerms};
use leveret_broker::transfer::{STEP_MESSAGES_MAX, StoredRuns, TransferStep};
use tokio::time::Instant;

use crate::api::Api;
use crate::error::Error;
use crate::queues::{read_part, read_runs};
use crate::running_transfers::{Transfer, TransferProgress, TransferState};

/// Time after which a step that couldn't be made is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The same while all messages are on their way to consumers.
const CONSUMED: Duration = Duration::from_millis(50);
/// Time between two writes of a move's progress. A step that is made again finds nothing left to move.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// The result of a step.
enum Step {
    /// There is more.
    On,
    /// Nothing could be done; try again.
    Wait(Duration),
    Over(TransferState, Option<String>),
}

/// Messages that were read from disk.
#[derive(Default)]
struct Read {
    runs: StoredRuns,
    /// Of a stream: the number behind the part that was read.
    end: u64,
}

impl Read {
    fn has(&self, number: u64) -> bool {
        self.runs.iter().any(|(first, batch)| (*first..*first + batch.len() as u64).contains(&number))
    }
}

/// Runs it to its end.
pub(super) async fn run(api: Api, transfer: Arc<Transfer>) {
    let mut read = Read::default();
    let mut kept = Instant::now();
    let mut shown: Option<TransferProgress> = None;
    loop {
        let cancelled = transfer.cancel.notified();
        if transfer.is_over() {
            return;
        }
        if api.is_member() && is_elsewhere(&api, &transfer) {
            // The member that leads the queue from now on finds it in the metadata.
            api.transfers().forget(transfer.id);
            return;
        }
        match step(&api, &transfer, &mut read).await.unwrap_or_else(|error| wait_for(&transfer, reason_of(error))) {
            Step::On => {
                // The copies of a step that isn't known to be done would be made again.
                // In a cluster, those of the last second may be, and those that go to another log.
                let is_exact = transfer.asked.copy && !api.is_member();
                if is_exact || kept.elapsed() >= KEEP_EVERY {
                    keep(&api, &transfer).await;
                    kept = Instant::now();
                }
            }
            Step::Wait(time) => {
                // Other members show what was kept.
                let now = transfer.progress.lock().clone();
                if api.is_member() && shown.as_ref() != Some(&now) {
                    keep(&api, &transfer).await;
                    shown = Some(now);
                }
                let _ = tokio::time::timeout(time, cancelled).await;
            }
            Step::Over(state, reason) => return end(&api, &transfer, state, reason).await,
        }
    }
}

/// Ends it, unless it has ended already.
pub(super) async fn end(api: &Api, transfer: &Transfer, state: TransferState, reason: Option<String>) {
    let asked = &transfer.asked;
    {
        let mut progress = transfer.progress.lock();
        if progress.state.is_over() {
            return;
        }
        let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        tracing::info!(
            "the {} {} of messages of queue '{}' in vhost '{}' is {} after {} of {}{why}",
            asked.what(),
            transfer.id,
            asked.queue,
            asked.vhost,
            state.name(),
            progress.done,
            asked.total
        );
        (progress.state, progress.reason) = (state, reason);
        progress.ended = Some(api.node().clock().now().wall_ms);
    }
    keep(api, transfer).await;
    if api.is_member() {
        // From now on the metadata has it.
        api.transfers().forget(transfer.id);
    }
}

/// Whether the queue is there, and another member has it now.
fn is_elsewhere(api: &Api, transfer: &Transfer) -> bool {
    let asked = &transfer.asked;
    let snapshot = api.broker().registry.snapshot_full();
    snapshot.queue(&asked.vhost, &asked.queue).is_some_and(|queue| queue.is_away())
}

async fn keep(api: &Api, transfer: &Transfer) {
    if let Err(error) = api.keep_transfer(transfer).await {
        tracing::warn!("cannot write how far moves and copies of messages are: {error}");
    }
}

fn reason_of(error: Error) -> String {
    match error {
        Error::Unavailable(reason) | Error::BadRequest(reason) => reason,
        other => format!("{other:?}"),
    }
}

fn wait_for(transfer: &Transfer, reason: String) -> Step {
    let mut progress = transfer.progress.lock();
    if !progress.state.is_over() {
        (progress.state, progress.reason) = (TransferState::Waiting, Some(reason));
    }
    Step::Wait(RETRY)
}

async fn step(api: &Api, transfer: &Transfer, read: &mut Read) -> Result<Step, Error> {
    let asked = &transfer.asked;
    let snapshot = api.broker().registry.snapshot_full();
    let queue = snapshot.queue(&asked.vhost, &asked.queue).filter(|queue| queue.info().id.0 == asked.queue_id);
    let Some(queue) = queue else {
        return Ok(Step::Over(TransferState::Stopped, Some("the queue was deleted, or converted".to_owned())));
    };
    let (from, has_waited) = {
        let progress = transfer.progress.lock();
        (progress.next, progress.state == TransferState::Waiting)
    };
    if from > asked.last {
        return once_more(api, transfer, queue).await;
    }
    if queue.is_stream() && !read.has(from) {
        *read = read_stream(api, queue, from).await?;
        if read.end <= from {
            return Ok(Step::Over(TransferState::Done, None));
        }
    }
    let step = TransferStep {
        target: asked.target.clone(),
        copies: asked.copy,
        range: from..=asked.last,
        // One message shows whether the reason still holds.
        most: if has_waited { 1 } else { STEP_MESSAGES_MAX },
        read: read.runs.clone(),
    };
    let mut made = api.answer(api.broker().transfer(queue, step, api.node().clock().now())).await?;
    if let Some(leaving) = made.leaving.take() {
        let end = api.end_of(leaving.wait.clone()).await?;
        made = api.answer(api.broker().transfer_arrived(queue, *leaving, &end)).await?;
    }
    if !made.found {
        // The queue is being deleted.
        return Ok(Step::Wait(CONSUMED));
    }
    if !made.ticket.is_nothing() {
        api.durable(made.ticket).await?;
    }
    let next = made.next.or(queue.is_stream().then_some(read.end)).unwrap_or(u64::MAX);
    {
        let mut progress = transfer.progress.lock();
        progress.done += made.done;
        progress.next = next;
        if made.stopped.is_none() && !progress.state.is_over() {
            (progress.state, progress.reason) = (TransferState::Running, None);
        }
    }
    if let Some(reason) = made.stopped {
        return Ok(wait_for(transfer, reason));
    }
    if made.unread {
        read.runs = read_runs(api, queue, next).await?;
        if !read.has(next) {
            if api.answer(queue.ask(ReadyEnds(next..=next))).await?.is_some() {
                return Ok(wait_for(transfer, format!("message {next} was not read from the message store")));
            }
            // It left while it was read.
            transfer.progress.lock().next = next + 1;
        }
        return Ok(Step::On);
    }
    // All that are ready are on their way to consumers.
    Ok(if made.done == 0 && next == from { Step::Wait(CONSUMED) } else { Step::On })
}

/// At the end of the range: messages that consumers had, and gave back meanwhile, are moved, too.
async fn once_more(api: &Api, transfer: &Transfer, queue: &QueueRef) -> Result<Step, Error> {
    let asked = &transfer.asked;
    let ends = api.answer(queue.ask(ReadyEnds(asked.first..=asked.last))).await?;
    Ok(match ends.filter(|_| !asked.copy) {
        Some((lowest, ..)) => {
            transfer.progress.lock().next = lowest;
            Step::On
        }
        None => Step::Over(TransferState::Done, None),
    })
}

/// Reads a part of a stream.
async fn read_stream(api: &Api, queue: &QueueRef, from: u64) -> Result<Read, Error> {
    let offset = from.to_string();
    let terms = SearchTerms { offset: Some(&offset), ..SearchTerms::default() };
    let search = Search::begin(queue, &terms, api.node().clock().now().wall_ms).map_err(Error::BadRequest)?;
    let Some(search) = api.answer(search).await? else { return Ok(Read::default()) };
    let part = read_part(&search).await?;
    Ok(Read { runs: part.runs, end: part.end })
}
