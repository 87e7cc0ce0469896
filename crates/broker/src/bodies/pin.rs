//! Holders of a body's file: it exists until the last holder lets go, even if its message is gone.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use leveret_log::{BodyRead, Disk, LogId, ReadError};
use leveret_message::{FileBody, fields_length};

use super::{Bodies, Work};

/// The holders of a body's file.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    count: u32,
    /// Whether the file is to be removed when the last holder lets go.
    pub doomed: bool,
}

/// One hold on a file.
pub(crate) struct BodyPin {
    id: u64,
    length: u64,
    bodies: Arc<Bodies>,
    /// The checksums of its pieces, once it has been opened for reading.
    opened: OnceLock<BodyRead>,
}

impl BodyPin {
    /// Holds the file of a body of this length.
    pub(crate) fn new(id: u64, length: u64, bodies: &Arc<Bodies>) -> Arc<Self> {
        bodies.pins.lock().entry(id).or_default().count += 1;
        Arc::new(Self { id, length, bodies: bodies.clone(), opened: OnceLock::new() })
    }

    /// The hold that a message has.
    ///
    /// # Panics
    /// If the message belongs to another broker.
    pub(crate) fn of(body: &FileBody) -> Arc<Self> {
        body.handle.clone().downcast().expect("bodies are pinned by the broker")
    }

    /// Length of the body in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Opens the file.
    pub(crate) fn open(&self, disk: &dyn Disk, log: LogId) -> Result<&BodyRead, ReadError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = self.bodies.files.open(disk, self.id, self.length, log)?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Reads the fields of a message of AMQP 1.0: the sections before its body.
    pub(crate) fn fields(&self, disk: &dyn Disk, log: LogId) -> Result<Bytes, ReadError> {
        let (body, mut start) = (self.open(disk, log)?, BytesMut::new());
        for place in 0.. {
            start.extend_from_slice(&body.piece(disk, place, log)?);
            if let Some(length) = fields_length(&start) {
                start.truncate(length);
                break;
            }
            if start.len() as u64 >= self.length {
                break;
            }
        }
        // The rest of a piece isn't kept.
        Ok(Bytes::copy_from_slice(&start))
    }

    /// Reads the whole body.
    pub(crate) fn read(&self, disk: &dyn Disk, log: LogId) -> Result<Bytes, ReadError> {
        self.bodies.files.read(disk, self.id, self.length, log)
    }
}

impl Drop for BodyPin {
    fn drop(&mut self) {
        let mut pins = self.bodies.pins.lock();
        let Some(pinned) = pins.get_mut(&self.id) else { return };
        pinned.count -= 1;
        if pinned.count > 0 {
            return;
        }
        let doomed = pinned.doomed;
        pins.remove(&self.id);
        drop(pins);
        if doomed {
            self.bodies.push(Work::Remove(self.id));
        }
    }
}
