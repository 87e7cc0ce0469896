//! Deliveries over AMQP 1.0 one after the other.

use std::ops::Range;

use super::{write_body, write_start};
use crate::batch::MessageRef;
use crate::deliver::Delivery;
use crate::hub::BodyForm;
use crate::stored::{StoredMessage, tell_the_same};

/// Writes messages as [`to_amqp10`](super::to_amqp10) does, into one buffer and all of the same [`Delivery`]. What
/// stands before their bodies is mostly what the one before had, and is copied from there: to make it takes four times
/// as long.
#[derive(Debug)]
pub struct Amqp10Run<'a> {
    delivery: Delivery,
    last: Option<Last<'a>>,
}

/// The last message that was written.
#[derive(Debug)]
struct Last<'a> {
    head: &'a [u8],
    /// Where its sections before the body are.
    start: Range<usize>,
    form: BodyForm,
}

impl<'a> Amqp10Run<'a> {
    /// Nothing was written yet.
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, last: None }
    }

    /// Appends all sections of the message. `out` holds what was appended to it before, unless that was
    /// [forgotten](Self::forget). The body is at hand.
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

    /// What was appended isn't all there any more.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
