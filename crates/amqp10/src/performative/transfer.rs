use crate::composite::{Composite, ListWriter, composite};
use crate::error::{DecodeError, Problem};
use crate::plain_fields::PlainFields;
use crate::value::code;
use crate::wire::saturate;
use crate::{DeliveryState, FrameKind, FrameStart, ReceiverSettleMode, begin_frame, descriptor, end_frame};

/// Longest delivery-tag, in bytes (2.8.7).
pub const DELIVERY_TAG_MAX: usize = 32;

composite! {
    /// Carries a message or a part of one (2.7.5).
    Transfer['a] = TRANSFER, "transfer" {
        /// The link.
        handle "handle": mandatory u32,
        /// The delivery's number in its session, at least in the first transfer of a delivery.
        delivery_id "delivery-id": optional u32,
        /// The delivery's tag on its link, at most 32 bytes, at least in the first transfer of a delivery.
        delivery_tag "delivery-tag": optional &'a [u8],
        /// The message's format, 0 for that of part 3, at least in the first transfer of a delivery.
        message_format "message-format": optional u32,
        /// Whether the sending peer settled the delivery.
        settled "settled": optional bool,
        /// Whether more transfers of this delivery follow.
        more "more": default bool = false,
        /// The receiver's settlement mode for this delivery.
        rcv_settle_mode "rcv-settle-mode": optional ReceiverSettleMode,
        /// The delivery's state at the sending peer.
        state "state": optional DeliveryState<'a>,
        /// Whether an earlier delivery is resumed.
        resume "resume": default bool = false,
        /// Whether the delivery is aborted.
        aborted "aborted": default bool = false,
        /// Whether the receiver may delay its reply to batch it with others.
        batchable "batchable": default bool = false,
    }
}

impl<'a> Transfer<'a> {
    /// Fast path for nearly every transfer: a `list8` after a short descriptor, without a state. Also returns the
    /// payload. Anything else, malformed or merely unusual, gives `None` and takes the general path through
    /// [`Performative::decode`](super::Performative::decode).
    #[inline]
    pub fn decode_plain(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[0x00, 0x53, 0x14, code::LIST_8, size, count], rest) = body.split_first_chunk::<6>()? else {
            return None;
        };
        let (fields, payload) = rest.split_at_checked(usize::from(size).checked_sub(1)?)?;
        let mut fields = PlainFields::new(fields, count);
        let mut transfer = Self {
            handle: fields.uint()??,
            delivery_id: fields.uint()?,
            delivery_tag: fields.tag()?,
            message_format: fields.uint()?,
            settled: fields.boolean()?,
            more: fields.boolean()?.unwrap_or(false),
            ..Self::default()
        };
        if fields.is_at_end() {
            return Some((transfer, payload));
        }
        transfer.rcv_settle_mode = match fields.ubyte()? {
            None => None,
            Some(0) => Some(ReceiverSettleMode::First),
            Some(1) => Some(ReceiverSettleMode::Second),
            Some(_) => return None,
        };
        // A transfer with a state isn't plain.
        if fields.ubyte()?.is_some() {
            return None;
        }
        transfer.resume = fields.boolean()?.unwrap_or(false);
        transfer.aborted = fields.boolean()?.unwrap_or(false);
        transfer.batchable = fields.boolean()?.unwrap_or(false);
        fields.is_at_end().then_some((transfer, payload))
    }

    pub(crate) fn check_tag(&self) -> Result<(), DecodeError> {
        match self.delivery_tag {
            Some(tag) if tag.len() > DELIVERY_TAG_MAX => Err(DecodeError::Field {
                composite: Self::NAME,
                field: "delivery-tag",
                problem: Problem::TooLong { length: saturate(tag.len()), limit: DELIVERY_TAG_MAX as u32 },
            }),
            _ => Ok(()),
        }
    }

    /// Appends the performative, without a frame around it and without payload.
    ///
    /// # Panics
    /// If it has 4 GiB or more.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut list = ListWriter::begin(out, descriptor::TRANSFER);
        self.write_fields(&mut list);
        list.finish();
    }
}

/// Appends the beginning of a frame with a whole delivery, up to its payload; the same bytes as by [`begin_frame`]
/// and [`Transfer::encode`].
/// do field by field.
#[inline]
pub fn begin_delivery(
    out: &mut Vec<u8>,
    channel: u16,
    handle: u32,
    delivery_id: u32,
    tag: [u8; 4],
    settled: bool,
) -> FrameStart {
    const FIELDS: usize = 6;
    const LONGEST: usize = FIELDS + 2 * 5 + 8;
    let start = begin_frame(out, FrameKind::Amqp, channel);
    let begin = out.len();
    out.extend_from_slice(&[0; LONGEST]);
    // Written in place: a copy of bytes that were just written in smaller stores would stall the processor.
    let bytes = out.last_chunk_mut::<LONGEST>().expect("they were appended");
    bytes[..FIELDS].copy_from_slice(&[0x00, 0x53, descriptor::TRANSFER as u8, code::LIST_8, 0, 5]);
    let mut at = put_uint(bytes, FIELDS, handle);
    at = put_uint(bytes, at, delivery_id);
    let [a, b, c, d] = tag;
    let settled = if settled { code::TRUE } else { code::FALSE };
    bytes[at..at + 8].copy_from_slice(&[code::BINARY_8, 4, a, b, c, d, code::UINT_0, settled]);
    at += 8;
    // The count is part of the list's size.
    bytes[FIELDS - 2] = (at - FIELDS) as u8 + 1;
    out.truncate(begin + at);
    start
}

#[inline(always)]
fn put_uint(bytes: &mut [u8], at: usize, value: u32) -> usize {
    match u8::try_from(value) {
        Ok(0) => {
            bytes[at] = code::UINT_0;
            at + 1
        }
        Ok(small) => {
            bytes[at..at + 2].copy_from_slice(&[code::UINT_SMALL, small]);
            at + 2
        }
        Err(_) => {
            bytes[at] = code::UINT;
            bytes[at + 1..at + 5].copy_from_slice(&value.to_be_bytes());
            at + 5
        }
    }
}

/// Appends a frame with a transfer and its payload.
#[inline]
pub fn encode_transfer(out: &mut Vec<u8>, channel: u16, transfer: &Transfer<'_>, payload: &[u8]) {
    let start = begin_frame(out, FrameKind::Amqp, channel);
    transfer.encode(out);
    out.extend_from_slice(payload);
    end_frame(out, start);
}
