//! Log files and their rotation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;
use leveret_config::{Format, Rotation};
use time::OffsetDateTime;

use super::calendar::Moment;
use super::format::render;
use super::line::Line;
use super::rotation::last_due;

/// Size at which the buffer is written at once.
const BUFFER_BYTES: usize = 64 << 10;

pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    format: Format,
    /// The open file; `None` after an error, until it can be opened again.
    file: Option<File>,
    bytes: u64,
    buffer: Vec<u8>,
    /// The time at which it was created or last rotated: a rotation that was due after it is still to be done.
    since: OffsetDateTime,
    lost: u64,
}

impl LogFile {
    /// Opens the file for appending. It is created with its directory if it doesn't exist.
    pub(super) fn open(path: PathBuf, rotation: Rotation, format: Format) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let since = match fs::metadata(&path).and_then(|known| known.modified()) {
            Ok(modified) => Moment::of(modified).date(),
            Err(_) => Moment::of(SystemTime::now()).date(),
        };
        let mut file = Self { path, rotation, format, file: None, bytes: 0, buffer: Vec::new(), since, lost: 0 };
        file.open_again()?;
        Ok(file)
    }

    pub(super) fn write(&mut self, line: &Line) {
        let before = self.buffer.len();
        render(&self.format, line, "", &mut self.buffer);
        let size = self.bytes + before as u64;
        let added = (self.buffer.len() - before) as u64;
        if self.rotation.size.is_some_and(|max| size != 0 && size + added > max) {
            let last = self.buffer.split_off(before);
            self.flush();
            self.put_aside();
            self.buffer = last;
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Writes the buffer. Lines that can't be written are lost, and counted.
    pub(super) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let written = self.open_if_moved().and_then(|()| match &mut self.file {
            Some(file) => file.write_all(&self.buffer),
            None => Err(io::ErrorKind::NotFound.into()),
        });
        match written {
            Ok(()) => self.bytes += self.buffer.len() as u64,
            Err(reason) => {
                if self.lost == 0 {
                    eprintln!("leveret: cannot log to {}: {reason}", self.path.display());
                }
                self.lost += self.buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
            }
        }
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES);
    }

    /// Rotates the file if its time has come.
    pub(super) fn look_at_clock(&mut self, now: SystemTime) {
        let Some(rotation) = &self.rotation.date else { return };
        let now = Moment::of(now).date();
        if last_due(rotation, now) > self.since {
            self.since = now;
            if self.bytes != 0 {
                self.put_aside();
            }
        }
    }

    /// Rotates the file if old ones are kept. If not, or if another program moved it, only opens it again.
    pub(super) fn rotate_now(&mut self) {
        if self.rotation.count != 0 && self.bytes != 0 && self.is_in_place() {
            self.put_aside();
        } else {
            self.reopen();
        }
    }

    pub(super) fn reopen(&mut self) {
        if let Err(reason) = self.open_again() {
            eprintln!("leveret: cannot log to {}: {reason}", self.path.display());
        }
    }

    fn open_again(&mut self) -> io::Result<()> {
        self.file = None;
        let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        self.bytes = file.metadata()?.len();
        self.file = Some(file);
        if self.lost != 0 {
            let told = format!("{} lines of the log are lost: this file could not be written\n", self.lost);
            if let Some(file) = &mut self.file {
                file.write_all(told.as_bytes())?;
                self.bytes += told.len() as u64;
            }
            self.lost = 0;
        }
        Ok(())
    }

    fn open_if_moved(&mut self) -> io::Result<()> {
        if self.lost == 0 && self.is_in_place() { Ok(()) } else { self.open_again() }
    }

    /// Whether the path still names the open file: tools like logrotate move it away.
    fn is_in_place(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let open = self.file.as_ref().and_then(|file| file.metadata().ok()).map(identity);
        open.is_some() && fs::metadata(&self.path).ok().map(identity) == open
    }

    /// Renames `NAME` to `NAME.0`, that to `NAME.1` and so on; files beyond the count are removed.
    fn put_aside(&mut self) {
        self.file = None;
        if let Err(reason) = self.shift() {
            eprintln!("leveret: cannot put {} aside: {reason}", self.path.display());
        }
        self.since = Moment::of(SystemTime::now()).date();
        self.reopen();
    }

    fn shift(&self) -> io::Result<()> {
        let count = self.rotation.count;
        if count == 0 {
            return fs::remove_file(&self.path);
        }
        for end in ["", ".gz"] {
            remove(&numbered(&self.path, count - 1, end))?;
            for number in (0..count - 1).rev() {
                let from = numbered(&self.path, number, end);
                if from.exists() {
                    fs::rename(&from, numbered(&self.path, number + 1, end))?;
                }
            }
        }
        let newest = numbered(&self.path, 0, "");
        fs::rename(&self.path, &newest)?;
        if self.rotation.compress {
            compress(&newest, &numbered(&self.path, 0, ".gz"))?;
        }
        Ok(())
    }
}

fn numbered(path: &Path, number: u32, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}{end}"));
    name.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let mut encoder = GzEncoder::new(File::create(to)?, Compression::default());
    io::copy(&mut File::open(from)?, &mut encoder)?;
    encoder.finish()?.sync_data()?;
    fs::remove_file(from)
}

#[cfg(test)]
mod tests;
