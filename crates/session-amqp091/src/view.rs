//! The connection's answers to inquiries.

use leveret_model::Arguments;

use super::channel::Channel;
use super::session::Session;
use leveret_broker::inquiry::Inquiry;
use leveret_broker::time::{Now, SECOND};
use leveret_broker::views::{ChannelView, ConnectionView};

impl Session {
    /// The connection as listings show it.
    pub(crate) fn describe_connection(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        let mut channels: Vec<ChannelView> = self
            .channels
            .iter()
            .filter(|(_, channel)| !channel.is_closing())
            .map(|(number, channel)| self.describe_channel(*number, channel))
            .collect();
        channels.sort_unstable_by_key(|channel| channel.number);
        let properties = || {
            let encoded = self.negotiated.properties().encoded();
            super::arguments::arguments(encoded.as_table()).unwrap_or_default()
        };
        ConnectionView {
            frame_max: self.negotiated.frame_max(),
            timeout_s: self.heartbeat_s(),
            client_properties: if inquiry.is_brief() { Arguments::default() } else { properties() },
            pending_frames: self.replies.len(),
            channels,
            ..self.client.view(self.alarm.is_raised(), now)
        }
    }

    /// The negotiated interval of heartbeats in seconds; 0 is off.
    pub(super) fn heartbeat_s(&self) -> u64 {
        // Two missed ones end the connection (specification 4.2.7).
        self.client.silence.input_every() / (2 * SECOND)
    }

    fn describe_channel(&self, number: u16, channel: &Channel) -> ChannelView {
        let (messages, acks) = channel.tx().map_or((0, 0), |tx| tx.counts());
        ChannelView {
            number,
            prefetch: channel.prefetch(),
            shared_prefetch: channel.unsettled().shared().map_or(0, |shared| shared.limit()),
            confirms: channel.confirms().is_some(),
            transactional: channel.tx().is_some(),
            consumers: channel.consumers() + usize::from(channel.reply().is_some()),
            unacknowledged: channel.unsettled().unacknowledged(),
            unconfirmed: channel.confirms().map_or(0, leveret_session::confirms::Confirms::unanswered),
            uncommitted: messages,
            acks_uncommitted: acks,
            stats: channel.stats().clone(),
        }
    }
}
