//! The commands that streams answer in a way of their own.

use std::sync::Arc;

use leveret_message::Batch;
use leveret_queue::{
    Checkpoint, ConsumerId, Departure, GroupMember, KeptOffset, Ledger, MessageFilter, Parts, Replica, Run,
    StreamFilter, StreamOptions, StreamRead, StreamStart,
};
use leveret_selector::{Dialect, Selector};

use super::bench::{Bench, EPOCH_MS, stream};
use super::words::{Words, number};
use crate::chunks;

/// The log of a stream.
#[derive(Default)]
pub(super) struct StreamLog {
    /// The last checkpoint.
    checkpoint: Option<Checkpoint>,
    /// Messages that have left since.
    left: Vec<Run>,
    /// Offsets of readers that were logged since.
    offsets: Vec<KeptOffset>,
}

impl StreamLog {
    pub(super) fn keep_offsets(&mut self, offsets: &[KeptOffset]) {
        self.offsets.extend_from_slice(offsets);
    }

    pub(super) fn drop_runs(&mut self, runs: &[Run]) {
        self.left.extend_from_slice(runs);
    }
}

fn start(words: &mut Words<'_>) -> Result<Option<StreamStart>, String> {
    if let Some(at_ms) = words.number("at")? {
        return Ok(Some(StreamStart::Timestamp(EPOCH_MS + at_ms)));
    }
    let Some(offset) = words.option("offset") else { return Ok(None) };
    Ok(Some(match offset {
        "first" => StreamStart::First,
        "last" => StreamStart::Last,
        "next" => StreamStart::Next,
        offset => match offset.strip_prefix('-') {
            Some(messages) => StreamStart::LastN(number(messages)?),
            None => StreamStart::Offset(number(offset)?),
        },
    }))
}

/// A filter with an SQL expression.
pub(super) fn message_filter(text: &str) -> Result<MessageFilter, String> {
    let expression = Selector::parse(text, Dialect::Amqp).map_err(|error| format!("`{text}`: {error}"))?;
    Ok(MessageFilter { expression: Some(expression), ..MessageFilter::default() })
}

/// The options of a reader.
pub(super) fn stream_options(words: &mut Words<'_>) -> Result<StreamOptions, String> {
    let start = start(words)?.unwrap_or_default();
    let filter = match words.option("filter") {
        None => None,
        Some(text) => Some(Arc::new(StreamFilter { messages: message_filter(text)?, ..StreamFilter::default() })),
    };
    let tracking = words.option("tracking").map(Into::into);
    let partition = words.number("partition")?.map(|number| number as u32);
    let group = words.option("group").map(|name| GroupMember { name: name.into(), partition });
    Ok(StreamOptions { start, filter, tracking, group, ..StreamOptions::default() })
}

/// A chunk of messages with these names; a subject is that of all of them, or of `only` one.
pub(super) fn named_chunk(
    names: &[&str],
    size: Option<u64>,
    (subject, only): (Option<&str>, Option<&str>),
    received_ms: u64,
) -> Arc<Batch> {
    let message = |name: &&str| {
        let mut body = name.as_bytes().to_vec();
        body.resize(body.len().max(size.unwrap_or(0) as usize), b'.');
        (body, subject.filter(|_| only.is_none_or(|only| only == *name)))
    };
    chunks::chunk(received_ms, names.iter().map(message))
}

impl Bench {
    /// A read for a reader is done: it looked at no more than `most` chunks.
    pub(super) fn load_for_reader(
        &mut self,
        (id, from): (ConsumerId, u64),
        most: usize,
    ) -> Result<Vec<String>, String> {
        let now = self.now();
        let Some(scan) = self.stream().scan(id) else { return Ok(vec!["its reader is gone".to_owned()]) };
        let (runs, end, since_ms) = chunks::read(&self.store, &scan, from, most, EPOCH_MS + self.now_ms);
        let numbers = runs.iter().flat_map(|(first, batch)| *first..*first + batch.len() as u64);
        let names: Vec<&str> = numbers.map(|number| self.name(number)).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(" ") };
        let mut answers = vec![format!("read: {names}, up to {end}")];
        let read = StreamRead { reader: id, from, end, since_ms };
        answers.extend(self.with(|queue, effects| stream(queue).loaded(read, runs, now, effects))?.1);
        Ok(answers)
    }

    /// A member of a group answers a change of its activity.
    pub(super) fn answer_activity(&mut self, command: &str, mut words: Words<'_>) -> Result<Vec<String>, String> {
        let (id, now) = (self.consumer(words.next("a consumer")?)?, self.now());
        let start = start(&mut words)?;
        words.end()?;
        let ((), answers) = self.with(|queue, effects| match command {
            "activated" => stream(queue).activated(id, start, now, effects),
            _ => stream(queue).stepped_down(id, effects),
        })?;
        Ok(answers)
    }

    /// An operator makes the member of a group active whose turn it is.
    pub(super) fn activate_group(&mut self, mut words: Words<'_>) -> Result<Vec<String>, String> {
        let (name, now) = (words.next("a group")?, self.now());
        words.end()?;
        let (is_there, mut answers) = self.with(|queue, effects| stream(queue).activate_group(name, now, effects))?;
        if !is_there {
            answers.insert(0, "there is no such group".to_owned());
        }
        Ok(answers)
    }

    /// The groups as operators see them.
    pub(super) fn groups(&mut self) -> Vec<String> {
        let status = self.queue().status();
        let groups = status.stream.map(|stream| stream.groups).unwrap_or_default();
        let shown = groups.iter().map(|group| {
            let members = group.members.iter();
            let members =
                members.map(|member| format!("{}{}", member.tag, if member.is_active { " (active)" } else { "" }));
            format!("{}: {}", group.name, members.collect::<Vec<_>>().join(", "))
        });
        if groups.is_empty() { vec!["none".to_owned()] } else { shown.collect() }
    }

    pub(super) fn checkpoint(&mut self, words: Words<'_>) -> Result<Vec<String>, String> {
        words.end()?;
        let checkpoint = self.queue().checkpoint();
        self.stream_log = StreamLog { checkpoint: Some(checkpoint), ..StreamLog::default() };
        Ok(Vec::new())
    }

    /// The state that recovery finds: the last checkpoint, and behind it chunks that were applied, and departures.
    pub(super) fn recovered_stream(&mut self) -> Result<Replica, String> {
        let now = self.queue().checkpoint();
        let StreamLog { checkpoint, left, offsets } = std::mem::take(&mut self.stream_log);
        let Checkpoint { next, live, bytes, state, .. } = match checkpoint {
            Some(checkpoint) => checkpoint,
            None => self.queue().checkpoint(),
        };
        let mut parts = Parts::decode(&state).map_err(|error| error.to_string())?;
        let stream = &mut parts.stream;
        offsets.into_iter().for_each(|kept| stream.tracking.replay(kept));
        let mut ledger = Ledger::restore(next, &live, bytes);
        self.store.retain(|first, _| *first < now.next);
        for (&first, batch) in &self.store {
            let bytes = u64::from(batch.chunk_bytes());
            if first >= next {
                ledger.accept(first, batch.len() as u64, bytes);
            }
            stream.index.replay(first, bytes, batch.times(0).0);
        }
        for run in left {
            ledger.settle(run.first, run.last, run.bytes, Departure::Dropped);
        }
        self.store.retain(|first, _| ledger.is_live(*first));
        Ok(Replica { ledger, parts, ..Replica::default() })
    }
}
