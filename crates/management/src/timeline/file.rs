//! The file that keeps the timeline while the node is down after a clean stop.
//!
//! It only serves display: one that can't be read is left out, with a line in the log. All numbers are little endian.
//!
//! ```text
//! magic    8 bytes   "lvrtime1", the last of which is the version
//! events   u32       length of the events in bytes, which are a JSON list
//! then series until the end of the file, the node's first, with an empty vhost and name:
//! vhost    u16 length, bytes
//! name     u16 length, bytes
//! width    u8        values of a sample
//! count    u32       samples
//! samples            each u32 minute, f32 values
//! ```

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use super::events::TimelineEvent;
use super::series::{Series, sample_bytes};
use super::{BYTES_MAX, Kept, NODE_COLUMNS, NODE_LENGTHS, Past, QUEUE_COLUMNS, QUEUE_LENGTHS, Timeline};
use crate::kept_file;

const MAGIC: &[u8; 8] = b"lvrtime1";
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 2 * BYTES_MAX as u64;

impl Timeline {
    /// Writes all of it to a file, in the place of an older one.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        kept_file::replace(path, |file| {
            let mut out = BufWriter::new(file);
            self.kept.lock().write(&mut out)?;
            out.flush()
        })
    }

    /// Reads a file that an earlier node wrote; without one, nothing happens.
    ///
    /// # Errors
    /// It can't be read, or isn't such a file. Nothing of it is taken then.
    pub(crate) fn read(&self, path: &Path) -> io::Result<()> {
        let Some(bytes) = kept_file::read(path, FILE_BYTES_MAX)? else { return Ok(()) };
        let (events, series) = parse(&bytes)?;
        let mut kept = self.kept.lock();
        kept.events.put_before(events);
        for (vhost, name, series) in series {
            match (vhost, series.width() == NODE_COLUMNS.len()) {
                ("", true) => kept.node = Some(Past::new(series)),
                (vhost, false) => {
                    kept.samples += series.len();
                    kept.queues.insert((Arc::from(vhost), Arc::from(name)), Past::new(series));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn damaged(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

impl Kept {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        let events = serde_json::to_vec(&self.events.within(0..=u64::MAX))?;
        out.write_all(&(events.len() as u32).to_le_bytes())?;
        out.write_all(&events)?;
        if let Some(node) = &self.node {
            write_series(out, "", "", &node.series)?;
        }
        self.queues.iter().try_for_each(|((vhost, name), past)| write_series(out, vhost, name, &past.series))
    }
}

fn write_series(out: &mut impl Write, vhost: &str, name: &str, series: &Series) -> io::Result<()> {
    for text in [vhost, name] {
        out.write_all(&(text.len() as u16).to_le_bytes())?;
        out.write_all(text.as_bytes())?;
    }
    out.write_all(&[series.width() as u8])?;
    out.write_all(&(series.len() as u32).to_le_bytes())?;
    for (minute, values) in series.within(0..=u32::MAX) {
        out.write_all(&minute.to_le_bytes())?;
        values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))?;
    }
    Ok(())
}

type Read<'a> = (Vec<TimelineEvent>, Vec<(&'a str, &'a str, Series)>);

fn parse(bytes: &[u8]) -> io::Result<Read<'_>> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it doesn't begin with lvrtime1"))?;
    let length = number(&mut rest)?;
    let events = serde_json::from_slice(take(&mut rest, length)?)?;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (vhost, name) = (text(&mut rest)?, text(&mut rest)?);
        let width = usize::from(take(&mut rest, 1)?[0]);
        let lengths = match width {
            width if width == NODE_COLUMNS.len() => NODE_LENGTHS,
            width if width == QUEUE_COLUMNS.len() => QUEUE_LENGTHS,
            _ => return Err(damaged("a series has other columns")),
        };
        let count = number(&mut rest)?;
        let samples = take(&mut rest, count.saturating_mul(sample_bytes(width)))?;
        let mut series = Series::new(width);
        for sample in samples.chunks_exact(sample_bytes(width)) {
            let word = |at: usize| [sample[at], sample[at + 1], sample[at + 2], sample[at + 3]];
            let values: Vec<f32> = (1..=width).map(|at| f32::from_le_bytes(word(at * 4))).collect();
            if values.iter().all(|value| value.is_finite()) {
                series.add(u32::from_le_bytes(word(0)), &values, lengths);
            }
        }
        all.push((vhost, name, series));
    }
    Ok((events, all))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> io::Result<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length).ok_or_else(|| damaged("it ends too early"))?;
    *rest = behind;
    Ok(taken)
}

fn number(rest: &mut &[u8]) -> io::Result<usize> {
    let bytes = take(rest, 4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
}

fn text<'a>(rest: &mut &'a [u8]) -> io::Result<&'a str> {
    let bytes = take(rest, 2)?;
    let length = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    std::str::from_utf8(take(rest, length)?).map_err(|_| damaged("a name isn't UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::super::{NodeNumbers, QueueNumbers};
    use std::fs;

    use leveret_broker::Now;

    use super::*;

    fn at(ms: u64) -> Now {
        Now { monotonic: ms * 1_000_000, wall_ms: ms }
    }

    fn timeline() -> Timeline {
        let timeline = Timeline::default();
        timeline.happened(TimelineEvent::new(5, "alarm_raised", "memory"));
        timeline.add_node(NodeNumbers { sizes: [1, 2, 3, 4, 5], counted: [0; 5] }, at(600_000));
        for at in 0..3 {
            let numbers = QueueNumbers { lengths: [at, 0], counted: [at * 60, 0, 0, 0] };
            timeline.add_queue(&"/".into(), &"q".into(), numbers, self::at(at * 60_000));
        }
        timeline
    }

    #[test]
    fn a_file_holds_all_that_was_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("timeline");
        let (before, after) = (timeline(), Timeline::default());
        after.read(&path).expect("no file is none");
        before.write(&path).expect("is written");
        after.happened(TimelineEvent::new(9, "node_started", ""));
        after.read(&path).expect("is read");
        assert_eq!(after.node(0..=99), before.node(0..=99));
        assert_eq!(after.queue("/", "q", 0..=99), before.queue("/", "q", 0..=99));
        let kinds: Vec<_> = after.events(0..=99).into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["alarm_raised", "node_started"]);
        assert_eq!(after.kept.lock().samples, 3);
    }

    #[test]
    fn a_damaged_file_is_refused_or_read_as_far_as_it_makes_sense() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("timeline");
        timeline().write(&path).expect("is written");
        let whole = fs::read(&path).expect("a file");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x80;
            let _ = parse(&damaged);
            let _ = parse(&whole[..at]);
        }
        assert!(parse(b"lvrtime0").is_err() && parse(b"").is_err());
    }
}
