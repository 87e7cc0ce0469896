//! The last lines, kept in memory whatever the outputs are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use leveret_config::{Format, LogLevel};
use parking_lot::Mutex;

use super::Log;
use super::format::text;
use super::line::Line;

/// Most lines that are kept.
pub(super) const LINES_MAX: usize = 1000;
/// Most bytes of their texts.
const BYTES_MAX: usize = 256 << 10;
/// Most bytes of one line's text.
const LINE_BYTES_MAX: usize = 8 << 10;

/// One of the last lines of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentLine {
    /// Its number: lines are counted from 1 on.
    pub number: u64,
    /// When it was logged.
    pub time: SystemTime,
    /// Its level.
    pub level: LogLevel,
    /// Its category; `default` is everything without one.
    pub category: &'static str,
    /// The number of the connection that it is about, 0 for none.
    pub pid: u64,
    /// The message with its fields.
    pub text: String,
}

/// The last lines.
#[derive(Default)]
pub(super) struct Recent {
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<Arc<Line>>,
    bytes: usize,
    /// Number of lines so far.
    count: u64,
}

/// The size of a line's text, about.
fn size(line: &Line) -> usize {
    line.message.len() + line.fields.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>()
}

impl Recent {
    pub(super) fn add(&self, line: &Arc<Line>) {
        let mut ring = self.ring.lock();
        ring.count += 1;
        ring.bytes += size(line);
        ring.lines.push_back(line.clone());
        while ring.lines.len() > LINES_MAX || ring.bytes > BYTES_MAX {
            let Some(gone) = ring.lines.pop_front() else { break };
            ring.bytes -= size(&gone);
        }
    }

    /// The last lines of this level and more important ones, the oldest first.
    fn last(&self, count: usize, level: LogLevel) -> Vec<RecentLine> {
        let found: Vec<(u64, Arc<Line>)> = {
            let ring = self.ring.lock();
            let numbered = (1..=ring.count).rev().zip(ring.lines.iter().rev());
            numbered.filter(|(_, line)| line.level <= level).take(count).map(|(at, line)| (at, line.clone())).collect()
        };
        found.iter().rev().map(|(number, line)| shown(*number, line)).collect()
    }
}

fn shown(number: u64, line: &Line) -> RecentLine {
    let mut text = text(&Format::default(), line);
    if text.len() > LINE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(LINE_BYTES_MAX));
        text.push('…');
    }
    RecentLine { number, time: line.time, level: line.level, category: line.category.name(), pid: line.pid, text }
}

impl Log {
    /// The last lines of this level and more important ones, the oldest first, as far as they are kept: the last 1,000 lines that
    /// some output got, and 256 KiB of them.
    pub fn recent(&self, count: usize, level: LogLevel) -> Vec<RecentLine> {
        self.inner.recent.last(count, level)
    }
}

#[cfg(test)]
mod tests {
    use leveret_config::LogCategory;

    use super::*;

    fn line(level: LogLevel, message: String) -> Arc<Line> {
        let fields = vec![("queue", "q".to_owned())];
        let (time, category) = (SystemTime::UNIX_EPOCH, LogCategory::Queue);
        Arc::new(Line { time, level, category, message, pid: 7, fields, source: None })
    }

    #[test]
    fn the_last_lines_of_a_level_are_given_in_order() {
        let recent = Recent::default();
        for at in 1..=LINES_MAX + 5 {
            let level = if at % 2 == 0 { LogLevel::Warning } else { LogLevel::Debug };
            recent.add(&line(level, format!("line {at}")));
        }
        let texts = |count, level| -> Vec<(u64, String)> {
            recent.last(count, level).into_iter().map(|line| (line.number, line.text)).collect()
        };
        let expected = |number: u64| (number, format!("line {number} queue=q"));
        assert_eq!(texts(2, LogLevel::Debug), [expected(1004), expected(1005)]);
        assert_eq!(texts(2, LogLevel::Info), [expected(1002), expected(1004)]);
        assert_eq!(texts(usize::MAX, LogLevel::Debug).len(), LINES_MAX);
        assert_eq!(texts(usize::MAX, LogLevel::Debug)[0], expected(6));
        assert!(texts(9, LogLevel::Error).is_empty());
        let last = &recent.last(1, LogLevel::Debug)[0];
        assert_eq!((last.category, last.pid), ("queue", 7));
    }

    #[test]
    fn long_lines_are_cut_and_leave_room_for_few() {
        let recent = Recent::default();
        for _ in 0..10 {
            recent.add(&line(LogLevel::Info, "ä".repeat(BYTES_MAX / 8)));
        }
        let lines = recent.last(usize::MAX, LogLevel::Debug);
        assert_eq!((lines.len(), lines[0].number), (3, 8));
        assert!(lines[0].text.len() <= LINE_BYTES_MAX + 3 && lines[0].text.ends_with('…'));
    }
}
