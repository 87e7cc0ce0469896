//! What was found after a power cut against what the clients know.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::Findings;
use crate::body;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Object, Presence, Stamp};
use crate::tally::Tally;

/// Judges what is there after a power cut that came when the disk had seen `at` changes.
///
/// # Errors
/// The first rule found broken.
pub fn judge(ledger: &Ledger, at: Stamp, findings: &Findings, tally: &mut Tally) -> Result<(), Failure> {
    objects(ledger, at, findings)?;
    let mut found: BTreeMap<&str, BTreeSet<MessageId>> = BTreeMap::new();
    for queue in findings.queues.keys() {
        found.insert(queue, contents(ledger, at, queue, findings)?);
    }
    for queue in ledger.queues() {
        losses(ledger, at, queue, found.get(queue), tally)?;
    }
    Ok(())
}

fn objects(ledger: &Ledger, at: Stamp, findings: &Findings) -> Result<(), Failure> {
    for object in ledger.objects() {
        let is_there = findings.objects.contains(object);
        match ledger.presence(object, at) {
            Presence::Present if !is_there => {
                return Err(Failure::new(Check::ObjectsExist, format!("{object:?} was confirmed and isn't there")));
            }
            Presence::Absent if is_there => {
                return Err(Failure::new(
                    Check::ObjectsStayAway,
                    format!("{object:?} was deleted, or never declared, and is there"),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Everything in a queue was published to it, is whole, in order and there once.
fn contents(ledger: &Ledger, at: Stamp, queue: &str, findings: &Findings) -> Result<BTreeSet<MessageId>, Failure> {
    let mut ids = BTreeSet::new();
    let mut last: BTreeMap<u64, MessageId> = BTreeMap::new();
    for received in &findings.queues[queue] {
        let message = body::id(&received.body).and_then(|id| ledger.messages.get(id as usize));
        let Some(message) = message.filter(|message| message.published <= at) else {
            let start = &received.body[..received.body.len().min(16)];
            let detail = format!("queue {queue} has a message that nobody published by then: {start:?}");
            return Err(Failure::new(Check::NoPhantom, detail));
        };
        let id = message.id;
        let Some(target) = message.targets.get(queue) else {
            return Err(Failure::new(Check::NoPhantom, format!("message {id} wasn't published to queue {queue}")));
        };
        if let Some(part) = body::difference(message, received) {
            return Err(Failure::new(Check::NoCorruption, format!("message {id} in queue {queue}: wrong {part}")));
        }
        if target.gone.is_some_and(|gone| gone <= at) {
            return Err(Failure::new(Check::NothingComesBack, format!("message {id} is back in queue {queue}")));
        }
        if !ids.insert(id) {
            return Err(Failure::new(Check::NoDuplicate, format!("message {id} is twice in queue {queue}")));
        }
        if let Some(before) = last.insert(message.publisher, id).filter(|before| *before > id) {
            let detail = format!("queue {queue}: message {id} behind {before} of the same publisher");
            return Err(Failure::new(Check::Order, detail));
        }
        if target.seen && !received.redelivered {
            let detail = format!("message {id} of queue {queue} was delivered before and isn't flagged");
            return Err(Failure::new(Check::Redelivered, detail));
        }
    }
    Ok(ids)
}

/// Everything that was confirmed is there.
fn losses(
    ledger: &Ledger,
    at: Stamp,
    queue: &str,
    found: Option<&BTreeSet<MessageId>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let present = ledger.presence(&Object::Queue(queue.to_owned()), at) == Presence::Present;
    let mut unheard = ledger.unheard(queue);
    for message in &ledger.messages {
        let Some(target) = message.targets.get(queue) else { continue };
        if message.published > at || target.gone.is_some_and(|gone| gone <= at) {
            continue;
        }
        let is_there = found.is_some_and(|found| found.contains(&message.id));
        let confirmed = message.confirmed.is_some_and(|confirmed| confirmed <= at);
        match (message.persistent, confirmed, is_there) {
            (true, false, true) => tally.hit("unconfirmed messages that survived"),
            (true, false, false) => tally.hit("unconfirmed messages lost"),
            (false, _, false) => tally.hit("volatile messages lost"),
            _ => {}
        }
        let excused = target.excused.is_some_and(|from| from <= at);
        if is_there || !present || !confirmed || !message.persistent || !target.certain || excused {
            continue;
        }
        if unheard > 0 {
            unheard -= 1;
            continue;
        }
        let Some(confirmed) = message.confirmed else { continue };
        let detail = format!(
            "message {} ({} bytes) of queue {queue} was confirmed at change {confirmed} and is gone after {at}",
            message.id, message.length
        );
        let detail = format!(
            "{detail} DBG {message:?} found {found:?} unheard {} presence {:?}",
            ledger.unheard(queue),
            ledger.dbg(queue)
        );
        return Err(Failure::new(Check::NothingLost, detail));
    }
    Ok(())
}
