//! Searches of a stream by those who aren't its readers.

use std::sync::Arc;

use leveret_queue::{MessageFilter, Scan, StreamFilter, StreamStart};

use crate::asked::NowOrLater;
use crate::queue_handle::{self as question, QueueRef, StreamQueueRef};
use crate::reads::ChunksFor;
pub use crate::scan::Scanned;

/// The terms of a search. All messages from the first one on are found if nothing is given.
#[derive(Debug, Default)]
pub struct SearchTerms<'a> {
    /// The first message: `first`, `last`, `next`, an offset, so many messages before the end (`-5`), or an interval such as `10m`
    /// before now.
    pub offset: Option<&'a str>,
    /// Only messages that were published at this time or later, by whole chunks, in milliseconds since the Unix epoch.
    pub timestamp_ms: Option<u64>,
    /// An SQL filter expression.
    pub expression: Option<&'a str>,
    /// A filter value: chunks that can't have a message with it are skipped. Of the others all messages are found.
    pub value: Option<&'a str>,
}

/// A search of a stream.
pub struct Search {
    queue: StreamQueueRef,
    scan: Scan,
    next: u64,
}

impl Search {
    /// Begins a search; the answer is `None` if the queue isn't a stream. `now_ms` is the present time in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The problem with the terms.
    pub fn begin(queue: &QueueRef, terms: &SearchTerms<'_>, now_ms: u64) -> Result<NowOrLater<Option<Self>>, String> {
        let start = match (terms.offset, terms.timestamp_ms) {
            (Some(_), Some(_)) => return Err("offset and timestamp exclude each other".to_owned()),
            (None, None) => StreamStart::First,
            (None, Some(at_ms)) => StreamStart::Timestamp(at_ms),
            (Some(text), None) => {
                let number = || text.parse().ok().map(StreamStart::of_number);
                StreamStart::of_text(text, now_ms).or_else(number).ok_or_else(|| {
                    format!("offset is '{text}', expected first, last, next, a number, or an interval such as 10m")
                })?
            }
        };
        let messages = match terms.expression {
            Some(text) => MessageFilter::sql(text).map_err(|error| format!("filter: {error}"))?,
            None => MessageFilter::default(),
        };
        let values = terms.value.map(Into::into).into_iter().collect();
        let filter = StreamFilter { values, messages, ..StreamFilter::default() };
        let is_filtered = terms.value.is_some() || terms.expression.is_some();
        let begun = queue.ask(question::Search { start, filter: is_filtered.then(|| Arc::new(filter)) });
        let stream = queue.as_stream();
        let search = |((next, scan), queue): ((u64, Box<Scan>), _)| Self { queue, scan: *scan, next };
        Ok(begun.map(move |begun| begun.zip(stream).map(search)))
    }

    /// The offset from which on nothing was looked at yet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Searches the next part. `found` is called once, on a disk thread, with the part for [`Search::advance`], or with the reason
    /// why nothing can be read; it isn't called if the node stops.
    pub fn read(&self, found: impl Fn(Result<Scanned, String>) + Send + Sync + 'static) {
        self.queue.read(self.next, ChunksFor::Searching(Box::new(self.scan.clone()), Arc::new(found)));
    }

    /// Goes on behind a part. Returns false at the end of the stream.
    pub fn advance(&mut self, part: &Scanned) -> bool {
        self.scan.since_ms = part.since_ms;
        let is_further = part.end > self.next;
        self.next = part.end;
        is_further
    }
}
