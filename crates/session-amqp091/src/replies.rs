//! Answers of direct reply-to on their way to the requester.

use leveret_message::BatchPart;
use leveret_message::deliver::Delivery;

use super::encode::{Recipient, encode_delivery};
use super::error::ProtocolError;
use super::session::Session;
use leveret_broker::settings::TURN_BYTES_MAX;
use leveret_broker::time::Now;

impl Session {
    /// Encodes answers that have come, until the output holds one write's worth.
    pub(crate) fn deliver_replies(&mut self, now: Now) {
        let (frame_max, properties_max) = (self.negotiated.frame_max(), self.negotiated.properties_max());
        while self.client.output.len() < TURN_BYTES_MAX
            && self.contents.behind_bytes() < TURN_BYTES_MAX
            && let Some(reply) = self.replies.pop()
        {
            reply.done();
            let owner = |channel: &super::channel::Channel| {
                channel.reply().is_some_and(|own| own.target().is_target_of(&reply))
            };
            let key = reply.key;
            let Some(number) = self.replies.channel(key) else { continue };
            // The channel or its consumer is gone, and its answers are dropped.
            let Some(channel) = self.channels.get_mut(&number).filter(|channel| owner(channel)) else { continue };
            let Some(consumer) = channel.reply() else { continue };
            let tag = consumer.tag.clone();
            let sent_time = self.client.broker.settings.sent_time;
            let delivery = Delivery { now_ms: now.wall_ms, sent_time, ..Delivery::default() };
            let to = Recipient { channel: number, tag: &tag, frame_max, properties_max, delivery };
            let out = self.contents.out(&mut self.client.output, number);
            for at in 0..reply.batch.len() {
                let message = reply.batch.message(at).view();
                if let Err(bytes) = encode_delivery(out, &to, channel.unsettled_mut().next_tag(), &message) {
                    return self.fail(number, ProtocolError::header_too_large(bytes, frame_max), now);
                }
            }
            let count = reply.batch.len() as u32;
            self.client.counters.delivered_replies.add(u64::from(count));
            let name = channel.reply().map(|own| own.target().name().clone());
            self.client.trace_delivered(
                number,
                &name.unwrap_or_default(),
                BatchPart::of(&reply.batch, 0, count),
                &to.delivery,
                now,
            );
        }
    }
}
