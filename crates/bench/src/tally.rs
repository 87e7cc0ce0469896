//! Verifies that every message was received once, in order and unchanged.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::BenchError;
use crate::latencies::{Counters, Latencies};
use crate::settings::{Course, Settings};
use crate::slots::Slots;

/// Position of the publisher in a sequence number.
const PUBLISHER_SHIFT: u32 = 32;

/// The sequence number in the body of a publisher's message.
pub(crate) fn sequence(publisher: u32, message: u64) -> u64 {
    u64::from(publisher) << PUBLISHER_SHIFT | message
}

/// The messages seen by all consumers of a round.
pub(crate) struct Tally {
    /// At most this many per publisher.
    messages_each: u64,
    publishers: u32,
    /// Number of queues that get each message.
    copies: u32,
    /// Whether `x-max-length` drops messages by design: missing messages are counted and are no fault.
    drops: bool,
    /// Time at which each message was encoded or due, in nanoseconds since the start, by publisher. Bodies are too
    /// small to carry it.
    sent_at: Vec<Slots>,
    /// A bit per message, by copy and publisher.
    seen: Vec<Slots>,
    /// Number of deliveries due; `u64::MAX` until publishers that stop by the clock have stopped.
    due: AtomicU64,
    distinct: AtomicU64,
    /// Number of messages written.
    sent: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    corrupt: AtomicU64,
    first_fault: Mutex<Option<String>>,
    is_published: AtomicBool,
    /// `None` if messages wait for their consumers by design.
    latencies: Option<Latencies>,
}

/// The order in which one consumer receives the messages of each publisher.
pub(crate) struct Order {
    next: Vec<u64>,
    /// The copy that this consumer receives.
    copy: usize,
    /// Whether it is the only consumer of its queue, so that a gap is a fault at once.
    is_alone: bool,
}

impl Tally {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (messages_each, publishers, copies) = (settings.messages_each, settings.publishers, settings.copies());
        let due = if settings.stop_after.is_some() { u64::MAX } else { settings.messages() * u64::from(copies) };
        Self {
            messages_each,
            publishers,
            copies,
            drops: settings.max_length.is_some(),
            sent_at: (0..publishers).map(|_| Slots::new(messages_each)).collect(),
            seen: (0..copies * publishers).map(|_| Slots::new(messages_each.div_ceil(64))).collect(),
            due: AtomicU64::new(due),
            distinct: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            duplicated: AtomicU64::new(0),
            reordered: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            first_fault: Mutex::new(None),
            is_published: AtomicBool::new(false),
            latencies: (settings.course == Course::AtOnce).then(|| Latencies::new(settings.consumers)),
        }
    }

    /// The initial state of a consumer, by its number.
    pub(crate) fn order(&self, settings: &Settings, consumer: u32) -> Order {
        let is_alone = settings.consumers == settings.queues && !self.drops;
        Order { next: vec![0; self.publishers as usize], copy: (consumer % self.copies) as usize, is_alone }
    }

    /// The latencies of all consumers so far; `None` if they are meaningless.
    pub(crate) fn latencies(&self) -> Option<&Latencies> {
        self.latencies.as_ref()
    }

    /// The latency counters of a consumer.
    pub(crate) fn latencies_of(&self, consumer: u32) -> Option<&Counters> {
        self.latencies.as_ref().map(|latencies| latencies.of(consumer))
    }

    /// Time at which a message was sent.
    #[inline]
    pub(crate) fn sent_at(&self, publisher: u32, message: u64) -> &AtomicU64 {
        self.sent_at[publisher as usize].at(message)
    }

    /// Counts the sequence number of a message, `None` if its body was changed. Returns the time at which it was
    /// sent.
    #[inline]
    pub(crate) fn receive(&self, order: &mut Order, sequence: Option<u64>) -> Option<u64> {
        let Some((publisher, message)) = sequence.and_then(|sequence| self.parts(sequence)) else {
            self.corrupt(order, sequence);
            return None;
        };
        let due = std::mem::replace(&mut order.next[publisher], message + 1);
        let bit = 1 << (message % 64);
        let seen = self.seen[order.copy * self.publishers as usize + publisher].at(message / 64);
        if seen.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            order.next[publisher] = due;
            self.fault(&self.duplicated, || {
                format!("{} arrived a second time, where {due} was due", self.named(order, publisher, message))
            });
            return None;
        }
        self.distinct.fetch_add(1, Ordering::Relaxed);
        if message != due {
            // After a gap, the order is checked from the message that came, so that one loss isn't reported a million
            // times.
            order.next[publisher] = due.max(message + 1);
            let what = || format!("{} arrived where {due} was due", self.named(order, publisher, message));
            if message < due {
                self.fault(&self.reordered, what);
            } else if order.is_alone {
                self.note(what);
            }
        }
        Some(self.sent_at[publisher].at(message).load(Ordering::Relaxed))
    }

    fn parts(&self, sequence: u64) -> Option<(usize, u64)> {
        let (publisher, message) = (sequence >> PUBLISHER_SHIFT, sequence & ((1 << PUBLISHER_SHIFT) - 1));
        let is_known = publisher < u64::from(self.publishers) && message < self.messages_each;
        is_known.then_some((publisher as usize, message))
    }

    #[cold]
    fn corrupt(&self, order: &Order, sequence: Option<u64>) {
        let due = order.next[0];
        self.fault(&self.corrupt, || match sequence {
            None => format!("a message with another body than sent arrived where {due} was due"),
            Some(sequence) => format!("message {sequence} arrived, which was never sent"),
        });
    }

    #[cold]
    fn fault(&self, count: &AtomicU64, what: impl FnOnce() -> String) {
        count.fetch_add(1, Ordering::Relaxed);
        self.note(what);
    }

    #[cold]
    fn note(&self, what: impl FnOnce() -> String) {
        self.first_fault.lock().expect("nobody panics").get_or_insert_with(what);
    }

    fn named(&self, order: &Order, publisher: usize, message: u64) -> String {
        let mut name = format!("message {message}");
        if self.publishers > 1 {
            name += &format!(" of publisher {publisher}");
        }
        if self.copies > 1 {
            name += &format!(" in queue {}", order.copy);
        }
        name
    }

    /// Whether nothing but duplicates can still come.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.distinct.load(Ordering::Relaxed) == self.due.load(Ordering::Relaxed)
    }

    /// Number of deliveries so far, including copies.
    pub(crate) fn received(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    /// Counts messages that a publisher has written.
    pub(crate) fn add_sent(&self, messages: u64) {
        self.sent.fetch_add(messages, Ordering::Relaxed);
    }

    /// Number of messages written.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Number of deliveries due, or that would be due if publishers stopped now.
    fn due(&self) -> u64 {
        match self.due.load(Ordering::Relaxed) {
            u64::MAX => self.sent() * u64::from(self.copies),
            due => due,
        }
    }

    /// Number of missing deliveries.
    pub(crate) fn missing(&self) -> u64 {
        // One may arrive between the two reads.
        self.due().saturating_sub(self.received())
    }

    /// Notes that all publishers are done: messages that don't arrive soon were dropped.
    pub(crate) fn all_is_published(&self) {
        self.due.store(self.due(), Ordering::Relaxed);
        self.is_published.store(true, Ordering::Release);
    }

    /// Whether a queue that is silent for a while may be empty for good.
    pub(crate) fn may_be_over(&self) -> bool {
        self.drops && self.is_published.load(Ordering::Acquire)
    }

    /// The error for an early end: the missing messages are worth more than the cause, unless it was asked for.
    pub(crate) fn explain(&self, error: BenchError) -> BenchError {
        match error {
            BenchError::Stopped => BenchError::Stopped,
            error => self.verdict().map_or(error, BenchError::Void),
        }
    }

    /// The faults; `None` if there are none.
    pub(crate) fn verdict(&self) -> Option<String> {
        let lost = if self.drops { 0 } else { self.missing() };
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let faults: Vec<String> = [
            (lost, "lost"),
            (count(&self.duplicated), "duplicated"),
            (count(&self.reordered), "reordered"),
            (count(&self.corrupt), "changed"),
        ]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        if faults.is_empty() {
            // A gap that was never filled is a loss; if no loss is counted, there is no fault.
            return None;
        }
        let first = self.first_fault.lock().expect("nobody panics");
        let first = first.as_ref().map_or(String::new(), |first| format!("; first: {first}"));
        let what = if self.copies > 1 { "copies" } else { "messages" };
        Some(format!("of {} {what} {}{first}", self.due(), faults.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::BenchArgs;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn settings(words: &str) -> Settings {
        let args = Cli::parse_from(["bench"].into_iter().chain(words.split(' '))).bench;
        args.scenarios[0].settings(&args.load)
    }

    fn verdict(sequences: &[u64]) -> Option<String> {
        let settings = settings("memory --messages 5");
        let tally = Tally::new(&settings);
        let mut order = tally.order(&settings, 0);
        for sequence in sequences {
            tally.receive(&mut order, if *sequence == 99 { None } else { Some(*sequence) });
        }
        assert_eq!(tally.is_complete(), (0..5).all(|due| sequences.contains(&due)));
        tally.verdict()
    }

    #[test]
    fn faults_are_named_and_counted() {
        assert_eq!(verdict(&[0, 1, 2, 3, 4]), None);
        assert_eq!(verdict(&[0, 2, 3, 4]).unwrap(), "of 5 messages 1 lost; first: message 2 arrived where 1 was due");
        assert_eq!(
            verdict(&[0, 1, 1, 2, 3, 4]).unwrap(),
            "of 5 messages 1 duplicated; first: message 1 arrived a second time, where 2 was due"
        );
        assert_eq!(
            verdict(&[0, 2, 1, 3, 4]).unwrap(),
            "of 5 messages 1 reordered; first: message 2 arrived where 1 was due"
        );
        assert!(verdict(&[0, 1, 99, 2, 3, 4]).unwrap().starts_with("of 5 messages 1 changed"));
        assert!(verdict(&[0, 1, 7, 2, 3, 4]).unwrap().contains("message 7 arrived, which was never sent"));
        assert_eq!(verdict(&[]).unwrap(), "of 5 messages 5 lost");
    }

    #[test]
    fn consumers_share_a_queue_and_each_receives_in_order() {
        let settings = settings("two-pairs --messages 6");
        let tally = Tally::new(&settings);
        let (mut one, mut two) = (tally.order(&settings, 0), tally.order(&settings, 1));
        for message in [0, 2] {
            tally.sent_at(1, message).store(7 + message, Ordering::Relaxed);
            assert_eq!(tally.receive(&mut one, Some(sequence(1, message))), Some(7 + message));
        }
        tally.receive(&mut two, Some(sequence(1, 1)));
        for message in 0..3 {
            tally.receive(&mut two, Some(sequence(0, message)));
        }
        assert_eq!((tally.is_complete(), tally.verdict()), (true, None));
        tally.receive(&mut one, Some(sequence(0, 0)));
        assert!(tally.verdict().unwrap().contains("message 0 of publisher 0 arrived a second time"));
    }

    #[test]
    fn drops_by_a_full_queue_are_no_loss_but_old_messages_are_wrong() {
        let settings = settings("transient --messages 5");
        let tally = Tally::new(&settings);
        let mut order = tally.order(&settings, 0);
        tally.receive(&mut order, Some(3));
        tally.receive(&mut order, Some(4));
        assert_eq!((tally.verdict(), tally.received(), tally.may_be_over()), (None, 2, false));
        tally.all_is_published();
        assert!(tally.may_be_over());
        tally.receive(&mut order, Some(1));
        assert!(tally.verdict().unwrap().contains("1 reordered"));
    }

    #[test]
    fn each_queue_of_a_fanout_gets_each_message_once() {
        let settings = settings("fanout --queues 2 --messages 3");
        let tally = Tally::new(&settings);
        let mut queues = [tally.order(&settings, 0), tally.order(&settings, 1)];
        for message in 0..3 {
            for order in &mut queues {
                assert!(tally.receive(order, Some(message)).is_some());
            }
        }
        assert_eq!((tally.is_complete(), tally.received(), tally.verdict()), (true, 6, None));
        tally.receive(&mut queues[1], Some(2));
        let verdict = tally.verdict().unwrap();
        assert!(
            verdict.starts_with("of 6 copies 1 duplicated; first: message 2 in queue 1 arrived a second"),
            "{verdict}"
        );
    }

    #[test]
    fn a_missing_copy_is_not_replaced_by_that_of_another_queue() {
        let settings = settings("fanout --queues 2 --messages 2");
        let tally = Tally::new(&settings);
        let (mut one, mut two) = (tally.order(&settings, 0), tally.order(&settings, 1));
        tally.receive(&mut one, Some(0));
        tally.receive(&mut one, Some(1));
        tally.receive(&mut two, Some(1));
        assert_eq!(
            (tally.is_complete(), tally.verdict().unwrap().as_str()),
            (false, "of 4 copies 1 lost; first: message 1 in queue 1 arrived where 0 was due")
        );
    }

    #[test]
    fn publishers_that_stop_by_the_clock_report_what_is_due() {
        let settings = settings("classic --seconds 1");
        let tally = Tally::new(&settings);
        let mut order = tally.order(&settings, 0);
        tally.add_sent(2);
        tally.receive(&mut order, Some(0));
        assert!(!tally.is_complete() && tally.verdict().unwrap().starts_with("of 2 messages 1 lost"));
        tally.receive(&mut order, Some(1));
        assert!(!tally.is_complete(), "there may be more");
        tally.add_sent(1);
        tally.all_is_published();
        assert!(!tally.is_complete());
        tally.receive(&mut order, Some(2));
        assert_eq!((tally.is_complete(), tally.verdict()), (true, None));
    }
}
