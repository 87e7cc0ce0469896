//! Checks at rest, when nothing moves any more: operators see the same as clients know. It uses the views behind the
//! HTTP API and Prometheus, without their sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_broker::queue_handle::{QueueRef, Status};
use leveret_metrics::Totals;
use leveret_queue::{ConsumerStatus, QueueState, QueueStatus};

use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Object};
use crate::peer::Holdings;
use crate::streams::is_stream;
use crate::topology;
use crate::world::World;

/// The status of every queue, as operators see it, and the messages that clients hold, at one moment.
pub struct Shown(BTreeMap<Arc<str>, QueueStatus>, Holdings);

impl Shown {
    /// The status at this moment.
    #[must_use]
    pub fn now(world: &World, held: Holdings) -> Self {
        let snapshot = world.broker.registry.snapshot_full();
        let status = |queue: &QueueRef| *queue.look(Status).expect("it is there");
        Self(snapshot.queues.values().map(|queue| (queue.info().name.clone(), status(queue))).collect(), held)
    }

    /// Whether a message that fits is certain to be ready in a queue, now that nothing moves.
    #[must_use]
    pub fn has_ready(&self, queue: &str, ledger: &Ledger, fits: impl Fn(MessageId) -> bool) -> bool {
        let is_simple = |status: &QueueStatus| {
            let quorum = status.quorum.as_ref().map_or(0, |quorum| quorum.delayed + quorum.parked);
            quorum == 0 && status.conservation.parked == 0
        };
        let is_held = |id: MessageId| self.1.get(queue).is_some_and(|held| held.messages.contains(&id));
        self.of(queue).is_some_and(is_simple)
            && ledger.unheard(queue) == 0
            && ledger
                .messages
                .iter()
                .any(|message| message.is_kept_in(queue) && fits(message.id) && !is_held(message.id))
    }

    /// The status of one queue, if it exists.
    #[must_use]
    pub fn of(&self, queue: &str) -> Option<&QueueStatus> {
        self.0.get(queue)
    }
}

/// The broker's counters for all protocols at one moment.
#[must_use]
pub fn totals(world: &World) -> Totals {
    world.broker.totals()
}

/// Checks every queue: nothing is on its way, clients hold what counts as unacknowledged, and counts and bytes add up.
///
/// # Errors
/// They don't add up.
pub fn queues(world: &World, shown: &Shown, ledger: &Ledger) -> Result<(), Failure> {
    for (name, status) in &shown.0 {
        if status.state != QueueState::Running {
            continue;
        }
        let lies = |what: String| Err(Failure::new(Check::NoLies, format!("queue {name}: {what}")));
        if status.pending != 0 && !world.disk.has_space_limit() {
            return lies(format!("{} messages are on their way to a disk that does nothing", status.pending));
        }
        let counts = status.conservation;
        let (delayed, delayed_bytes) =
            status.quorum.as_ref().map_or((0, 0), |quorum| (quorum.delayed, quorum.delayed_bytes));
        // Messages that readers of a stream hold are there for all others, too.
        let outside = if is_stream(name) { 0 } else { status.unacknowledged };
        if counts.accepted != counts.gone() + status.ready + outside + delayed {
            let (ready, unacknowledged) = (status.ready, status.unacknowledged);
            return lies(format!("{counts:?}, {ready} ready, {unacknowledged} unacknowledged, {delayed} delayed"));
        }
        let parked_bytes = status.quorum.as_ref().map_or(0, |quorum| quorum.parked_bytes);
        if status.bytes != status.ready_bytes + status.unacknowledged_bytes + delayed_bytes + parked_bytes {
            let (ready, unacknowledged) = (status.ready_bytes, status.unacknowledged_bytes);
            return lies(format!(
                "{} bytes, of them {ready} ready, {unacknowledged} unacknowledged, {delayed_bytes} delayed and {parked_bytes} parked",
                status.bytes
            ));
        }
        if topology::is_single_active(name)
            && let Err(what) = single_active(status)
        {
            return Err(Failure::new(Check::SingleActive, format!("queue {name}: {what}")));
        }
        let (least, most) = shown.1.get(&**name).map_or((0, 0), |held| (held.least, held.most));
        // A dead letter whose queue has stopped is held by no client. Messages taken from a deleted queue aren't
        // counted anywhere.
        let is_known = world.failed.is_empty() && !ledger.was_unmade(&Object::Queue(String::from(&**name)));
        if status.unacknowledged > most || status.unacknowledged < least && is_known {
            return lies(format!("{} unacknowledged, clients hold {least} to {most}", status.unacknowledged));
        }
    }
    Ok(())
}

/// Checks that one consumer is active, and that the others never were, or gave way to one of a higher priority.
fn single_active(status: &QueueStatus) -> Result<(), String> {
    let is_active = |known: &&ConsumerStatus| known.activity.is_active();
    let active: Vec<&ConsumerStatus> = status.consumers.iter().filter(is_active).collect();
    let [active] = active[..] else {
        let (count, active) = (status.consumers.len(), active.len());
        return if count == 0 { Ok(()) } else { Err(format!("{active} of {count} consumers are active")) };
    };
    let passed_over = |known: &&ConsumerStatus| known.delivered > 0 && known.priority >= active.priority;
    match status.consumers.iter().filter(|known| !known.activity.is_active()).find(passed_over) {
        Some(known) => Err(format!(
            "consumer {} got {} messages while {} was the active one",
            known.tag, known.delivered, active.tag
        )),
        None => Ok(()),
    }
}

/// Checks the node's counters since `before` against the messages that clients sent and received. They have to be equal
/// if no client vanished in the middle of something.
///
/// # Errors
/// They differ.
pub fn counters(world: &World, before: &Totals) -> Result<(), Failure> {
    let now = totals(world);
    let heard = |names: &[&str]| names.iter().map(|name| world.tally.count(name)).sum::<u64>();
    let sent = heard(&["messages sent"]);
    let (published, confirmed) = (now.published - before.published, now.confirmed - before.confirmed);
    let delivered = now.delivered() - before.delivered();
    let confirms = heard(&["confirms", "messages accepted"]);
    let deliveries = heard(&["messages delivered"]);
    let is_right = match world.is_gentle && world.failed.is_empty() {
        true => (published, confirmed, delivered) == (sent, confirms, deliveries),
        false => confirms <= confirmed && confirmed <= published && published <= sent && deliveries <= delivered,
    };
    if is_right {
        return Ok(());
    }
    let detail = format!(
        "{published} published of {sent} sent, {confirmed} confirmed of which {confirms} were heard, {delivered} \
         delivered of which {deliveries} came"
    );
    Err(Failure::new(Check::NoLies, detail))
}
