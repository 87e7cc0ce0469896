//! The end of the log's file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::Log;

/// Most bytes that are read at once.
const BYTES_MAX: u64 = 1 << 20;

/// Lines of a file, and the position after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Whole lines, the oldest first.
    pub lines: Vec<String>,
    /// The position of the next line, in bytes.
    pub position: u64,
}

impl Log {
    /// The last lines of the file, `count` at most and 1 MiB at most; `None` if lines don't go to a file.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn tail(&self, count: usize) -> io::Result<Option<Tail>> {
        self.flush(super::PATIENCE);
        self.file().map(|path| last(&mut File::open(path)?, count)).transpose()
    }

    /// The lines from a position on; from the beginning if the file is shorter, since it was rotated then.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn tail_from(&self, position: u64) -> io::Result<Option<Tail>> {
        self.flush(super::PATIENCE);
        self.file().map(|path| from(&mut File::open(path)?, position)).transpose()
    }
}

fn last(file: &mut File, count: usize) -> io::Result<Tail> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(BYTES_MAX);
    let mut tail = from(file, start)?;
    if start != 0 && !tail.lines.is_empty() {
        // This line's beginning is missing.
        tail.lines.remove(0);
    }
    let surplus = tail.lines.len().saturating_sub(count);
    tail.lines.drain(..surplus);
    Ok(tail)
}

fn from(file: &mut File, position: u64) -> io::Result<Tail> {
    let position = if position > file.metadata()?.len() { 0 } else { position };
    file.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_owned).collect();
    Ok(Tail { lines, position: position + whole as u64 })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn whole_lines_are_read_from_the_end_and_on() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"one\ntwo\nthree\nfo").expect("is written");
        let tail = last(&mut file, 2).expect("is read");
        assert_eq!(tail, Tail { lines: vec!["two".into(), "three".into()], position: 14 });
        assert_eq!(from(&mut file, 14).expect("is read"), Tail { lines: vec![], position: 14 });
        file.seek(SeekFrom::End(0)).expect("is there");
        file.write_all(b"ur\n").expect("is written");
        assert_eq!(from(&mut file, 14).expect("is read"), Tail { lines: vec!["four".into()], position: 19 });
        file.set_len(4).expect("is cut");
        assert_eq!(from(&mut file, 19).expect("is read"), Tail { lines: vec!["one".into()], position: 4 });
        file.write_all(&[b'x'; 2 << 20]).expect("is written");
        file.write_all(b"\nend\n").expect("is written");
        assert_eq!(last(&mut file, 9).expect("is read").lines, ["end"]);
    }
}
