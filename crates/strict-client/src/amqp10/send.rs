//! Messages that the client sends.

use leveret_amqp10::performative::Transfer;
use leveret_amqp10::{DeliveryState, FRAME_HEADER_SIZE, Serial, encode_transfer};

use super::link::{LinkEnd, LinkState};
use super::session::{Session, SessionState};

/// Options for sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Send<'a> {
    /// Whether it is sent settled.
    pub settled: bool,
    /// The message format, 0 for that of the specification's part 3.
    pub message_format: u32,
    /// The delivery's state, for example that of a transaction.
    pub state: Option<DeliveryState<'a>>,
    /// Whether the peer may delay its reply to batch it with others.
    pub batchable: bool,
}

/// The output that frames to the peer are written to.
pub(crate) struct Frames<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// The largest frame that the peer takes, in bytes.
    pub(crate) size_max: u32,
}

/// The rest of a message that didn't fit into the session's window.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) handle: u32,
    rest: Vec<u8>,
    sent: usize,
}

impl Session {
    /// Sends a message if link credit and window allow it, in as many transfers as needed; the rest of a large one
    /// follows as the window opens.
    #[inline]
    pub(crate) fn send(
        &mut self,
        handle: u32,
        tag: &[u8],
        payload: &[u8],
        options: &Send<'_>,
        frames: &mut Frames<'_>,
    ) -> Option<Serial> {
        if self.remote_window == 0 || !self.pending.is_empty() || self.state != SessionState::Begun {
            return None;
        }
        let delivery_id = self.outgoing.next();
        let link = self.link(handle);
        let LinkEnd::Sender(end) = &mut link.end else { panic!("handle {handle} is a receiver's") };
        if end.credit == 0 || end.sending.is_some() || link.state != LinkState::Attached {
            return None;
        }
        let first = Transfer {
            handle,
            delivery_id: Some(delivery_id.0),
            delivery_tag: Some(tag),
            message_format: Some(options.message_format),
            settled: Some(options.settled),
            state: options.state,
            batchable: options.batchable,
            ..Transfer::default()
        };
        let sent = self.transfer_part(&first, payload, frames);
        if sent < payload.len() {
            self.pending.push_back(Pending { handle, rest: payload[sent..].to_vec(), sent: 0 });
            self.pump(frames);
        }
        Some(delivery_id)
    }

    /// Continues sending the rest of a message.
    pub(crate) fn pump(&mut self, frames: &mut Frames<'_>) {
        while self.remote_window > 0
            && self.state == SessionState::Begun
            && let Some(mut pending) = self.pending.pop_front()
        {
            let next = Transfer { handle: pending.handle, ..Transfer::default() };
            pending.sent += self.transfer_part(&next, &pending.rest[pending.sent..], frames);
            if pending.sent < pending.rest.len() {
                self.pending.push_front(pending);
            }
        }
    }

    /// Writes one transfer with as much of `payload` as fits. Returns the number of bytes.
    #[inline]
    fn transfer_part(&mut self, transfer: &Transfer<'_>, payload: &[u8], frames: &mut Frames<'_>) -> usize {
        let Frames { out, size_max } = frames;
        let size_max = *size_max;
        let start = out.len();
        self.transfer(transfer, payload, out);
        if out.len() - start <= size_max as usize {
            return payload.len();
        }
        // Too large for a frame: written again with `more` and only the part that fits after the performative.
        out.truncate(start);
        let transfer = Transfer { more: true, ..*transfer };
        encode_transfer(out, self.channel, &transfer, &[]);
        let room = (size_max as usize).saturating_sub(out.len() - start);
        assert!(room > 0, "a frame of {size_max} bytes has no room behind {FRAME_HEADER_SIZE} and the transfer");
        out.truncate(start);
        encode_transfer(out, self.channel, &transfer, &payload[..room]);
        // The first attempt was counted already; only the delivery isn't complete yet.
        let delivery_id = self.outgoing.next().add(u32::MAX);
        if let LinkEnd::Sender(end) = &mut self.link(transfer.handle).end {
            end.sending = Some(delivery_id);
        }
        room
    }

    /// Writes a transfer unchanged and counts it.
    #[inline]
    pub(crate) fn transfer(&mut self, transfer: &Transfer<'_>, payload: &[u8], out: &mut Vec<u8>) {
        encode_transfer(out, self.channel, transfer, payload);
        self.next_outgoing_id.advance();
        self.remote_window = self.remote_window.saturating_sub(1);
        let next = self.outgoing.next();
        let Some(Some(link)) = self.links.get_mut(transfer.handle as usize) else { return };
        let LinkEnd::Sender(end) = &mut link.end else { return };
        let delivery_id = match end.sending {
            Some(delivery_id) => delivery_id,
            None => {
                end.delivery_count.advance();
                end.credit = end.credit.saturating_sub(1);
                self.outgoing.push(transfer.handle, (), transfer.settled.unwrap_or(false))
            }
        };
        debug_assert!(delivery_id.distance_from(next) <= 0, "deliveries are numbered in order");
        end.sending = transfer.more.then_some(delivery_id).filter(|_| !transfer.aborted);
        if transfer.aborted {
            self.outgoing.settle(delivery_id, delivery_id, |_| {});
        }
    }
}
