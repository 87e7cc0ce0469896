//! `disposition` of a receiving client: what becomes of its deliveries (specification 2.7.6, 3.4).

use leveret_amqp10::{
    DeliveryState, Performative, Role, Serial, condition, encode_performative, performative::Disposition,
};
use leveret_log::{Position, Wait};
use leveret_queue::{ConsumerId, Outcome, Run, push_run};

use super::connection::Connection;
use super::error::{Failure, Result};
use super::link::Link;
use super::session::Session;
use crate::queue_handle::QueueRef;
use crate::time::Now;

/// What the client wants done with deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// They are done.
    Settle,
    /// They can't be handled: dead-letter or drop.
    Reject,
    /// Back to their place; with `failed` the attempt counts.
    Requeue { failed: bool },
}

/// Deliveries of one queue that share their fate, collected until the read's frames are used up.
pub(crate) struct Settlement {
    queue: QueueRef,
    consumer: ConsumerId,
    wish: Wish,
    runs: Vec<Run>,
    /// The client waits for our answer to these.
    asked: Vec<Asked>,
}

/// An unsettled disposition: it is answered settled when its effect is durable.
struct Asked {
    channel: u16,
    first: Serial,
    last: Serial,
    state: DeliveryState<'static>,
}

/// An answer that waits for the disk.
pub(crate) struct Answer {
    pub position: Position,
    asked: Asked,
}

impl Connection {
    /// A disposition of the client.
    pub(crate) fn disposition(&mut self, session: &mut Session, disposition: &Disposition<'_>, now: Now) -> Result<()> {
        let first = Serial(disposition.first);
        let last = disposition.last.map_or(first, Serial);
        if disposition.role == Role::Sender {
            // As a sender it settles what it published: the outcome that we sent was settled already.
            return Ok(());
        }
        let (state, transaction) = match disposition.state {
            Some(DeliveryState::Transactional { txn_id, outcome }) => (outcome.map(DeliveryState::from), Some(txn_id)),
            state => (state, None),
        };
        if transaction.is_some_and(|id| !self.is_open_transaction(id)) {
            return Err(Failure::session(
                condition::TRANSACTION_UNKNOWN_ID,
                "disposition in a transaction that was never declared, or is discharged",
            ));
        }
        let wish = match state {
            Some(DeliveryState::Accepted) => Wish::Settle,
            Some(DeliveryState::Rejected { .. }) => Wish::Reject,
            Some(DeliveryState::Released) => Wish::Requeue { failed: false },
            Some(DeliveryState::Modified { undeliverable_here: true, .. }) => Wish::Reject,
            Some(DeliveryState::Modified { delivery_failed, .. }) => Wish::Requeue { failed: delivery_failed },
            // The default outcome of our sources.
            None if disposition.settled => Wish::Requeue { failed: false },
            None | Some(DeliveryState::Received { .. }) => return Ok(()),
            Some(other) => {
                return Err(Failure::session(
                    condition::INVALID_FIELD,
                    format!("Unrecognised state: {other:?} in DISPOSITION"),
                ));
            }
        };
        let channel = session.channel;
        let asked = || Asked { channel, first, last, state: repeated(state) };
        let settled = session.unsettled.settle(first, last);
        let mut answered = disposition.settled;
        for part in settled {
            let Some(Link::Consumer(consumer)) = session.link(part.handle) else { continue };
            if consumer.browses {
                continue;
            }
            let (queue, id) = (consumer.queue.clone(), consumer.id);
            if let Some(transaction) = transaction {
                self.settle_in_transaction(transaction, queue, id, part.runs, wish)?;
                continue;
            }
            let same = |other: &&mut Settlement| other.consumer == id && other.wish == wish;
            let settlement = match self.settlements.iter_mut().find(same) {
                Some(settlement) => {
                    part.runs.into_iter().for_each(|run| push_run(&mut settlement.runs, run));
                    settlement
                }
                None => {
                    let new = Settlement { queue, consumer: id, wish, runs: part.runs, asked: Vec::new() };
                    self.settlements.push(new);
                    self.settlements.last_mut().expect("just pushed")
                }
            };
            // One answer for the whole range: with its last part.
            if !disposition.settled && !std::mem::replace(&mut answered, true) {
                settlement.asked.push(asked());
            }
        }
        if !answered {
            // Nothing of it is unsettled any more.
            self.send_settled(&asked());
        }
        if wish != Wish::Settle {
            self.flush_settlements(now);
        }
        Ok(())
    }

    /// Hands collected settlements to their queues.
    pub(crate) fn flush_settlements(&mut self, now: Now) {
        for settlement in std::mem::take(&mut self.settlements) {
            let Settlement { queue, consumer, wish, runs, asked } = settlement;
            let count: u64 = runs.iter().map(Run::count).sum();
            let wait = if asked.is_empty() { Wait::Lazy } else { Wait::Confirm };
            let position = match wish {
                Wish::Settle => {
                    self.counters.acked.add(count);
                    queue.settle(Some(consumer), &runs, Outcome::Settled, wait, now.monotonic).unwrap_or(0)
                }
                Wish::Reject => queue.settle(Some(consumer), &runs, Outcome::Dropped, wait, now.monotonic).unwrap_or(0),
                Wish::Requeue { failed } => {
                    queue.requeue(Some(consumer), &runs, failed, now.monotonic);
                    0
                }
            };
            self.answers.extend(asked.into_iter().map(|asked| Answer { position, asked }));
        }
    }

    /// Answers the settlements that became durable.
    pub(crate) fn answer_settlements(&mut self) {
        let durable = self.broker.commit.durable();
        while let Some(answer) = self.answers.pop_front_if(|answer| answer.position <= durable) {
            self.send_settled(&answer.asked);
        }
    }

    fn send_settled(&mut self, asked: &Asked) {
        let &Asked { channel, first, last, state } = asked;
        let answer = Disposition {
            role: Role::Sender,
            first: first.0,
            last: (first != last).then_some(last.0),
            settled: true,
            state: Some(state),
            batchable: false,
        };
        encode_performative(self.output.buffer(), channel, &Performative::Disposition(answer));
    }
}

/// The client's state as it is repeated to it, without errors and annotations: those are its own.
fn repeated(state: Option<DeliveryState<'_>>) -> DeliveryState<'static> {
    match state {
        Some(DeliveryState::Accepted) => DeliveryState::Accepted,
        Some(DeliveryState::Rejected { .. }) => DeliveryState::Rejected { error: None },
        Some(DeliveryState::Modified { delivery_failed, undeliverable_here, .. }) => {
            DeliveryState::Modified { delivery_failed, undeliverable_here, message_annotations: None }
        }
        _ => DeliveryState::Released,
    }
}
