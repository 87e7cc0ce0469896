//! The comparison of the findings after a power cut with the clients' knowledge.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::Findings;
use crate::body;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, MessageId, Object, Presence, Stamp};
use crate::streams::{self, is_stream};
use crate::tally::Tally;
use crate::topology;

/// Judges the findings after a power cut at `at`, in changes that the disk had seen.
///
/// # Errors
/// The first broken rule.
pub fn judge(ledger: &Ledger, at: Stamp, findings: &Findings, tally: &mut Tally) -> Result<(), Failure> {
    objects(ledger, at, findings)?;
    let mut found: BTreeMap<&str, BTreeSet<MessageId>> = BTreeMap::new();
    for queue in findings.queues.keys() {
        found.insert(queue, contents(ledger, at, queue, findings, true)?);
    }
    dead_letters(ledger, &found, tally)?;
    transactions(ledger, at, &found, tally)?;
    for queue in findings.queues.keys().filter(|queue| is_stream(queue)) {
        streams::judge_offsets(ledger, at, queue, findings)?;
        streams::judge_losses(ledger, at, queue, findings, &found[queue.as_str()], tally)?;
    }
    for queue in ledger.queues().filter(|queue| !is_stream(queue)) {
        losses(ledger, at, queue, &found, tally)?;
    }
    Ok(())
}

/// Judges the findings after bytes were read wrong and the broker reported that: messages may be missing, or be back,
/// but those that exist have to be right.
///
/// # Errors
/// The first broken rule.
pub fn judge_damaged(ledger: &Ledger, at: Stamp, findings: &Findings) -> Result<(), Failure> {
    findings.queues.keys().try_for_each(|queue| contents(ledger, at, queue, findings, false).map(|_| ()))
}

/// Checks that a dead letter is where it died or where it went.
fn dead_letters(
    ledger: &Ledger,
    found: &BTreeMap<&str, BTreeSet<MessageId>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    for message in &ledger.messages {
        for (queue, target) in &message.targets {
            let Some(origin) = &target.origin else { continue };
            let is_in = |queue: &str| found.get(queue).is_some_and(|found| found.contains(&message.id));
            if is_in(queue) && is_in(&origin.queue) {
                let detail = format!("message {} is in queue {queue} and still in {}", message.id, origin.queue);
                return Err(Failure::new(Check::NoDuplicate, detail));
            }
            tally.add("dead letters found", is_in(queue).into());
        }
    }
    Ok(())
}

/// Checks that all messages published in one transaction exist, or none.
fn transactions(
    ledger: &Ledger,
    at: Stamp,
    found: &BTreeMap<&str, BTreeSet<MessageId>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    for commit in ledger.commits.iter().filter(|commit| commit.asked <= at) {
        let mut seen: [Option<(MessageId, &str)>; 2] = [None; 2];
        let messages = commit.published.iter().filter_map(|id| ledger.messages.get(*id as usize));
        for message in messages.filter(|message| message.persistent) {
            for (queue, target) in &message.targets {
                let by_then = |stamp: Option<Stamp>| stamp.is_some_and(|stamp| stamp <= at);
                let is_judged = target.certain
                    && target.origin.is_none()
                    && !by_then(target.excused)
                    && !by_then(target.gone)
                    && !topology::is_written_only(queue)
                    && !streams::is_limited(queue)
                    && ledger.unheard(queue) == 0
                    && ledger.presence(&Object::Queue(queue.clone()), at) == Presence::Present;
                if let Some(found) = found.get(queue.as_str()).filter(|_| is_judged) {
                    seen[usize::from(found.contains(&message.id))] = Some((message.id, queue));
                }
            }
        }
        if let [Some((missing, from)), Some((there, queue))] = seen {
            let detail = format!(
                "of one transaction, message {there} is in queue {queue} and message {missing} isn't in {from}"
            );
            return Err(Failure::new(Check::TransactionsAreWhole, detail));
        }
        if let [Some(_), None] | [None, Some(_)] = seen {
            tally.hit("transactions found whole, or not at all");
        }
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

/// Checks that every message in a queue was published to it, is whole, in order and there once.
fn contents(
    ledger: &Ledger,
    at: Stamp,
    queue: &str,
    findings: &Findings,
    stays_away: bool,
) -> Result<BTreeSet<MessageId>, Failure> {
    let mut ids = BTreeSet::new();
    let mut last: BTreeMap<u64, MessageId> = BTreeMap::new();
    for received in &findings.queues[queue] {
        let message = body::id(&received.content.body).and_then(|id| ledger.messages.get(id as usize));
        let Some(message) = message.filter(|message| message.published <= at) else {
            let start = &received.content.body[..received.content.body.len().min(16)];
            let detail = format!("queue {queue} has a message that nobody published by then: {start:?}");
            return Err(Failure::new(Check::NoPhantom, detail));
        };
        let id = message.id;
        let Some(target) = message.targets.get(queue) else {
            return Err(Failure::new(Check::NoPhantom, format!("message {id} wasn't published to queue {queue}")));
        };
        let content = &received.content;
        if target.origin.as_ref().is_some_and(|origin| origin.asked > at) {
            let detail = format!("message {id} is in queue {queue} before anybody rejected it");
            return Err(Failure::new(Check::NoPhantom, detail));
        }
        if let Some(part) = body::difference(message, queue, content) {
            return Err(Failure::new(Check::NoCorruption, format!("message {id} in queue {queue}: wrong {part}")));
        }
        if stays_away && message.visible > at {
            let detail = format!("message {id} of a transaction that wasn't committed is in queue {queue}");
            return Err(Failure::new(Check::AbortedRead, detail));
        }
        if stays_away && target.gone.is_some_and(|gone| gone <= at) {
            return Err(Failure::new(Check::NothingComesBack, format!("message {id} is back in queue {queue}")));
        }
        if !ids.insert(id) {
            return Err(Failure::new(Check::NoDuplicate, format!("message {id} is twice in queue {queue}")));
        }
        // Dead letters come in the order in which they died, and a quorum queue delivers messages in the order in which they
        // came back.
        if target.origin.is_none()
            && !message.waits_in(queue)
            && !(topology::is_quorum(queue) && content.redelivered)
            && let Some(before) = last.insert(message.publisher, id).filter(|before| *before > id)
        {
            let detail = format!("queue {queue}: message {id} behind {before} of the same publisher");
            let check = if is_stream(queue) { Check::NonmonotonicSend } else { Check::Order };
            return Err(Failure::new(check, detail));
        }
        if target.seen && !content.redelivered && !is_stream(queue) {
            let detail = format!("message {id} of queue {queue} was delivered before and isn't flagged");
            return Err(Failure::new(Check::Redelivered, detail));
        }
    }
    Ok(ids)
}

/// Checks that every confirmed message exists.
fn losses(
    ledger: &Ledger,
    at: Stamp,
    queue: &str,
    found: &BTreeMap<&str, BTreeSet<MessageId>>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let present = ledger.presence(&Object::Queue(queue.to_owned()), at) == Presence::Present;
    let is_in = |queue: &str, id| found.get(queue).is_some_and(|found| found.contains(&id));
    let mut unheard = ledger.unheard(queue);
    for message in &ledger.messages {
        let Some(target) = message.targets.get(queue) else { continue };
        if message.published > at || target.gone.is_some_and(|gone| gone <= at) {
            continue;
        }
        let is_there = is_in(queue, message.id);
        if let Some(origin) = &target.origin {
            // Its rejection wasn't requested by then, or it wasn't moved yet.
            if origin.asked > at || is_in(&origin.queue, message.id) {
                continue;
            }
            if !is_there && ledger.unheard(&origin.queue) > 0 {
                continue;
            }
        }
        let confirmed = message.confirmed.is_some_and(|confirmed| confirmed <= at);
        let persistent = message.persistent || topology::is_quorum(queue);
        match (persistent, confirmed, is_there) {
            (true, false, true) => tally.hit("unconfirmed messages that survived"),
            (true, false, false) => tally.hit("unconfirmed messages lost"),
            (false, _, false) => tally.hit("volatile messages lost"),
            _ => {}
        }
        let excused = target.excused.is_some_and(|from| from <= at);
        if is_there || !present || !confirmed || !persistent || !target.certain || excused {
            continue;
        }
        if topology::is_written_only(queue) && !ledger.kept_power {
            tally.hit("confirmed messages of the class os lost");
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
        return Err(Failure::new(Check::NothingLost, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp091::Received;
    use crate::content::Content;
    use crate::peer::examine;

    /// A queue to which a message was published in a transaction.
    fn with_transaction() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.note(Object::Queue("q".to_owned()), 0, Presence::Present);
        let id = ledger.publish(1, ("", "q"), (8, true), 1);
        ledger.withhold(id);
        ledger
    }

    fn content() -> Content {
        Content {
            redelivered: false,
            exchange: Vec::new(),
            key: b"q".to_vec(),
            persistent: true,
            message_id: None,
            has_died: false,
            acquired: 0,
            delivery_ms: None,
            offset: None,
            has_more: false,
            body: body::body(0, 8),
        }
    }

    /// The verdicts on a message that was found after a power cut at `at`, and on one that a client gets.
    fn judge_read(ledger: &Ledger, at: Stamp) -> [Option<Check>; 2] {
        let received = Received { channel: 1, consumer: Vec::new(), tag: 1, content: content() };
        let queues = BTreeMap::from([("q".to_owned(), vec![received])]);
        let findings = Findings { queues, ..Findings::default() };
        let found = contents(ledger, at, "q", &findings, true).err();
        let got = examine(&content(), "q", &mut ledger.clone(), &mut Tally::default()).err();
        [found, got].map(|failure| failure.map(|failure| failure.check))
    }

    #[test]
    fn a_message_is_read_once_its_commit_was_requested() {
        let mut ledger = with_transaction();
        assert_eq!(judge_read(&ledger, 3), [Some(Check::AbortedRead); 2]);
        ledger.commit(&[0], 5);
        assert_eq!(judge_read(&ledger, 4), [Some(Check::AbortedRead), None]);
        assert_eq!(judge_read(&ledger, 5), [None; 2]);
    }

    #[test]
    fn a_message_that_was_rolled_back_is_never_read() {
        let mut ledger = with_transaction();
        ledger.never(0);
        assert_eq!(judge_read(&ledger, 9), [Some(Check::AbortedRead); 2]);
    }
}
