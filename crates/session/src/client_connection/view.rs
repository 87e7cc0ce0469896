//! A connection's answer to an inquiry.

use std::sync::Arc;

use leveret_broker::views::ConnectionView;
use leveret_broker::{ConnectionStatus, Now};
use leveret_model::Arguments;

use super::ClientConnection;

impl ClientConnection {
    /// The connection as listings show it, without the protocol's own parts: limits, properties, channels or sessions.
    /// `is_blocked` says whether an alarm blocks its publishes.
    pub fn view(&self, is_blocked: bool, now: Now) -> ConnectionView {
        ConnectionView {
            client: Arc::new(self.shown()),
            peer: self.peer.clone(),
            protocol: self.protocol,
            mechanism: self.mechanism.clone(),
            status: ConnectionStatus::new(self.outbox.wait(), is_blocked),
            paced_by: self.pace.shown_by(),
            connected: self.connected,
            channel_max: self.channel_max,
            frame_max: 0,
            timeout_s: 0,
            client_properties: Arguments::default(),
            container_id: None,
            totals: self.counters.totals(),
            octet_rates: self.counters.octet_rates(now.monotonic),
            queued_bytes: self.output.len(),
            pending_frames: 0,
            channels: Vec::new(),
            sessions: Vec::new(),
            publishers: Vec::new(),
            subscriptions: Vec::new(),
        }
    }
}
