//! Large bodies on their way to the client: read from their files in pieces, as the socket takes them.
//!
//! A content's frames follow each other on their channel (specification 4.2.6); only frames of other channels may be
//! sent between them. Further frames of its own channel wait behind it.

use leveret_amqp091::method::basic;
use leveret_amqp091::{
    FrameKind, Method, ReplyCode, decode_frame, encode_body_with, encode_content_body, encode_deliver, encode_header,
    encode_method,
};
use leveret_message::StoredMessage;
use leveret_message::deliver::{file_to_amqp091, to_amqp091, within};
use leveret_queue::{Flow, Taken};

use super::contents::{Content, Lead};
use super::encode::{CLASS_BASIC, delivery_of, short};
use super::error::ProtocolError;
use super::held::InputHold;
use super::session::Session;
use leveret_broker::bodies::{BodyReader, Pieces};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;

/// Header and end of a frame (4.2.3).
const FRAME_OVERHEAD: usize = 8;
/// A frame is never shorter than this, however little room there is.
const PAYLOAD_MIN: usize = 4096;

/// The reason why a content can't be sent.
enum Failure {
    /// Its body can't be read.
    Body(String),
    /// Its properties of this many bytes don't fit into the client's frames.
    Header(usize),
}

impl Session {
    /// Begins to send a message whose body is in a file: the only one of `taken`.
    pub(crate) fn begin_content(&mut self, channel: u16, lead: Lead, tag: u64, taken: Taken, queue: &QueueRef) {
        self.contents.begin(channel, (lead, tag, taken), queue);
    }

    /// Sends the parts of contents that have been read, until the output holds `most` bytes.
    pub(crate) fn send_contents(&mut self, most: usize, now: Now) {
        while self.client.output.len() < most
            && let Some(mut content) = self.contents.take_first()
        {
            match self.send_content(&mut content, most, now) {
                Ok(true) => self.end_content(content, now),
                Ok(false) => {
                    self.contents.put_first(content);
                    return;
                }
                Err(reason) => self.content_failed(content, reason, now),
            }
        }
    }

    /// Sends the part of a content that has been read; true if all of it was sent.
    ///
    /// # Errors
    /// The reason why its body can't be read.
    fn send_content(&mut self, content: &mut Content, most: usize, now: Now) -> Result<bool, Failure> {
        if let Some(lead) = content.take_lead() {
            let begun = self.begin(content, &lead, now);
            if !matches!(begun, Ok(true)) {
                content.put_lead_back(lead);
                return begun;
            }
        }
        let channel = content.channel();
        let Some(pieces) = content.pieces() else { return Ok(true) };
        loop {
            pieces.look();
            if let Some(reason) = pieces.failure() {
                return Err(Failure::Body(reason.to_owned()));
            }
            if pieces.left() == 0 {
                return Ok(true);
            }
            let (available, used) = (pieces.available(), self.client.output.len());
            if available == 0 || used >= most {
                return Ok(false);
            }
            let room = (most - used).max(PAYLOAD_MIN).min(self.negotiated.frame_max() as usize - FRAME_OVERHEAD);
            let count = available.min(room);
            encode_body_with(self.client.output.buffer(), channel, |out| pieces.append(count, out));
        }
    }

    /// Sends the method and the header, if the data that they depend on has been read.
    fn begin(
        &mut self,
        content: &mut Content,
        (lead, tag, taken): &(Lead, u64, Taken),
        now: Now,
    ) -> Result<bool, Failure> {
        let (channel, properties_max) = (content.channel(), self.negotiated.properties_max());
        let delivery = delivery_of(taken, &self.client.broker.settings, now);
        let message = taken.batch.message(taken.index as usize);
        let stored = message.view();
        let Some(file) = message.file else { return Ok(true) };
        let reader = content.reader(|queue| {
            BodyReader::Pieces(Pieces::new(file, &self.client.broker.bodies, queue.body_owner(), &self.client.outbox))
        });
        match reader {
            BodyReader::Pieces(pieces) => {
                pieces.look();
                if let Some(reason) = pieces.failure() {
                    return Err(Failure::Body(reason.to_owned()));
                }
                let Some(start) = pieces.start() else { return Ok(false) };
                match file_to_amqp091(&stored, &delivery, file.length, start) {
                    Some((properties, range)) => {
                        let properties = within(&stored, properties, properties_max).map_err(Failure::Header)?;
                        let out = self.client.output.buffer();
                        encode_lead(out, channel, lead, *tag, taken.redelivered, &stored);
                        encode_header(out, channel, CLASS_BASIC, range.end - range.start, &properties);
                        pieces.skip(range.start);
                    }
                    None => {
                        *reader = BodyReader::Whole(pieces.whole());
                        return Ok(false);
                    }
                }
            }
            BodyReader::Whole(whole) => {
                let Some(body) = whole.look() else { return Ok(false) };
                let body = body.map_err(|reason| Failure::Body(reason.to_owned()))?;
                let stored = StoredMessage { body, ..stored };
                let converted = to_amqp091(&stored, &delivery);
                let properties = within(&stored, converted.properties, properties_max).map_err(Failure::Header)?;
                let out = self.client.output.buffer();
                encode_lead(out, channel, lead, *tag, taken.redelivered, &stored);
                encode_header(out, channel, CLASS_BASIC, converted.body.len() as u64, &properties);
                encode_content_body(out, channel, &converted.body, self.negotiated.frame_max());
            }
        }
        if matches!(lead, Lead::GetOk { .. }) {
            self.held = InputHold::No;
        }
        Ok(true)
    }

    /// Resumes frames and consumers that waited for the content.
    fn end_content(&mut self, content: Content, now: Now) {
        self.client.output.buffer().extend_from_slice(content.behind());
        for key in content.parked() {
            if let Some(consumer) = self.consumers.get(key) {
                consumer.queue().flow(consumer.id(), Flow::Window(true), now.monotonic);
            }
        }
    }

    /// Handles a content that can't be sent because its queue has stopped. If it was begun, it can't be finished, and
    /// the connection has to be closed.
    fn content_failed(&mut self, content: Content, reason: Failure, now: Now) {
        let error = match reason {
            Failure::Header(bytes) => ProtocolError::header_too_large(bytes, self.negotiated.frame_max()),
            Failure::Body(reason) => ProtocolError::new(ReplyCode::NotFound, content.queue().crashed(&reason)),
        };
        let (channel, is_begun) = (content.channel(), content.is_begun());
        if is_begun {
            return self.fail(0, ProtocolError { code: ReplyCode::InternalError, ..error }, now);
        }
        self.requeue_unsent(Some(channel), now);
        // Contents behind it have delivery tags that count a delivery that the client never gets.
        for lost in std::iter::once(content).chain(self.contents.take(channel)) {
            if lost.is_unsent_get() {
                self.held = InputHold::No;
            }
            copy_close(lost.behind(), self.negotiated.frame_max(), self.client.output.buffer());
        }
        // The channel's close may have waited behind the content. A second one would close the channel that the client
        // opens next.
        if !self.channels.get(&channel).is_some_and(|channel| channel.is_closing()) {
            self.fail(channel, error, now);
        }
    }
}

/// Copies those of the frames that close a channel.
fn copy_close(mut frames: &[u8], frame_max: u32, out: &mut Vec<u8>) {
    const CHANNEL_CLOSE: [u8; 4] = [0, 20, 0, 40];
    while let Ok(Some((frame, length))) = decode_frame(frames, frame_max) {
        if frame.kind == FrameKind::Method && frame.payload.starts_with(&CHANNEL_CLOSE) {
            out.extend_from_slice(&frames[..length]);
        }
        frames = &frames[length..];
    }
}

fn encode_lead(
    out: &mut Vec<u8>,
    channel: u16,
    lead: &Lead,
    delivery_tag: u64,
    redelivered: bool,
    message: &StoredMessage<'_>,
) {
    let (exchange, routing_key) = (message.envelope.exchange, message.envelope.routing_key);
    match lead {
        Lead::Deliver { consumer_tag } => {
            encode_deliver(out, channel, consumer_tag, delivery_tag, redelivered, exchange, routing_key);
        }
        Lead::GetOk { left } => {
            let answer = basic::GetOk {
                delivery_tag,
                redelivered,
                exchange: short(exchange),
                routing_key: short(routing_key),
                message_count: u32::try_from(*left).unwrap_or(u32::MAX),
            };
            encode_method(out, channel, &Method::BasicGetOk(answer));
        }
    }
}
