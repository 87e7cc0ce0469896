//! The ledger of publishes and settlements on a broker that is killed repeatedly, and the verdict on all deliveries.

use std::fmt::{self, Display, Formatter};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::PATIENCE;
use crate::random::Random;

/// Confirmed and unsettled messages of a queue above which no client publishes to it.
const BACKLOG_MAX: u64 = 2_000;
/// Number of messages published to a stream in one run of the broker, from which on no client publishes to it: they stay there.
const STREAMED_MAX: u64 = 2_000;
/// Number of failures reported; the others are counted.
const FAILURES_TOLD: usize = 20;

/// The state of a message in a queue.
#[derive(Debug, Clone, Copy, Default)]
struct Message {
    confirmed: bool,
    settle: Settle,
    /// The last run of the broker in which it was delivered again after its settlement was requested.
    came_back: u16,
    delivered: bool,
    /// Its offset in a stream, once a reader saw it.
    offset: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Settle {
    #[default]
    No,
    /// Requested in this run of the broker, which hasn't answered.
    Asked(u16),
    Confirmed,
}

/// A transaction whose commit was sent and not answered: messages removed and messages added, each with their queue.
#[derive(Debug)]
struct Doubtful {
    life: u16,
    gone: (usize, Vec<u64>),
    come: (usize, Vec<u64>),
}

#[derive(Debug, Default)]
struct Inner {
    queues: Vec<Vec<Message>>,
    /// Confirmed messages that aren't settled; in a stream, those that no reader saw.
    live: Vec<u64>,
    /// Messages published in this run of the broker.
    sent_of_life: Vec<u64>,
    life: u16,
    is_over: bool,
    may_end: bool,
    ready: usize,
    confirms_of_life: u64,
    confirms: u64,
    settles: u64,
    returned: u64,
    doubtful: Vec<Doubtful>,
    failures: Vec<String>,
}

/// The ledger. A message is identified by its number among those of one publisher, which always sends to the same
/// queues.
#[derive(Debug)]
pub struct KillLedger {
    inner: Mutex<Inner>,
    changed: Condvar,
    flags_all: fn(usize) -> bool,
    is_stream: fn(usize) -> bool,
}

/// Totals over all runs of the broker.
#[derive(Debug, Clone, Copy)]
pub struct Totals {
    /// Publishes that were confirmed, counted once per queue.
    pub confirms: u64,
    /// Settlements that were confirmed.
    pub settles: u64,
    /// Messages whose settlement was requested and not confirmed, and which were delivered again.
    pub returned: u64,
}

impl Display for Totals {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Totals { confirms, settles, returned } = self;
        write!(
            f,
            "{confirms} messages confirmed, none lost; {settles} settlements confirmed, none undone; {returned} \
             unconfirmed ones came back, flagged where queues flag all"
        )
    }
}

/// The body of a message: publisher, number, and a length and content derived from these.
pub fn body(publisher: u8, number: u64) -> Vec<u8> {
    let mut random = Random::new((number + 1) * 257 + u64::from(publisher));
    let length = match random.below(40) {
        0 => random.below(60_000),
        1..8 => random.below(6_000),
        _ => random.below(300),
    };
    let mut body = vec![publisher];
    body.extend(number.to_be_bytes());
    while body.len() < 9 + length {
        body.extend(random.next().to_be_bytes());
    }
    body.truncate(9 + length);
    body
}

impl KillLedger {
    /// A ledger for this many queues. `flags_all` tells whether a queue flags every message as redelivered that it delivered
    /// before a kill, `is_stream` whether a queue is a stream.
    pub fn new(queues: usize, flags_all: fn(usize) -> bool, is_stream: fn(usize) -> bool) -> Self {
        let (live, sent_of_life) = (vec![0; queues], vec![0; queues]);
        let inner = Inner { queues: vec![Vec::new(); queues], live, sent_of_life, ..Inner::default() };
        Self { inner: Mutex::new(inner), changed: Condvar::new(), flags_all, is_stream }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Registers a message that is about to be sent to these queues. Returns its number.
    pub fn send(&self, queues: &[usize]) -> u64 {
        let mut inner = self.lock();
        let number = inner.queues[queues[0]].len() as u64;
        for queue in queues {
            assert_eq!(inner.queues[*queue].len() as u64, number, "one publisher per queue");
            inner.queues[*queue].push(Message::default());
            inner.sent_of_life[*queue] += 1;
        }
        number
    }

    /// Notes that the broker confirmed a message.
    pub fn confirmed(&self, queues: &[usize], number: u64) {
        let mut inner = self.lock();
        for queue in queues {
            let message = &mut inner.queues[*queue][number as usize];
            message.confirmed = true;
            // A reader may be faster than the confirm.
            let is_read = message.offset.is_some();
            inner.live[*queue] += u64::from(!is_read);
            inner.confirms += 1;
        }
        inner.confirms_of_life += 1;
        self.changed.notify_all();
    }

    /// Notes a delivery. Returns the message's number, if it is one of ours.
    pub fn delivered(&self, queue: usize, publisher: u8, bytes: &[u8], redelivered: bool) -> Option<u64> {
        let mut inner = self.lock();
        let life = inner.life;
        let number = inner.examine(queue, publisher, bytes)?;
        let message = inner.queues[queue][number as usize];
        match message.settle {
            Settle::Confirmed => {
                inner.fail(format!("queue {queue}: message {number} was settled, and that was confirmed"))
            }
            Settle::Asked(asked) if asked == life => {
                inner.fail(format!("queue {queue}: message {number} comes again in the life in which it was settled"));
            }
            Settle::Asked(_) if !redelivered && (self.flags_all)(queue) => {
                inner.fail(format!("queue {queue}: message {number} came back and isn't flagged redelivered"));
            }
            Settle::Asked(_) => {
                inner.returned += 1;
                inner.live[queue] += 1;
            }
            Settle::No => {}
        }
        let came_back = if message.settle == Settle::No { message.came_back } else { life };
        inner.queues[queue][number as usize] = Message { settle: Settle::No, came_back, delivered: true, ..message };
        Some(number)
    }

    /// Notes a message that a reader of a stream got. Returns its number, if it is one of ours.
    pub fn streamed(&self, queue: usize, publisher: u8, bytes: &[u8], offset: u64) -> Option<u64> {
        let mut inner = self.lock();
        let number = inner.examine(queue, publisher, bytes)?;
        let message = &mut inner.queues[queue][number as usize];
        let (was_confirmed, before) = (message.confirmed, message.offset.replace(offset));
        if let Some(before) = before.filter(|before| *before != offset) {
            inner.fail(format!("stream {queue}: message {number} was at offset {before}, and is at {offset}"));
        }
        if before.is_none() && was_confirmed {
            inner.live[queue] = inner.live[queue].saturating_sub(1);
            self.changed.notify_all();
        }
        Some(number)
    }

    /// The offset behind the last message of a stream that was confirmed, and that a reader saw.
    pub fn known_offsets(&self, queue: usize) -> u64 {
        let inner = self.lock();
        let known = inner.queues[queue].iter().filter(|message| message.confirmed);
        known.filter_map(|message| message.offset).max().map_or(0, |offset| offset + 1)
    }

    /// Notes that the settlement of messages is about to be requested.
    pub fn settling(&self, queue: usize, numbers: &[u64]) {
        let mut inner = self.lock();
        let life = inner.life;
        for number in numbers {
            inner.queues[queue][*number as usize].settle = Settle::Asked(life);
            inner.live[queue] = inner.live[queue].saturating_sub(1);
        }
        self.changed.notify_all();
    }

    /// Notes that the broker confirmed their settlement.
    pub fn settled(&self, queue: usize, numbers: &[u64]) {
        let mut inner = self.lock();
        for number in numbers {
            inner.queues[queue][*number as usize].settle = Settle::Confirmed;
        }
        inner.settles += numbers.len() as u64;
    }

    /// Notes a transaction whose commit was sent and never answered.
    pub fn doubtful(&self, gone: (usize, Vec<u64>), come: (usize, Vec<u64>)) {
        let mut inner = self.lock();
        let life = inner.life;
        inner.doubtful.push(Doubtful { life, gone, come });
    }

    /// Reports a failure that no rule of the ledger covers.
    pub fn fail(&self, what: impl Display) {
        self.lock().fail(what.to_string());
    }

    /// Waits until there is room for messages in these queues. Returns false if the broker is about to be killed.
    pub fn wait_for_room(&self, queues: &[usize]) -> bool {
        let queue = queues[0];
        let is_full =
            |inner: &Inner, queue: &usize| (self.is_stream)(*queue) && inner.sent_of_life[*queue] >= STREAMED_MAX;
        let has_all = |inner: &mut Inner| !inner.is_over && queues.iter().any(|queue| is_full(inner, queue));
        drop(self.changed.wait_while(self.lock(), has_all).unwrap());
        let has_room = |inner: &mut Inner| !inner.is_over && inner.live[queue] >= BACKLOG_MAX;
        let (inner, timeout) = self.changed.wait_timeout_while(self.lock(), PATIENCE, has_room).unwrap();
        if timeout.timed_out() {
            drop(inner);
            self.fail(format!("queue {queue} doesn't get shorter"));
            return false;
        }
        !inner.is_over
    }

    /// Notes that a client is working.
    pub fn ready(&self) {
        self.lock().ready += 1;
        self.changed.notify_all();
    }

    /// Waits until all clients are working and this many publishes of the current run are confirmed.
    pub fn wait_for_confirms(&self, clients: usize, count: u64) {
        let waits = |inner: &mut Inner| inner.ready < clients || inner.confirms_of_life < count;
        let (inner, timeout) = self.changed.wait_timeout_while(self.lock(), PATIENCE, waits).unwrap();
        let (ready, confirms) = (inner.ready, inner.confirms_of_life);
        drop(inner);
        if timeout.timed_out() {
            self.fail(format!("{ready} of {clients} clients are ready, {confirms} of {count} messages confirmed"));
        }
    }

    /// The broker is about to be killed: ends all waits.
    pub fn end_life(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The broker may end at any time: failures of sockets are tolerated, but clients continue.
    pub fn end_life_softly(&self) {
        self.lock().may_end = true;
    }

    /// Whether the broker is about to be killed, may end at any time, or has ended.
    pub fn is_over(&self) -> bool {
        let inner = self.lock();
        inner.is_over || inner.may_end
    }

    /// The broker is restarted.
    pub fn begin_life(&self) {
        let mut inner = self.lock();
        inner.life += 1;
        (inner.is_over, inner.may_end) = (false, false);
        (inner.ready, inner.confirms_of_life) = (0, 0);
        inner.sent_of_life.fill(0);
    }

    /// Judges the run, after all queues were read to their end and everything settled: missing messages are lost.
    ///
    /// # Panics
    /// If a promise was broken, with everything observed.
    pub fn judge(&self) -> Totals {
        let mut inner = self.lock();
        let lost = |message: &Message| message.confirmed && message.settle == Settle::No;
        let queues = inner.queues.iter().enumerate();
        let lost: Vec<String> = queues
            .flat_map(|(queue, messages)| {
                let numbered = messages.iter().enumerate().filter(|(_, message)| lost(message));
                numbered.map(move |(number, _)| format!("queue {queue}: message {number} was confirmed and is lost"))
            })
            .collect();
        lost.into_iter().for_each(|text| inner.fail(text));
        for transaction in std::mem::take(&mut inner.doubtful) {
            let message = |queue: usize, number: u64| inner.queues[queue][number as usize];
            let (from, to) = (transaction.gone.0, transaction.come.0);
            // Some may have been delivered again after an earlier attempt.
            let is_back = |number: &&u64| message(from, **number).came_back > transaction.life;
            let back = transaction.gone.1.iter().filter(is_back).count();
            let come = transaction.come.1.iter().filter(|number| message(to, **number).delivered).count();
            let all = (transaction.gone.1.len(), transaction.come.1.len());
            if (back, come) != (0, all.1) && (back, come) != (all.0, 0) {
                inner.fail(format!("a transaction is half there: {back} of {} back, {come} of {} come", all.0, all.1));
            }
        }
        let failures = std::mem::take(&mut inner.failures);
        let told = failures.iter().take(FAILURES_TOLD).cloned().collect::<Vec<_>>().join("\n");
        assert!(failures.is_empty(), "{} promises broken, such as\n{told}", failures.len());
        Totals { confirms: inner.confirms, settles: inner.settles, returned: inner.returned }
    }

    /// Whether there are no failures so far.
    pub fn is_well(&self) -> bool {
        self.lock().failures.is_empty()
    }
}

impl Inner {
    /// Checks the bytes of a message. Returns its number, if it is one of ours.
    fn examine(&mut self, queue: usize, publisher: u8, bytes: &[u8]) -> Option<u64> {
        let number = bytes.get(1..9).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
        let count = self.queues[queue].len() as u64;
        let Some(number) = number.filter(|number| bytes[0] == publisher && *number < count) else {
            self.fail(format!("queue {queue}: a message of {} bytes that nobody sent", bytes.len()));
            return None;
        };
        if body(publisher, number) != bytes {
            self.fail(format!("queue {queue}: message {number} isn't what was sent"));
        }
        Some(number)
    }

    fn fail(&mut self, what: String) {
        self.failures.push(format!("life {}: {what}", self.life));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> KillLedger {
        let ledger = KillLedger::new(2, |_| true, |_| false);
        assert_eq!(ledger.send(&[0, 1]), 0);
        ledger.confirmed(&[0, 1], 0);
        ledger
    }

    fn verdict(act: impl FnOnce(&KillLedger)) -> String {
        let ledger = ledger();
        act(&ledger);
        // The other queue is in order.
        ledger.delivered(1, 7, &body(7, 0), false);
        ledger.settling(1, &[0]);
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ledger.judge()));
        judged.map_or_else(|panic| panic.downcast_ref::<String>().cloned().expect("text"), |_| "well".into())
    }

    #[test]
    fn each_broken_promise_is_reported() {
        let sound = body(7, 0);
        let take = |ledger: &KillLedger| {
            ledger.delivered(0, 7, &sound, false);
            ledger.settling(0, &[0]);
        };
        assert_eq!(verdict(take), "well");
        assert!(verdict(|_| ()).contains("queue 0: message 0 was confirmed and is lost"));
        let phantom = verdict(|ledger| {
            take(ledger);
            ledger.delivered(0, 7, &body(7, 1), false);
        });
        assert!(phantom.contains("nobody sent"), "{phantom}");
        let corrupted = verdict(|ledger| {
            let mut bytes = sound.clone();
            bytes.push(1);
            ledger.delivered(0, 7, &bytes, false);
            ledger.settling(0, &[0]);
        });
        assert!(corrupted.contains("isn't what was sent"), "{corrupted}");
        for (confirmed, redelivered, next_life, expected) in [
            (true, true, true, "and that was confirmed"),
            (false, false, true, "isn't flagged"),
            (false, true, false, "in the life in which"),
            (false, true, true, "well"),
        ] {
            let found = verdict(|ledger| {
                take(ledger);
                if confirmed {
                    ledger.settled(0, &[0]);
                }
                if next_life {
                    ledger.begin_life();
                }
                ledger.delivered(0, 7, &sound, redelivered);
                ledger.settling(0, &[0]);
            });
            assert!(found.contains(expected), "{expected} in {found}");
        }
        let moved = verdict(|ledger| {
            ledger.streamed(0, 7, &sound, 4);
            ledger.streamed(0, 7, &sound, 5);
            take(ledger);
        });
        assert!(moved.contains("was at offset 4, and is at 5"), "{moved}");
        let half = verdict(|ledger| {
            ledger.send(&[0]);
            ledger.delivered(0, 7, &sound, false);
            ledger.settling(0, &[0]);
            ledger.doubtful((0, vec![0]), (0, vec![1]));
        });
        assert!(half.contains("half there: 0 of 1 back, 0 of 1 come"), "{half}");
    }
}
