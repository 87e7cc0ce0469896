//! Deliveries whose bodies are read from files. They begin when the first piece has been read, and continue as the
//! client's window and socket have room.

use leveret_amqp10::{FrameKind, begin_frame, condition, end_frame, performative::Transfer};
use leveret_message::StoredMessage;
use leveret_message::deliver::{Delivery, file_to_amqp10, to_amqp10};
use leveret_queue::Taken;

use super::connection::Connection;
use super::consumer::Consumer;
use super::error::Failure;
use super::link::Link;
use super::on_link::OnLink;
use super::pending::{Pending, Rest};
use super::session::Session;
use super::unsettled::Sent;
use leveret_broker::bodies::{BodyReader, Pieces};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;

/// The start of a large delivery.
enum Begun {
    /// Not enough has been read yet.
    No(BodyReader),
    /// The bytes before the body, and the reader of the rest of the body.
    Yes(Vec<u8>, Option<Pieces>),
}

/// The error of a link whose queue has stopped, because a message can't be read.
pub(super) fn unreadable(queue: &QueueRef, reason: &str) -> Failure {
    Failure::link(condition::INTERNAL_ERROR, queue.crashed(reason))
}

impl Connection {
    /// Begins the first waiting delivery, if enough of it has been read; false if not.
    pub(super) fn begin_large_delivery(&mut self, session: &mut Session, now: Now) -> bool {
        let Some(Pending::Large { handle, taken, reader }) = session.pending.pop_front() else { return true };
        let Some(mut link) = session.take(handle) else { return true };
        let result = match &mut *link {
            Link::Consumer(consumer) => {
                self.begin_delivery(&mut OnLink { session, handle, link: consumer }, taken, reader, now)
            }
            _ => Ok(true),
        };
        session.put(handle, link);
        match result {
            Ok(has_begun) => has_begun,
            Err(failure) => {
                self.fail_link(session, handle, failure, now);
                true
            }
        }
    }

    /// Aborts a delivery that the client has only in part (2.7.5). The session's window has room.
    pub(super) fn abort(&mut self, session: &mut Session, rest: &Rest) {
        if rest.sent == 0 {
            return;
        }
        let transfer = Transfer { handle: rest.handle, aborted: true, ..Transfer::default() };
        let out = self.client.output.buffer();
        let start = begin_frame(out, FrameKind::Amqp, session.channel());
        transfer.encode(out);
        end_frame(out, start);
        session.window.sent_transfer();
    }

    fn begin_delivery(
        &mut self,
        on: &mut OnLink<'_, Consumer>,
        taken: Taken,
        reader: BodyReader,
        now: Now,
    ) -> Result<bool, Failure> {
        let (payload, body) = match read_start(reader, &taken, self.client.broker.settings.sent_time, now)
            .map_err(|reason| unreadable(on.link.queue(), &reason))?
        {
            Begun::Yes(payload, body) => (payload, body),
            Begun::No(reader) => {
                on.session.pending.push_front(Pending::Large { handle: on.handle, taken, reader });
                return Ok(false);
            }
        };
        let size = payload.len() as u64 + body.as_ref().map_or(0, Pieces::left);
        if let Some(most) = on.link.refuses_size(size) {
            // The message is returned untouched when the link ends.
            on.session.pending.push_front(Pending::Run { handle: on.handle, taken });
            return Err(Failure::link(
                condition::MESSAGE_SIZE_EXCEEDED,
                format!("message size ({size} bytes) > maximum message size ({most} bytes)"),
            ));
        }
        let tag = on.link.next_tag();
        on.link.use_tag();
        let delivery_id = on.session.use_delivery_id();
        if !on.link.is_settled() {
            let bytes = taken.batch.body_length(taken.index as usize);
            on.session.unsettled.add(
                Sent { id: delivery_id, handle: on.handle, number: taken.first, bytes, durable: taken.durable },
                now.monotonic,
            );
            let place = (on.session.channel(), self.client.broker.consumer_timeout_ms());
            on.link.sent(1, &mut on.session.unsettled, place, now.monotonic, &mut self.client.looks);
            on.session.unsettled.report(&mut self.client.account);
        }
        let body = body.map(|pieces| (pieces, on.link.queue().clone()));
        let rest = Rest { handle: on.handle, delivery_id, tag, settled: on.link.is_settled(), payload, sent: 0, body };
        on.session.pending.push_front(Pending::Rest(rest));
        Ok(true)
    }
}

/// Reads the part before the body, once the data that it depends on is there.
///
/// # Errors
/// The reason why it can't be read.
fn read_start(reader: BodyReader, taken: &Taken, sent_time: bool, now: Now) -> Result<Begun, String> {
    let message = taken.batch.message(taken.index as usize);
    let (stored, length) = (message.view(), message.file.map_or(0, |file| file.length));
    let context = Delivery {
        redelivered: taken.redelivered,
        delivery_count: taken.attempts.failed,
        acquired_count: taken.attempts.acquired,
        now_ms: now.wall_ms,
        sent_time,
        // No body in a file comes from a stream.
        stream_offset: None,
    };
    let mut payload = Vec::new();
    match reader {
        BodyReader::Pieces(mut pieces) => {
            pieces.look();
            if let Some(reason) = pieces.failure() {
                return Err(reason.to_owned());
            }
            let Some(start) = pieces.start() else { return Ok(Begun::No(BodyReader::Pieces(pieces))) };
            if file_to_amqp10(&stored, &context, length, start, &mut payload) {
                return Ok(Begun::Yes(payload, Some(pieces)));
            }
            Ok(Begun::No(BodyReader::Whole(pieces.whole())))
        }
        BodyReader::Whole(mut whole) => {
            let Some(body) = whole.look() else { return Ok(Begun::No(BodyReader::Whole(whole))) };
            let stored = StoredMessage { body: body?, ..stored };
            to_amqp10(&stored, &context, &mut payload);
            Ok(Begun::Yes(payload, None))
        }
    }
}
