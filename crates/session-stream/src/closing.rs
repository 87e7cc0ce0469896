//! The end of a connection, from either side.

use leveret_broker::time::{Nanos, Now, SECOND};
use leveret_stream_protocol::{ResponseCode, answers, key};

use super::session::{Session, StreamPhase};

/// How long a client may take to answer our `Close`.
const CLOSE_TIMEOUT: Nanos = 5 * SECOND;
/// The correlation id of our `Close`.
const CLOSE_CORRELATION: u32 = 1;

impl Session {
    /// `Close` by the client.
    pub(crate) fn close_by_client(&mut self, correlation: u32, now: Now) {
        self.begin_end(now);
        self.respond(key::CLOSE, correlation, ResponseCode::Ok);
        self.told().closed(now);
        self.phase = StreamPhase::Finished;
    }

    /// Closes the connection for a reason, which the client is told if it is open.
    pub(crate) fn close_for(&mut self, code: ResponseCode, why: &str, now: Now) {
        if matches!(self.phase, StreamPhase::Closing | StreamPhase::Finished) {
            return;
        }
        self.told().failed(self.state(), why);
        self.refused.count(code);
        let was_open = self.phase == StreamPhase::Open;
        self.begin_end(now);
        if was_open {
            answers::close(self.client.output.buffer(), CLOSE_CORRELATION, code, why);
            self.phase = StreamPhase::Closing;
            self.client.deadline = Some(now.monotonic + CLOSE_TIMEOUT);
        } else {
            self.phase = StreamPhase::Finished;
        }
    }

    /// Ends publishers and subscriptions, at most 512: that needs no parts.
    pub(crate) fn begin_end(&mut self, now: Now) {
        self.flush_run(now);
        self.end_hold();
        let publishers: Vec<u8> = self.publishers.keys().copied().collect();
        for id in publishers {
            self.forget_publisher(id);
        }
        let subscriptions: Vec<u8> = self.subscriptions.keys().copied().collect();
        for id in subscriptions {
            if let Some(subscription) = self.forget_subscription(id) {
                let _left = subscription.queue.cancel(subscription.id, now.monotonic);
            }
        }
        self.client.left();
    }
}
