//! A client of the workload, for any protocol.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::Failure;
use crate::ledger::{Ledger, MessageId, Object, Presence, Stamp};
use crate::quiet::Shown;
use crate::streams::is_stream;
use crate::topology::{self, dead_letters_of};
use crate::world::World;
use crate::{body, content::Content, failure::Check, tally::Tally};

/// Stands for "no limit": more messages than any queue of a simulation has. Sums of it don't overflow.
pub const UNLIMITED: u64 = 1 << 40;

/// The messages of each queue that clients hold unsettled.
pub type Holdings = BTreeMap<String, Holding>;

/// The messages of a queue that clients hold unsettled.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    /// The number of those that are certainly held.
    pub least: u64,
    /// The number of all.
    pub most: u64,
    /// All of them.
    pub messages: BTreeSet<MessageId>,
}

impl Holding {
    /// Adds one, which may be held or is certain to be.
    pub fn add(&mut self, message: MessageId, is_certain: bool) {
        self.least += u64::from(is_certain);
        self.most += 1;
        self.messages.insert(message);
    }
}

/// The beginning of the names of links with a filter.
pub const FILTERING: &str = "filtering ";

/// A client of the workload.
pub trait Peer {
    /// Whether the client is connected and has few enough unanswered requests and publishes to act again.
    fn may_go_on(&self, world: &mut World) -> bool;

    /// Carries out one action; returns the number of operations.
    fn operate(&mut self, world: &mut World, ledger: &mut Ledger) -> usize;

    /// Handles the events that the client received. `at` is the number of disk changes before the last step.
    ///
    /// # Errors
    /// The events break a rule of the simulation.
    fn listen(&mut self, world: &mut World, ledger: &mut Ledger, at: Stamp) -> Result<(), Failure>;

    /// Adds the client's unsettled messages to the holdings of their queues.
    fn add_held(&self, held: &mut Holdings);

    /// Checks the client once nothing happens any more. `shown` is the queues' state as operators see it.
    ///
    /// # Errors
    /// A request or publish is unanswered, or the client lacks credit that it should have.
    fn rest(&self, world: &mut World, shown: &Shown, ledger: &Ledger) -> Result<(), Failure>;
}

/// Checks a message that a client got while the broker runs.
///
/// # Errors
/// It differs from what was published, or shouldn't be there.
pub fn examine(received: &Content, queue: &str, ledger: &mut Ledger, tally: &mut Tally) -> Result<MessageId, Failure> {
    let now_ms = ledger.now_ms;
    let message = body::id(&received.body).and_then(|id| ledger.messages.get_mut(id as usize));
    let Some(message) = message else {
        return Err(Failure::new(
            Check::NoPhantom,
            format!("queue {queue} delivered a message that was never published"),
        ));
    };
    let id = message.id;
    let not_before_ms = message.targets.get(queue).map_or(0, |target| target.not_before_ms);
    let not_before_ms = not_before_ms.max(message.delivery_ms.filter(|_| topology::is_quorum(queue)).unwrap_or(0));
    if not_before_ms > now_ms {
        let detail = format!("message {id} of queue {queue} was delivered at {now_ms}, before {not_before_ms}");
        return Err(Failure::new(Check::NotEarly, detail));
    }
    tally.add("delayed messages delivered", (not_before_ms > 0).into());
    if let Some(part) = body::difference(message, queue, received) {
        return Err(Failure::new(Check::NoCorruption, format!("message {id} from queue {queue}: wrong {part}")));
    }
    let Some(target) = message.targets.get_mut(queue) else {
        return Err(Failure::new(Check::NoPhantom, format!("message {id} wasn't published to queue {queue}")));
    };
    if message.visible == Stamp::MAX {
        let detail = format!("queue {queue} delivered message {id} of a transaction that isn't committed");
        return Err(Failure::new(Check::AbortedRead, detail));
    }
    if target.gone.is_some() {
        return Err(Failure::new(Check::NothingComesBack, format!("message {id} is back in queue {queue}")));
    }
    // If a queue stopped, its channels and links end. That requeues messages that may still be on their way to a
    // client, so another client can get them first.
    let may_be_late = ledger.has_failures();
    let target = &mut ledger.messages[id as usize].targets.get_mut(queue).expect("found above");
    let is_new = !std::mem::replace(&mut target.seen, true) || is_stream(queue);
    if is_stream(queue) && received.redelivered {
        let detail = format!("message {id} of stream {queue} is flagged as delivered before");
        return Err(Failure::new(Check::Redelivered, detail));
    }
    if !is_new && !received.redelivered && !may_be_late {
        let detail = format!("message {id} of queue {queue} was delivered before and isn't flagged");
        return Err(Failure::new(Check::Redelivered, detail));
    }
    let before = target.acquired.replace(received.acquired);
    // A dead letter counts from its failures in the other queue, until it comes back.
    if topology::is_quorum(queue)
        && target.origin.is_none()
        && let Some(before) = before.filter(|before| *before >= received.acquired)
    {
        let detail = format!("message {id} of queue {queue}: {} earlier deliveries after {before}", received.acquired);
        return Err(Failure::new(Check::Redelivered, detail));
    }
    tally.add("dead letters delivered", target.origin.is_some().into());
    tally.add("redelivered messages seen", received.redelivered.into());
    Ok(id)
}

/// The name of the stopped queue in the text of a refusal; `None` if the refusal has another reason.
#[must_use]
pub fn stopped_queue(text: &str) -> Option<&str> {
    let (before, _) = text.split_once("' in vhost '/' has crashed and failed to restart: ")?;
    before.rsplit_once("queue '").map(|(_, name)| name)
}

/// A time of delivery for every eighth message, in milliseconds since the Unix epoch: within three seconds, or just past.
pub fn delivery_time(world: &mut World) -> Option<u64> {
    let now_ms = world.clock.now().wall_ms;
    (world.random.below(8) == 0).then(|| now_ms - 20 + world.random.below(3_000))
}

/// A random length of a message's body.
pub fn length(world: &mut World) -> usize {
    let random = &mut world.random;
    let length = match random.below(100) {
        0..=69 => random.below(100),
        70..=93 => random.below(2_000),
        94..=98 => 4_000 + random.below(8_000),
        _ => 20_000 + random.below(40_000),
    };
    if length >= 4_096 {
        world.tally.hit("large bodies");
    }
    length.max(body::LENGTH_MIN as u64) as usize
}

/// Looks for a queue at rest that should still do something: ready messages beside a consumer with credit or prefetch
/// room, or dead letters that haven't moved. Returns a description of the first one found.
#[must_use]
pub fn starving(shown: &Shown, ledger: &Ledger) -> Option<String> {
    for name in ledger.queues() {
        if ledger.presence_now(&Object::Queue(name.to_owned())) != Presence::Present || ledger.has_failed(name) {
            continue;
        }
        let Some(status) = shown.of(name) else { continue };
        // Readers of a stream and receivers with a filter are looked at one by one.
        if is_stream(name) {
            continue;
        }
        let able = status
            .consumers
            .iter()
            .filter(|known| known.activity.is_served() && !known.tag.starts_with(FILTERING))
            .any(|known| match known.link_credit {
                Some(credit) => credit > 0,
                None => known.prefetch == 0 || known.unacknowledged < known.prefetch,
            });
        if status.ready > 0 && able {
            return Some(format!("queue {name}: {} ready, and a consumer has credit or prefetch room", status.ready));
        }
        let dead = dead_letters_of(name);
        let waits = dead.as_ref().is_some_and(|dead| ledger.has_failed(dead));
        if status.moving > 0 && !waits {
            return Some(format!("queue {name}: {} messages never moved to {dead:?}", status.moving));
        }
    }
    None
}
