//! Copies the last messages of a recent history exchange to the destination of a new binding.
//!
//! A queue gets them oldest first. Another exchange routes them newest first, as in RabbitMQ. They keep exchange, routing keys and
//! headers; a time to live begins anew.

use std::sync::Arc;

use leveret_message::headers::Headers;
use leveret_message::{BatchBuilder, MessageRef};
use leveret_model::Destination;
use leveret_routing::Routes;
use parking_lot::Mutex;

use crate::broker::Broker;
use crate::deferred::Work;
use crate::headers::MessageHeaders;
use crate::history_copy::HistoryCopy;
use crate::log_lines::category;
use crate::planted::{Bug, is_planted};
use crate::queue_handle::QueueRef;
use crate::registry::Snapshot;
use crate::route::RouteQueues;
use crate::streams::StreamRef;
use crate::time::Now;
use crate::turn_budget::{ENQUEUE, QUEUE_RUN, TurnBudget};
use crate::wait_for::WaitFor;

impl Broker {
    /// Goes on with a copy, as far as the turn allows.
    pub(crate) fn copy_history(&self, core: usize, mut copy: Box<HistoryCopy>, now: Now) {
        // The binding is durable.
        self.registry.publish();
        let snapshot = self.registry.snapshot_full();
        let queue = snapshot.queues.get(&copy.queue).and_then(|queue| Some((queue, queue.home()?)));
        let Some((queue, home)) = queue else { return self.history_copied(*copy) };
        let mut left = copy.left.take().unwrap_or_else(|| {
            // Messages that were confirmed before the binding was declared are in it.
            queue.apply();
            let mut messages = home.peek(0, usize::MAX);
            // After a crash there may be older ones, whose drop wasn't on disk.
            let kept_max = queue.info().options.max_length.unwrap_or(u64::MAX);
            messages.drain(..messages.len().saturating_sub(usize::try_from(kept_max).unwrap_or(usize::MAX)));
            if matches!(copy.binding.destination, Destination::Exchange { .. }) {
                messages.reverse();
            }
            messages.into()
        });
        let mut budget = TurnBudget::new(self.settings.turn_work_max);
        let mut letters = Letters::new(self, &snapshot, &copy, now);
        while let Some(next) = left.front() {
            if budget.is_spent() {
                break;
            }
            let number = next.number;
            let Some((batch, index)) = next.held.clone().or_else(|| copy.read.remove(&number)) else {
                if copy.read_from == Some(number) || is_planted(Bug::SkipStoredHistory) {
                    // It has left meanwhile.
                    left.pop_front();
                    continue;
                }
                break;
            };
            left.pop_front();
            let targets = letters.push(&batch.message(index as usize));
            budget.spend(targets as u32 * (QUEUE_RUN + ENQUEUE) + ENQUEUE);
        }
        letters.flush();
        let (waits, full) = (std::mem::take(&mut letters.waits), letters.full.take());
        copy.wait = WaitFor::all(std::iter::once(std::mem::take(&mut copy.wait)).chain(waits));
        let unread = left.front().filter(|next| next.held.is_none() && !copy.read.contains_key(&next.number));
        let unread = unread.map(|next| next.number).filter(|number| copy.read_from != Some(*number));
        let is_done = left.is_empty();
        copy.left = Some(left);
        match unread {
            None if is_done => self.history_sent(copy),
            None => match full {
                Some(full) => self.deferred.set_aside(core, &*full, Work::History(copy)),
                None => self.deferred.copy_more(core, copy),
            },
            Some(from) => {
                copy.read_from = Some(from);
                let (deferred, copy) = (self.deferred.clone(), Mutex::new(Some(copy)));
                let name = queue.info().name.clone();
                let read = move |read: Result<_, String>| {
                    let Some(mut copy) = copy.lock().take() else { return };
                    match read {
                        Ok(runs) => copy.loaded(runs),
                        Err(reason) => {
                            tracing::error!(target: category::QUEUE, queue = %name, reason, "recent messages can't be read");
                            copy.left = Some([].into());
                        }
                    }
                    deferred.copy_history(copy);
                };
                queue.peek(from, Arc::new(read));
            }
        }
    }

    /// All messages are on their way to the destination.
    fn history_sent(&self, mut copy: Box<HistoryCopy>) {
        let wait = std::mem::take(&mut copy.wait);
        // A destination that is gone needs no copy.
        if self.streams.end(&wait).is_some() || is_planted(Bug::BindBeforeHistory) {
            return self.history_copied(*copy);
        }
        let deferred = self.deferred.clone();
        self.streams.when_over(wait, Box::new(move |_| deferred.copy_history(copy)));
    }

    /// The destination has the messages.
    fn history_copied(&self, copy: HistoryCopy) {
        if let Destination::Queue { id, .. } = &copy.binding.destination
            && let Some(queue) = self.registry.snapshot().queues.get(id)
        {
            queue.apply();
        }
        if let Some((nothing, waiter)) = copy.end.reach() {
            self.streams.notify(nothing, waiter);
        }
    }
}

/// Messages on their way to queues. Those that go to the same ones are handed over together.
struct Letters<'a> {
    broker: &'a Broker,
    snapshot: &'a Snapshot,
    vhost: Arc<str>,
    destination: Destination,
    now: Now,
    queues: RouteQueues,
    persistent: bool,
    builder: BatchBuilder,
    /// The conditions under which the queues have what was handed over.
    waits: Vec<WaitFor>,
    /// The stream of one of them that has no room any more.
    full: Option<StreamRef>,
}

impl<'a> Letters<'a> {
    fn new(broker: &'a Broker, snapshot: &'a Snapshot, copy: &HistoryCopy, now: Now) -> Self {
        Self {
            broker,
            snapshot,
            vhost: copy.binding.vhost.clone(),
            destination: copy.binding.destination.clone(),
            now,
            queues: RouteQueues::default(),
            persistent: false,
            builder: BatchBuilder::default(),
            waits: Vec::new(),
            full: None,
        }
    }

    /// Adds a message. Returns the number of queues that it goes to.
    fn push(&mut self, message: &MessageRef<'_>) -> usize {
        let queues = self.queues_of(message);
        let view = message.view();
        let persistent = view.envelope.durable;
        if persistent != self.persistent || !queues.are_same(&self.queues) || self.builder.is_full() {
            self.flush();
            (self.queues, self.persistent) = (queues, persistent);
        }
        if !self.queues.is_empty() {
            self.builder.push_sent_on(message, view.envelope.received_again(self.now.wall_ms));
        }
        self.queues.len()
    }

    fn queues_of(&self, message: &MessageRef<'_>) -> RouteQueues {
        let mut routes = Routes::new();
        match &self.destination {
            Destination::Queue { id, .. } => routes.push(*id),
            Destination::Exchange { name, .. } => {
                let view = message.view();
                let keys: Vec<&[u8]> = view.routing_keys().collect();
                let headers = MessageHeaders(Headers::stored(&view));
                // An exchange that is gone leads nowhere.
                let _ = self.snapshot.router.route_by(&self.vhost, name, &keys, &headers, &mut routes);
            }
        }
        RouteQueues::find(self.snapshot, &routes)
    }

    fn flush(&mut self) {
        if self.builder.is_empty() {
            return;
        }
        let batch = Arc::new(self.builder.finish());
        self.waits.push(self.broker.hand_over(&self.queues, &batch, self.persistent, self.now).wait);
        self.full =
            self.queues.iter().map(QueueRef::stream).find(|stream| !stream.has_room()).map(|stream| stream.shared());
    }
}
