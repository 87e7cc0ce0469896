//! Messages of publishers on their way: those that become the next chunk, and those that wait for their confirms.

use leveret_broker::streams::waits::InOrder;
use leveret_broker::ticket::Awaited;
use leveret_broker::wait_for::{Reached, WaitEnd, WaitFor};
use leveret_message::chunk::{ChunkBuilder, FILTER_BYTES_DEFAULT};
use leveret_queue::PublishingIds;

/// Messages of a connection's publishers on their way.
pub(crate) struct ChunkRuns {
    /// The messages that become the next chunk.
    run: Option<Run>,
    builder: ChunkBuilder,
    /// Messages that wait for the disk.
    confirming: InOrder<Confirming>,
}

impl Default for ChunkRuns {
    fn default() -> Self {
        Self { run: None, builder: ChunkBuilder::new(FILTER_BYTES_DEFAULT), confirming: InOrder::default() }
    }
}

impl ChunkRuns {
    /// Whether there is a run of another publisher.
    pub(crate) fn is_of_another(&self, publisher: u8, serial: u64) -> bool {
        self.run.as_ref().is_some_and(|run| run.publisher != publisher || run.serial != serial)
    }

    /// A publisher whose stream has filters of this size begins a run, unless it goes on with one.
    pub(crate) fn begin(&mut self, filter_bytes: u8) {
        if self.run.is_none() {
            self.builder.set_filter_bytes(filter_bytes);
        }
    }

    /// The chunk that the run becomes.
    #[inline]
    pub(crate) fn builder(&self) -> &ChunkBuilder {
        &self.builder
    }

    #[inline]
    pub(crate) fn builder_mut(&mut self) -> &mut ChunkBuilder {
        &mut self.builder
    }

    #[inline]
    fn run_of(&mut self, publisher: u8, serial: u64) -> &mut Run {
        self.run.get_or_insert_with(|| {
            let [ids, known, repeated] = <[PublishingIds; 3]>::default();
            Run { publisher, serial, ids, known, repeated }
        })
    }

    /// Adds the id of an entry of the chunk.
    #[inline]
    pub(crate) fn push(&mut self, publisher: u8, serial: u64, id: u64) {
        self.run_of(publisher, serial).ids.push(id);
    }

    /// Adds the id of a message that only has to be confirmed.
    pub(crate) fn push_known(&mut self, publisher: u8, serial: u64, id: u64) {
        let run = self.run_of(publisher, serial);
        if run.ids.is_empty() { run.known.push(id) } else { run.repeated.push(id) }
    }

    pub(crate) fn take_run(&mut self) -> Option<Run> {
        self.run.take()
    }

    /// Messages are confirmed once the condition is reached.
    pub(crate) fn confirm(&mut self, wait: WaitFor, confirming: Confirming) {
        self.confirming.push(wait, confirming);
    }

    /// The next messages whose condition has ended, and how.
    pub(crate) fn next_confirm(&mut self, applied: &impl Reached) -> Option<(Confirming, WaitEnd)> {
        self.confirming.pop(applied)
    }

    /// The places that confirms wait for next.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.confirming.awaited()
    }
}

/// Messages of a publisher that are confirmed together.
#[derive(Debug)]
pub(crate) struct Confirming {
    pub publisher: u8,
    /// Tells it from an earlier publisher with its id.
    pub serial: u64,
    pub ids: PublishingIds,
}

/// Messages of a publisher that are becoming a chunk.
pub(crate) struct Run {
    pub publisher: u8,
    pub serial: u64,
    /// The ids of the chunk's entries.
    pub ids: PublishingIds,
    /// Messages that only have to be confirmed: they are in the stream already, by their numbers.
    pub known: PublishingIds,
    /// The same behind entries of the chunk: they may be in the chunk itself, and aren't safe before it is.
    pub repeated: PublishingIds,
}
