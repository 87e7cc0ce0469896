//! Streams in the workload: what clients know about the offsets of messages, and the rules for readers and retention.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::audit::Findings;
use crate::body;
use crate::failure::{Check, Failure};
use crate::ledger::{Ledger, Message, MessageId, Object, Presence, Stamp};
use crate::random::Random;
use crate::sightings::{Seen, Sightings};
use crate::tally::Tally;
use crate::topology;
use crate::world::World;

/// Most bytes of a stream that has a limit of bytes.
pub const BYTES_MAX: u64 = 48 << 10;
/// Most milliseconds for which a stream with a limit of age keeps a message.
pub const AGE_MAX_MS: u64 = 3_000;

/// The kind of a stream, which is part of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamKind {
    /// It keeps everything.
    #[default]
    Endless,
    /// It has at most about [`BYTES_MAX`].
    Bytes,
    /// It keeps messages for about [`AGE_MAX_MS`].
    Age,
    /// Its messages are confirmed when they are written (`x-durability`).
    Written,
}

impl StreamKind {
    /// One of them.
    pub fn any(random: &mut Random) -> Self {
        [Self::Endless, Self::Bytes, Self::Age, Self::Written][random.below(4) as usize]
    }

    /// The kind of the stream with this name; `None` for another queue.
    #[must_use]
    pub fn of(queue: &str) -> Option<Self> {
        let (_, kind) = queue.split_once("-stream")?;
        [Self::Endless, Self::Bytes, Self::Age, Self::Written].into_iter().find(|known| known.suffix() == kind)
    }

    /// The end of the name of such a stream.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Endless => "",
            Self::Bytes => "-bytes",
            Self::Age => "-age",
            // Like the names of all queues of this class.
            Self::Written => "-os",
        }
    }

    /// Whether retention removes something.
    #[must_use]
    pub fn is_limited(self) -> bool {
        matches!(self, Self::Bytes | Self::Age)
    }
}

/// Whether this is a stream.
#[must_use]
pub fn is_stream(queue: &str) -> bool {
    StreamKind::of(queue).is_some()
}

/// Whether retention removes messages of this queue.
#[must_use]
pub fn is_limited(queue: &str) -> bool {
    StreamKind::of(queue).is_some_and(StreamKind::is_limited)
}

/// The place where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest message.
    First,
    /// The last chunk.
    Last,
    /// The next message that comes.
    Next,
    /// This offset.
    Offset(u64),
}

impl Start {
    /// One of them. Readers that come back begin behind the last message that any of them saw.
    pub fn any(random: &mut Random, ledger: &Ledger, queue: &str) -> Self {
        let seen = ledger.streams.get(queue).and_then(|book| book.seen.last()).map(|offset| offset + 1);
        match (random.below(6), seen) {
            (0, _) => Self::Last,
            (1, _) => Self::Next,
            (2, Some(next)) => Self::Offset(next),
            (3, Some(next)) => Self::Offset(random.below(next + 3)),
            _ => Self::First,
        }
    }
}

/// The clients' knowledge about a stream.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The messages that readers saw.
    seen: Sightings,
    /// Number of streams of this name so far, and of those that may have been.
    generation: u64,
    /// Another stream of this name may be there than the one that was.
    is_doubtful: bool,
    /// The stamps at which its deletion was requested in this life.
    deletions: Vec<Stamp>,
    /// The offset behind the last message when the life began. Groups that crashes prevented may have left gaps before it, and there
    /// is none behind it.
    began: u64,
    /// Offsets that readers were given no message of, and that weren't looked at yet.
    jumps: Vec<Jump>,
}

/// The offsets over which a reader went on.
#[derive(Clone, Debug)]
struct Jump {
    /// The generation of the reader's stream.
    generation: u64,
    /// The offsets without a delivery.
    missing: Range<u64>,
}

impl Book {
    /// Notes that its deletion is requested.
    pub fn begin_deletion(&mut self, at: Stamp) {
        self.deletions.push(at);
        self.is_doubtful = true;
        self.generation += 1;
    }

    /// Notes that it was deleted.
    pub fn end_deletion(&mut self) {
        self.is_doubtful = false;
        self.generation += 1;
        self.seen.clear();
        self.began = 0;
        self.jumps.clear();
    }

    /// One of these offsets that has a message. None of them is before the first offset of the stream, or behind its last one.
    fn any_there(&self, offsets: &Range<u64>) -> Option<u64> {
        let new = offsets.start.max(self.began);
        let known = (!offsets.is_empty()).then(|| self.seen.range(offsets.clone()).next()).flatten();
        known.map(|(offset, _)| offset).or_else(|| (new < offsets.end).then_some(new))
    }

    /// Whether a reader went on over a gap that wasn't looked at.
    #[must_use]
    pub fn has_jumps(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// Begins a life of `stream` with these messages. `next` is the offset behind the last of them.
    ///
    /// # Errors
    /// They can't be those of one stream.
    pub fn rebase<'m>(
        &mut self,
        stream: &str,
        mut found: impl Iterator<Item = (u64, &'m Message)>,
        next: u64,
    ) -> Result<(), Failure> {
        self.end_deletion();
        self.deletions.clear();
        self.began = next;
        found.try_for_each(|(offset, message)| self.seen.note(stream, offset, message, 0))
    }
}

/// A reader.
#[derive(Clone, Debug)]
pub struct StreamReader {
    generation: u64,
    /// The lowest offset that it may get next.
    next: u64,
    /// Whether it has to be just that offset, if the message isn't gone.
    is_exact: bool,
    /// It got something.
    has_read: bool,
}

impl StreamReader {
    /// A reader that is about to be requested.
    #[must_use]
    pub fn new(start: Start, ledger: &Ledger, queue: &str) -> Self {
        let book = ledger.streams.get(queue);
        let behind = book.filter(|book| !book.is_doubtful).and_then(|book| book.seen.last());
        let (next, is_exact) = match start {
            Start::First => (0, true),
            Start::Last => (0, false),
            Start::Next => (behind.map_or(0, |offset| offset + 1), false),
            Start::Offset(offset) => (offset, true),
        };
        Self { generation: book.map_or(0, |book| book.generation), next, is_exact, has_read: false }
    }

    /// Whether it should get something from a stream with these offsets, the first one and the one behind the last.
    #[must_use]
    pub fn is_behind(&self, queue: &str, (first, next): (u64, u64), ledger: &Ledger) -> bool {
        let offsets = self.next.max(first)..next;
        let is_there = ledger.streams.get(queue).map_or(!offsets.is_empty(), |book| book.any_there(&offsets).is_some());
        self.is_exact && is_there
    }

    /// Notes a delivery.
    ///
    /// # Errors
    /// The verdicts on readers are [`Check::NonmonotonicPoll`] and [`Check::PollSkip`], for others see [`Sightings::note`].
    pub fn delivered(
        &mut self,
        queue: &str,
        offset: Option<u64>,
        id: MessageId,
        ledger: &mut Ledger,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let Some(offset) = offset else {
            return Err(Failure::new(Check::Protocol, format!("message {id} of stream {queue} has no offset")));
        };
        let expected = self.next;
        // Its request may have come to another stream of this name.
        let is_other = ledger.streams.get(queue).is_some_and(|book| book.generation != self.generation);
        let may_begin_anew = is_other && !self.has_read;
        if offset < expected && !may_begin_anew {
            let detail = format!("stream {queue}: message {id} at offset {offset} after a reader was at {expected}");
            return Err(Failure::new(Check::NonmonotonicPoll, detail));
        }
        let at = ledger.heard_at;
        let book = ledger.streams.entry(queue.to_owned()).or_default();
        if self.is_exact && offset > expected {
            let is_known = book.generation == self.generation && !book.is_doubtful;
            let passed = book.seen.range(expected..offset).next().filter(|_| is_known && !is_limited(queue));
            if let Some((seen, _)) = passed {
                let detail = format!(
                    "stream {queue}: a reader got offset {offset} instead of {expected}, {seen} is there; {book:?}"
                );
                return Err(Failure::new(Check::PollSkip, detail));
            }
            book.jumps.push(Jump { generation: self.generation, missing: expected..offset });
        }
        (self.next, self.is_exact, self.has_read) = (offset + 1, true, true);
        tally.hit("messages read from streams");
        if book.is_doubtful || book.generation != self.generation {
            return Ok(());
        }
        book.seen.note(queue, offset, &ledger.messages[id as usize], at)
    }
}

/// The offsets of a stream that is there and works, the first one and the one behind the last, and its bytes.
#[must_use]
pub fn extent(world: &World, queue: &str) -> Option<(u64, u64, u64)> {
    let snapshot = world.broker.registry.snapshot_full();
    let status = snapshot.queue("/", queue)?.look(leveret_broker::queue_handle::Status).expect("it is there");
    let stream = status.stream.filter(|_| status.state == leveret_queue::QueueState::Running)?;
    Some((stream.first, stream.next, status.bytes))
}

/// Checks readers that went on over offsets without a delivery: retention had removed their messages, or there never were any.
///
/// # Errors
/// They are still there, or shouldn't be gone.
pub fn check_jumps(world: &mut World, ledger: &mut Ledger) -> Result<(), Failure> {
    for (queue, book) in &mut ledger.streams {
        let jumps = std::mem::take(&mut book.jumps);
        let of_this = jumps.into_iter().filter(|jump| jump.generation == book.generation && !book.is_doubtful);
        let jumps: Vec<Jump> = of_this.collect();
        let Some((first, ..)) = (!jumps.is_empty()).then(|| extent(world, queue)).flatten() else { continue };
        for Jump { missing, .. } in jumps {
            if let Some(there) = book.any_there(&(missing.start.max(first)..missing.end)) {
                let detail = format!("stream {queue}: a reader went on at {}, and {there} is there", missing.end);
                return Err(Failure::new(Check::PollSkip, detail));
            }
            world.tally.add("readers overtaken by retention", (missing.start < first).into());
            world.tally.add("gaps of streams", (missing.end > first).into());
        }
    }
    check_retention(world, ledger)
}

/// Checks that retention has removed nothing that is inside the limits.
///
/// # Errors
/// It has.
pub fn check_retention(world: &World, ledger: &Ledger) -> Result<(), Failure> {
    for (queue, book) in &ledger.streams {
        let is_there = ledger.presence_now(&Object::Queue(queue.clone())) == Presence::Present;
        let Some((first, _, bytes)) = extent(world, queue).filter(|_| is_there && !book.is_doubtful) else { continue };
        let newest = book.seen.range(..first).next_back().map(|(offset, seen)| (offset, seen.id));
        let gone = Gone { is_any: book.any_there(&(0..first)).is_some(), newest };
        judge_removed(queue, gone, ledger, (first, bytes), world.clock.now().wall_ms)?;
    }
    Ok(())
}

/// The knowledge about messages before the first offset of a stream. The offsets there may also be those of a group that a crash
/// prevented.
#[derive(Clone, Copy, Debug)]
struct Gone {
    /// There was a message.
    is_any: bool,
    /// The last one that a reader saw.
    newest: Option<(u64, MessageId)>,
}

/// Judges that a stream begins at `first` and has `bytes` at this time.
fn judge_removed(
    queue: &str,
    gone: Gone,
    ledger: &Ledger,
    (first, bytes): (u64, u64),
    now_ms: u64,
) -> Result<(), Failure> {
    let lost = |detail: String| Err(Failure::new(Check::NothingLost, format!("stream {queue}: {detail}")));
    match StreamKind::of(queue) {
        Some(StreamKind::Age) => match gone.newest.map(|(offset, id)| (offset, &ledger.messages[id as usize])) {
            Some((offset, message)) if message.published_ms + AGE_MAX_MS >= now_ms => {
                let age = now_ms - message.published_ms;
                lost(format!("offset {offset} is gone, {age} ms after message {} was sent", message.id))
            }
            _ => Ok(()),
        },
        // Of the last stretch that went, nothing is known but that it was smaller than half of all.
        Some(StreamKind::Bytes) if gone.is_any && bytes < BYTES_MAX / 4 && !has_large(ledger) => {
            lost(format!("messages before offset {first} are gone, and {bytes} bytes are left"))
        }
        Some(StreamKind::Endless | StreamKind::Written) if gone.is_any => {
            lost(format!("messages before offset {first} are gone"))
        }
        _ => Ok(()),
    }
}

/// Whether any message is larger than a stretch of a stream with a limit of bytes.
fn has_large(ledger: &Ledger) -> bool {
    ledger.messages.iter().any(|message| message.length as u64 > BYTES_MAX / 8)
}

/// Judges the offsets of the messages that were found in a stream after a power cut at `at`.
///
/// # Errors
/// The first broken rule.
pub fn judge_offsets(ledger: &Ledger, at: Stamp, queue: &str, findings: &Findings) -> Result<(), Failure> {
    let lost = |detail: String| Err(Failure::new(Check::NothingLost, format!("stream {queue}: {detail}")));
    let Some(&(first, next, bytes)) = findings.streams.get(queue) else { return Ok(()) };
    let mut expected = first;
    let mut found: BTreeMap<u64, MessageId> = BTreeMap::new();
    for received in &findings.queues[queue] {
        // A group without its commit leaves a gap.
        let Some(offset) = received.content.offset.filter(|offset| (expected..next).contains(offset)) else {
            return lost(format!("offset {:?} was found instead of {expected}", received.content.offset));
        };
        found.extend(body::id(&received.content.body).map(|id| (offset, id)));
        expected = offset + 1;
    }
    let nothing = Book::default();
    let book = ledger.streams.get(queue).unwrap_or(&nothing);
    if book.deletions.iter().any(|asked| *asked <= at) {
        return Ok(());
    }
    let is_written_only = topology::is_written_only(queue) && !ledger.kept_power;
    let holds = |seen: &Seen| {
        let message = &ledger.messages[seen.id as usize];
        let is_confirmed = message.confirmed.is_some_and(|confirmed| confirmed <= at);
        seen.at == 0 || seen.at <= at && (ledger.kept_power || is_confirmed && !is_written_only)
    };
    let mut newest = None;
    for (offset, seen) in book.seen.range(..).filter(|(_, seen)| holds(seen)) {
        if offset < first {
            newest = Some((offset, seen.id));
        }
        if offset >= next {
            return lost(format!("offset {offset} was seen, and will be used again: next is {next}"));
        }
        match found.get(&offset) {
            _ if offset < first => {}
            Some(id) if *id == seen.id => {}
            Some(id) => {
                let detail = format!("stream {queue}: offset {offset} is message {id}, and was {}", seen.id);
                return Err(Failure::new(Check::InconsistentOffsets, detail));
            }
            None => return lost(format!("offset {offset} is empty, and was {}", seen.id)),
        }
    }
    let gone = Gone { is_any: newest.is_some(), newest };
    judge_removed(queue, gone, ledger, (first, bytes), latest_ms(ledger, findings))
}

/// Checks that every confirmed message of a stream exists, unless retention removed it with all before it.
///
/// # Errors
/// One doesn't.
pub fn judge_losses(
    ledger: &Ledger,
    at: Stamp,
    queue: &str,
    findings: &Findings,
    found: &BTreeSet<MessageId>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let is_present = ledger.presence(&Object::Queue(queue.to_owned()), at) == Presence::Present;
    let Some(&(first, ..)) = findings.streams.get(queue).filter(|_| is_present) else { return Ok(()) };
    // The oldest message of each publisher that is there.
    let mut oldest: BTreeMap<u64, MessageId> = BTreeMap::new();
    for id in found {
        oldest.entry(ledger.messages[*id as usize].publisher).or_insert(*id);
    }
    for message in &ledger.messages {
        let Some(target) = message.targets.get(queue) else { continue };
        let by_then = |stamp: Option<Stamp>| stamp.is_some_and(|stamp| stamp <= at);
        let is_promised = message.published <= at && by_then(message.confirmed) && target.certain;
        if !is_promised || by_then(target.gone) || by_then(target.excused) || found.contains(&message.id) {
            continue;
        }
        if topology::is_written_only(queue) && !ledger.kept_power {
            tally.hit("confirmed messages of the class os lost");
            continue;
        }
        let is_before = oldest.get(&message.publisher).is_none_or(|oldest| message.id < *oldest);
        if is_before && first > 0 && may_be_removed(queue, message, latest_ms(ledger, findings)) {
            tally.hit("messages of streams removed by retention");
            continue;
        }
        let detail = format!(
            "message {} ({} bytes) of stream {queue} was confirmed at change {:?} and is gone after {at}; it begins at {first}",
            message.id, message.length, message.confirmed
        );
        return Err(Failure::new(Check::NothingLost, detail));
    }
    Ok(())
}

/// The latest time so far; some starts have a clock that is behind.
fn latest_ms(ledger: &Ledger, findings: &Findings) -> u64 {
    findings.now_ms.max(ledger.now_ms)
}

fn may_be_removed(queue: &str, message: &Message, now_ms: u64) -> bool {
    match StreamKind::of(queue) {
        Some(StreamKind::Bytes) => true,
        Some(StreamKind::Age) => message.published_ms + AGE_MAX_MS < now_ms,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream in which a life begins with messages at offsets 0 to 2 and 6. A group had the others before 9.
    fn with_gaps() -> Book {
        began_with(&mut Ledger::default(), &[0, 1, 2, 6])
    }

    /// A stream in which a life begins with new messages at these offsets, before 9.
    fn began_with(ledger: &mut Ledger, offsets: &[u64]) -> Book {
        let ids: Vec<_> = offsets.iter().map(|_| ledger.publish(1, ("", "s"), (8, true), 0)).collect();
        let messages = ids.iter().map(|id| &ledger.messages[*id as usize]);
        let mut book = Book::default();
        book.rebase("s", offsets.iter().copied().zip(messages), 9).expect("they are in order");
        book
    }

    #[test]
    fn a_gap_of_an_earlier_life_has_no_messages() {
        let book = with_gaps();
        assert_eq!([3..6, 7..9, 4..4].map(|gap| book.any_there(&gap)), [None; 3]);
        assert_eq!([1..6, 3..7, 6..9].map(|offsets| book.any_there(&offsets)), [Some(1), Some(6), Some(6)]);
    }

    #[test]
    fn every_offset_of_this_life_has_a_message() {
        let mut book = with_gaps();
        assert_eq!([3..10, 7..11, 12..13].map(|offsets| book.any_there(&offsets)), [Some(6), Some(9), Some(12)]);
        book.end_deletion();
        assert_eq!(book.any_there(&(3..6)), Some(3), "it is another stream");
    }

    /// Judges a stream without a limit that begins at `first` after a crash, and had messages at these offsets before.
    fn judge_beginning(first: u64, seen: &[u64]) -> Result<(), Failure> {
        let mut ledger = Ledger::default();
        let book = began_with(&mut ledger, seen);
        ledger.streams.insert("q0-stream".to_owned(), book);
        let mut findings = Findings::default();
        findings.queues.insert("q0-stream".to_owned(), Vec::new());
        findings.streams.insert("q0-stream".to_owned(), (first, first, 0));
        judge_offsets(&ledger, 0, "q0-stream", &findings)
    }

    #[test]
    fn a_stream_may_begin_behind_a_prevented_group() {
        assert!(judge_beginning(4, &[]).is_ok());
        let failure = judge_beginning(4, &[2]).expect_err("offset 2 had a message");
        assert_eq!(failure.check, Check::NothingLost);
        assert!(failure.detail.contains("before offset 4 are gone"), "{failure}");
    }

    /// The first verdict on a reader that begins there and gets these messages of a stream that has one at each offset up to 4.
    fn judge_reader(stream: &str, start: Start, offsets: &[u64]) -> Option<Check> {
        let mut ledger = Ledger::default();
        let book = began_with(&mut ledger, &[0, 1, 2, 3, 4]);
        ledger.streams.insert(stream.to_owned(), book);
        let mut reader = StreamReader::new(start, &ledger, stream);
        let mut get =
            |offset: &u64| reader.delivered(stream, Some(*offset), *offset, &mut ledger, &mut Tally::default()).err();
        offsets.iter().find_map(&mut get).map(|failure| failure.check)
    }

    #[test]
    fn a_reader_gets_each_offset_from_its_first_on() {
        assert_eq!(judge_reader("s-stream", Start::First, &[0, 1, 2, 3, 4]), None);
        assert_eq!(judge_reader("s-stream", Start::Last, &[3, 4]), None);
        assert_eq!(judge_reader("s-stream", Start::Offset(2), &[2, 3]), None);
    }

    #[test]
    fn a_reader_that_goes_back_is_caught() {
        assert_eq!(judge_reader("s-stream", Start::First, &[0, 1, 1]), Some(Check::NonmonotonicPoll));
        assert_eq!(judge_reader("s-stream", Start::Last, &[3, 2]), Some(Check::NonmonotonicPoll));
        assert_eq!(judge_reader("s-stream", Start::Offset(2), &[1]), Some(Check::NonmonotonicPoll));
    }

    #[test]
    fn a_reader_that_passes_a_message_is_caught() {
        assert_eq!(judge_reader("s-stream", Start::First, &[1]), Some(Check::PollSkip));
        assert_eq!(judge_reader("s-stream", Start::Last, &[2, 4]), Some(Check::PollSkip));
        assert_eq!(judge_reader("s-stream-bytes", Start::First, &[3]), None, "retention may have removed the others");
    }

    #[test]
    fn a_reader_isnt_behind_at_a_gap_at_the_end() {
        let mut ledger = Ledger::default();
        ledger.streams.insert("s".to_owned(), with_gaps());
        let reader = StreamReader::new(Start::Offset(7), &ledger, "s");
        assert!(!reader.is_behind("s", (0, 9), &ledger));
        assert!(reader.is_behind("s", (0, 10), &ledger));
        assert!(StreamReader::new(Start::First, &ledger, "s").is_behind("s", (5, 9), &ledger));
    }
}
