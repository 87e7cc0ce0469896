//! One client of the workload, whatever it speaks.

use std::collections::BTreeMap;

use crate::failure::Failure;
use crate::ledger::{Ledger, MessageId, Object, Presence, Stamp};
use crate::quiet::Shown;
use crate::topology::dead_letters_of;
use crate::world::World;
use crate::{body, content::Content, failure::Check, tally::Tally};

/// More messages than any queue of a simulation has; many of these can be added up.
pub const UNLIMITED: u64 = 1 << 40;

/// How many messages of each queue clients hold: at least, and at most.
pub type Holdings = BTreeMap<String, (u64, u64)>;

/// See the module.
pub trait Peer {
    /// Few enough of its requests and publishes are open that it may go on.
    fn may_go_on(&self, world: &mut World) -> bool;

    /// Does one thing; returns how many operations that was.
    fn operate(&mut self, world: &mut World, ledger: &mut Ledger) -> usize;

    /// Takes in what it heard. `at` is how many changes the disk had seen before the last step.
    ///
    /// # Errors
    /// A rule was found broken.
    fn listen(&mut self, world: &mut World, ledger: &mut Ledger, at: Stamp) -> Result<(), Failure>;

    /// Adds what it holds of each queue and hasn't settled.
    fn add_held(&self, held: &mut Holdings);

    /// Nothing moves any more, and this is shown.
    ///
    /// # Errors
    /// Something that it asked for is open, or it was left waiting.
    fn rest(&self, world: &mut World, shown: &Shown) -> Result<(), Failure>;
}

/// A message that a client got while the broker runs.
///
/// # Errors
/// It is not what was published, or shouldn't be there.
pub fn examine(received: &Content, queue: &str, ledger: &mut Ledger, tally: &mut Tally) -> Result<MessageId, Failure> {
    let message = body::id(&received.body).and_then(|id| ledger.messages.get_mut(id as usize));
    let Some(message) = message else {
        return Err(Failure::new(Check::NoPhantom, format!("queue {queue} delivered what nobody published")));
    };
    let id = message.id;
    if let Some(part) = body::difference(message, queue, received) {
        return Err(Failure::new(Check::NoCorruption, format!("message {id} from queue {queue}: wrong {part}")));
    }
    let Some(target) = message.targets.get_mut(queue) else {
        return Err(Failure::new(Check::NoPhantom, format!("message {id} wasn't published to queue {queue}")));
    };
    if target.gone.is_some() {
        return Err(Failure::new(Check::NothingComesBack, format!("message {id} is back in queue {queue}")));
    }
    // The end of a channel or link whose queue stopped gives back what may still be under way to its client: somebody else can
    // have it before.
    let may_be_late = ledger.has_failures();
    let target = &mut ledger.messages[id as usize].targets.get_mut(queue).expect("found above");
    if std::mem::replace(&mut target.seen, true) && !received.redelivered && !may_be_late {
        let detail = format!("message {id} of queue {queue} was delivered before and isn't flagged");
        return Err(Failure::new(Check::Redelivered, detail));
    }
    tally.add("dead letters delivered", target.origin.is_some().into());
    tally.add("redelivered messages seen", received.redelivered.into());
    Ok(id)
}

/// The queue that a refusal says has stopped.
#[must_use]
pub fn stopped_queue(text: &str) -> Option<&str> {
    let (before, _) = text.split_once("' in vhost '/' has crashed and failed to restart: ")?;
    before.rsplit_once("queue '").map(|(_, name)| name)
}

/// A length of a message's body.
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

/// A queue that is there with ready messages of which a consumer that could take them gets none.
#[must_use]
pub fn starving(shown: &Shown, ledger: &Ledger) -> Option<String> {
    for name in ledger.queues() {
        if ledger.presence_now(&Object::Queue(name.to_owned())) != Presence::Present || ledger.has_failed(name) {
            continue;
        }
        let Some(status) = shown.of(name) else { continue };
        let able = status.consumers.iter().any(|known| match known.link_credit {
            Some(credit) => credit > 0,
            None => known.prefetch == 0 || known.unacknowledged < known.prefetch,
        });
        if status.ready > 0 && able {
            return Some(format!("queue {name}: {} ready, and an able consumer waits", status.ready));
        }
        let dead = dead_letters_of(name);
        let waits = dead.as_ref().is_some_and(|dead| ledger.has_failed(dead));
        if status.moving > 0 && !waits {
            return Some(format!("queue {name}: {} messages never moved to {dead:?}", status.moving));
        }
    }
    None
}
