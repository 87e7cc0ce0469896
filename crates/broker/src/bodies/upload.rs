//! A body on its way to its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;
use leveret_log::{BodyFiles, BodyWrite, Disk, DiskError};
use leveret_message::FileBody;
use parking_lot::Mutex;

use super::{Bodies, BodyPin, Work};
use crate::outbox::Outbox;
use crate::partial::{PartialBytes, PartialMessages, TooManyPartialBytes};
use crate::settings::{UNWRITTEN_BYTES_LOW, UNWRITTEN_BYTES_MAX};

const PENDING: u8 = 0;
const WRITTEN: u8 = 1;
const REFUSED: u8 = 2;

/// Bytes of one connection's large bodies that disk threads still have to write.
#[derive(Debug, Clone, Default)]
pub struct Unwritten(Arc<AtomicU64>);

impl Unwritten {
    /// Whether so many bytes are in flight that the connection shouldn't be read.
    pub fn is_full(&self) -> bool {
        self.0.load(Ordering::Acquire) >= UNWRITTEN_BYTES_MAX
    }

    /// Whether there is room for more again.
    pub fn is_low(&self) -> bool {
        self.0.load(Ordering::Acquire) <= UNWRITTEN_BYTES_LOW
    }
}

/// The disk thread's side of a body.
pub(super) struct Upload {
    pub id: u64,
    /// The file; only the disk thread locks it.
    write: Mutex<Option<BodyWrite>>,
    state: AtomicU8,
    is_refused: AtomicBool,
    is_given_up: AtomicBool,
    unwritten: Unwritten,
}

impl Upload {
    /// Writes the next bytes, unless the body was abandoned.
    pub(super) fn write(&self, files: BodyFiles, disk: &dyn Disk, bytes: &Bytes, last: bool) -> Result<(), DiskError> {
        if self.is_refused.load(Ordering::Acquire) || self.is_given_up.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut write = self.write.lock();
        let mut body = match write.take() {
            Some(body) => body,
            None => files.begin(disk, self.id)?,
        };
        body.write(disk, bytes)?;
        if last {
            return body.finish(disk);
        }
        *write = Some(body);
        Ok(())
    }

    /// Refuses the body, because the disk has no space for it.
    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Release);
    }

    /// A piece was written or abandoned.
    pub(super) fn written(&self, bytes: u64, last: bool) {
        self.unwritten.0.fetch_sub(bytes, Ordering::AcqRel);
        if last {
            let decided = if self.is_refused.load(Ordering::Acquire) { REFUSED } else { WRITTEN };
            self.state.store(decided, Ordering::Release);
        }
    }
}

/// A body that is being written, or was. Dropping this removes its file, unless [`BodyFile::keep`] was called.
pub struct BodyFile {
    upload: Arc<Upload>,
    bodies: Arc<Bodies>,
    outbox: Arc<Outbox>,
    piece: Option<PartialBytes>,
    length: u64,
    is_kept: bool,
}

impl BodyFile {
    pub(super) fn new(id: u64, bodies: Arc<Bodies>, unwritten: Unwritten, outbox: Arc<Outbox>) -> Self {
        let upload = Upload {
            id,
            write: Mutex::new(None),
            state: AtomicU8::new(PENDING),
            is_refused: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            unwritten,
        };
        Self { upload: Arc::new(upload), bodies, outbox, piece: None, length: 0, is_kept: false }
    }

    /// Adds the next bytes of the body; whole pieces go to the disk thread.
    ///
    /// # Errors
    /// If the connection would hold too many bytes in total.
    pub fn add(&mut self, mut bytes: &[u8], partial: &PartialMessages) -> Result<(), TooManyPartialBytes> {
        let most = self.bodies.files.piece_bytes;
        while !bytes.is_empty() {
            let piece = self.piece.get_or_insert_with(|| partial.begin());
            if piece.len() == most {
                let whole = self.piece.take().map(PartialBytes::finish).unwrap_or_default();
                self.push(whole.into(), false);
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(most - piece.len()));
            piece.add(now)?;
            bytes = later;
        }
        Ok(())
    }

    /// Ends the body: all bytes were added.
    pub fn finish(&mut self) {
        let rest = self.piece.take().map(PartialBytes::finish).unwrap_or_default();
        self.push(rest.into(), true);
    }

    pub(super) fn push(&mut self, bytes: Bytes, last: bool) {
        self.length += bytes.len() as u64;
        self.upload.unwritten.0.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        let (upload, outbox) = (self.upload.clone(), self.outbox.clone());
        self.bodies.push(Work::Write { upload, bytes, last, outbox });
    }

    /// Number of bytes added so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The message's reference to the body, with its fields ([`FileBody::fields`]). Only valid once all bytes were added.
    pub fn body(&self, fields: Bytes) -> FileBody {
        let length = u32::try_from(self.length).expect("messages are shorter than 4 GiB");
        let handle = BodyPin::new(self.upload.id, self.length, &self.bodies);
        FileBody { length, handle, fields: Some(fields) }
    }

    /// Whether the result isn't known yet.
    pub fn is_pending(&self) -> bool {
        self.upload.state.load(Ordering::Acquire) == PENDING
    }

    /// Whether it is written to disk.
    pub fn is_written(&self) -> bool {
        self.upload.state.load(Ordering::Acquire) == WRITTEN
    }

    /// Returns its id for a reference on disk: the caller removes the file from now on.
    pub(crate) fn keep(mut self) -> u64 {
        self.is_kept = true;
        self.upload.id
    }
}

impl Drop for BodyFile {
    fn drop(&mut self) {
        if !self.is_kept {
            self.upload.is_given_up.store(true, Ordering::Release);
            self.bodies.remove(self.upload.id);
        }
    }
}
