//! Writes a series of deliveries over AMQP 1.0.

use std::ops::Range;

use super::{write_body, write_start};
use crate::batch::MessageRef;
use crate::deliver::Delivery;
use crate::hub::BodyForm;
use crate::stored::{StoredMessage, tell_the_same};

/// Writes messages as [`to_amqp10`](super::to_amqp10) does, into one buffer and all with the same [`Delivery`]. The
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
                out.extend_from_within(last.start.clone());
                write_body(last.form, body, out);
            }
            _ => self.append_another(head, body, out),
        }
    }

    #[inline(never)]
    fn append_another(&mut self, head: &'a [u8], body: &'a [u8], out: &mut Vec<u8>) {
        let message = StoredMessage::from_parts(head, body);
        let start = out.len();
        let form = write_start(&message, &self.delivery, out);
        self.last = Some(Last { head, start: start..out.len(), form });
        write_body(form, body, out);
    }

    /// Notes that `out` doesn't hold everything any more that was appended to it.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
