//! Writes a series of deliveries over AMQP 1.0.

use std::ops::Range;

use super::annotations::OFFSET_START;
use super::{write_body, write_start};
use crate::batch::MessageRef;
use crate::deliver::Delivery;
use crate::hub::BodyForm;
use crate::stored::{StoredMessage, tell_the_same};

/// Writes messages as [`to_amqp10`](super::to_amqp10) does, into one buffer and all with the same [`Delivery`], but for their offsets in
/// a stream, which follow each other. The
/// sections before a body mostly equal those of the previous message and are copied from there: encoding them takes
/// four times as long.
#[derive(Debug)]
pub struct Amqp10Run<'a> {
    delivery: Delivery,
    last: Option<Last<'a>>,
}

/// The last message written.
#[derive(Debug)]
struct Last<'a> {
    head: &'a [u8],
    /// Range of its sections before the body.
    start: Range<usize>,
    form: BodyForm,
    /// Place of an offset's 8 bytes in `start`.
    offset_at: Option<usize>,
}

impl<'a> Amqp10Run<'a> {
    /// A writer that has written nothing yet.
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, last: None }
    }

    /// Appends all sections of the message, whose body has to be present. `out` must still hold what was appended
    /// before, unless [`forget`](Self::forget) was called.
    #[inline]
    pub fn append(&mut self, message: &MessageRef<'a>, out: &mut Vec<u8>) {
        let (head, body) = message.parts();
        match &self.last {
            Some(last) if tell_the_same(last.head, head) => {
                out.reserve(last.start.len() + body.len());
                let start = out.len();
                out.extend_from_within(last.start.clone());
                if let (Some(offset), Some(at)) = (self.delivery.stream_offset, last.offset_at) {
                    out[start + at..start + at + 8].copy_from_slice(&offset.to_be_bytes());
                }
                write_body(last.form, body, out);
            }
            _ => self.append_another(head, body, out),
        }
        if let Some(offset) = &mut self.delivery.stream_offset {
            *offset += 1;
        }
    }

    #[inline(never)]
    fn append_another(&mut self, head: &'a [u8], body: &'a [u8], out: &mut Vec<u8>) {
        let message = StoredMessage::from_parts(head, body);
        let start = out.len();
        let form = write_start(&message, &self.delivery, out);
        let offset_at = self.delivery.stream_offset.and_then(|_| {
            let found = out[start..].windows(OFFSET_START.len()).position(|bytes| bytes == OFFSET_START);
            found.map(|at| at + OFFSET_START.len())
        });
        self.last = Some(Last { head, start: start..out.len(), form, offset_at });
        write_body(form, body, out);
    }

    /// Notes that `out` doesn't hold everything any more that was appended to it.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
