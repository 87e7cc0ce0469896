//! Was every message received once, in order, as it was sent?

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::BenchError;
use crate::scenario::Settings;

/// Where in a sequence number the publisher stands.
const PUBLISHER_SHIFT: u32 = 32;

/// The number of a publisher's message, as its body carries it.
pub(crate) fn sequence(publisher: u32, message: u64) -> u64 {
    u64::from(publisher) << PUBLISHER_SHIFT | message
}

/// What all consumers of a round have seen.
pub(crate) struct Tally {
    messages_each: u64,
    publishers: u32,
    /// `x-max-length` drops by design: what doesn't come is counted and no fault.
    drops: bool,
    /// A bit per message, by publisher.
    seen: Vec<Vec<AtomicU64>>,
    distinct: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    corrupt: AtomicU64,
    first_fault: Mutex<Option<String>>,
    is_published: AtomicBool,
}

/// The order in which one consumer sees the messages of each publisher.
pub(crate) struct Order {
    next: Vec<u64>,
    /// Nobody else takes from the queue, so that a gap is a fault at once.
    is_alone: bool,
}

impl Tally {
    pub(crate) fn new(settings: &Settings) -> Self {
        let words = settings.messages_each.div_ceil(64);
        let of_publisher = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Self {
            messages_each: settings.messages_each,
            publishers: settings.publishers,
            drops: settings.max_length.is_some(),
            seen: (0..settings.publishers).map(|_| of_publisher()).collect(),
            distinct: AtomicU64::new(0),
            duplicated: AtomicU64::new(0),
            reordered: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            first_fault: Mutex::new(None),
            is_published: AtomicBool::new(false),
        }
    }

    /// How one consumer begins.
    pub(crate) fn order(&self, settings: &Settings) -> Order {
        let is_alone = settings.consumers == settings.queues && !self.drops;
        Order { next: vec![0; self.publishers as usize], is_alone }
    }

    /// Takes the sequence number of a message, `None` if its body was not as sent. Returns which message it is, counted
    /// over all publishers.
    #[inline]
    pub(crate) fn receive(&self, order: &mut Order, sequence: Option<u64>) -> Option<usize> {
        let Some((publisher, message)) = sequence.and_then(|sequence| self.parts(sequence)) else {
            self.corrupt(order, sequence);
            return None;
        };
        let due = std::mem::replace(&mut order.next[publisher], message + 1);
        let bit = 1 << (message % 64);
        let before = self.seen[publisher][(message / 64) as usize].fetch_or(bit, Ordering::Relaxed);
        if before & bit != 0 {
            order.next[publisher] = due;
            self.fault(&self.duplicated, || {
                format!("message {} arrived a second time, where {due} was due", self.named(publisher, message))
            });
            return None;
        }
        self.distinct.fetch_add(1, Ordering::Relaxed);
        if message != due {
            // After a gap, order is judged from the message that came, so that one loss isn't told a million times.
            order.next[publisher] = due.max(message + 1);
            let what = || format!("message {} arrived where {due} was due", self.named(publisher, message));
            if message < due {
                self.fault(&self.reordered, what);
            } else if order.is_alone {
                self.note(what);
            }
        }
        Some(publisher * self.messages_each as usize + message as usize)
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

    fn named(&self, publisher: usize, message: u64) -> String {
        if self.publishers == 1 { message.to_string() } else { format!("{message} of publisher {publisher}") }
    }

    /// True once nothing more can come but duplicates.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.distinct.load(Ordering::Relaxed) == self.messages_each * u64::from(self.publishers)
    }

    /// How many have come.
    pub(crate) fn received(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    /// Every publisher has said all: what isn't there soon was dropped.
    pub(crate) fn all_is_published(&self) {
        self.is_published.store(true, Ordering::Release);
    }

    /// Whether a queue that says nothing for a while may be empty for good.
    pub(crate) fn may_be_over(&self) -> bool {
        self.drops && self.is_published.load(Ordering::Acquire)
    }

    /// What to say of an end before everything had come: which messages are missing is worth more than how it ended.
    pub(crate) fn explain(&self, error: BenchError) -> BenchError {
        self.verdict().map_or(error, BenchError::Void)
    }

    /// `None` if all is well.
    pub(crate) fn verdict(&self) -> Option<String> {
        let messages = self.messages_each * u64::from(self.publishers);
        let lost = if self.drops { 0 } else { messages - self.received() };
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
            // A gap that was never filled is a loss, so without a count there is no fault.
            return None;
        }
        let first = self.first_fault.lock().expect("nobody panics");
        let first = first.as_ref().map_or(String::new(), |first| format!("; first: {first}"));
        Some(format!("of {messages} messages {}{first}", faults.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{BenchArgs, Scenario};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn settings(scenario: Scenario, words: &[&str]) -> Settings {
        scenario.settings(&Cli::parse_from([&["bench"], words].concat()).bench)
    }

    fn verdict(sequences: &[u64]) -> Option<String> {
        let settings = settings(Scenario::Memory, &["--messages", "5"]);
        let tally = Tally::new(&settings);
        let mut order = tally.order(&settings);
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
    fn consumers_of_one_queue_share_what_comes_and_each_sees_it_in_order() {
        let settings = settings(Scenario::TwoPairs, &["--messages", "6"]);
        let tally = Tally::new(&settings);
        let (mut one, mut two) = (tally.order(&settings), tally.order(&settings));
        for message in [0, 2] {
            assert_eq!(tally.receive(&mut one, Some(sequence(1, message))), Some(3 + message as usize));
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
    fn what_a_full_queue_drops_is_no_loss_and_an_old_message_is_a_fault() {
        let settings = settings(Scenario::Transient, &["--messages", "5"]);
        let tally = Tally::new(&settings);
        let mut order = tally.order(&settings);
        tally.receive(&mut order, Some(3));
        tally.receive(&mut order, Some(4));
        assert_eq!((tally.verdict(), tally.received(), tally.may_be_over()), (None, 2, false));
        tally.all_is_published();
        assert!(tally.may_be_over());
        tally.receive(&mut order, Some(1));
        assert!(tally.verdict().unwrap().contains("1 reordered"));
    }
}
