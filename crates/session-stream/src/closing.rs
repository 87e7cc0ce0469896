//! The end of a connection, from either side.

use leveret_stream_protocol::{ResponseCode, answers, key};

use super::input_hold::InputHold;
use super::questions::AskedCommand;
use super::refusal::RefusedLogin;
use super::session::{Session, StreamPhase};
use leveret_broker::time::{Nanos, Now, SECOND};

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

    /// Closes the connection because of what the client sent, which it is told in RabbitMQ's words if the connection is open.
    pub(crate) fn close_for(&mut self, code: ResponseCode, why: &str, now: Now) {
        if matches!(self.phase, StreamPhase::Closing | StreamPhase::Finished) {
            return;
        }
        let reason = match code {
            ResponseCode::FrameTooLarge => "frame too large",
            _ => "unknown frame",
        };
        self.told().failed(self.state(), &format!("{reason}: {why}"));
        self.refused.count(code);
        let was_open = self.phase == StreamPhase::Open;
        self.begin_end(now);
        if was_open {
            answers::close(self.client.output.buffer(), CLOSE_CORRELATION, code, reason);
            self.phase = StreamPhase::Closing;
            self.client.silence.expect_by(Some(now.monotonic + CLOSE_TIMEOUT));
        } else {
            self.phase = StreamPhase::Finished;
        }
    }

    /// Ends the connection for a reason of this side. No `Close` says so: the Java client takes one for the wish that it stay away, and
    /// comes back only to a node that it has lost.
    pub(crate) fn cut(&mut self, reason: &str, now: Now) {
        self.told().cut(reason, now);
        self.begin_end(now);
        self.phase = StreamPhase::Finished;
    }

    /// Refuses a login or a vhost: the answer comes late, so that passwords can't be tried in quick succession.
    pub(crate) fn refuse_later(&mut self, refusal: RefusedLogin, why: &str, now: Now) {
        self.told().failed(self.state(), why);
        self.begin_end(now);
        self.client.delay_refusal(now);
        self.phase = StreamPhase::Refused(refusal);
    }

    /// Answers a refused login or vhost, and ends the connection.
    pub(crate) fn end_refused(&mut self, refusal: RefusedLogin) {
        let out = self.client.output.buffer();
        match refusal {
            RefusedLogin::Secret { correlation, code } => answers::sasl_authenticated(out, correlation, code, None),
            RefusedLogin::Vhost { correlation } => {
                answers::opened(out, correlation, ResponseCode::VhostAccessFailure, &[]);
            }
        }
        self.phase = StreamPhase::Finished;
    }

    /// Ends publishers and subscriptions, at most 512: that needs no parts.
    pub(crate) fn begin_end(&mut self, now: Now) {
        self.flush_run(now);
        if let InputHold::Asked(asked) = self.end_hold() {
            self.abandon(*asked, now);
        }
        let publishers: Vec<u8> = self.publishers.keys().copied().collect();
        for id in publishers {
            self.forget_publisher(id);
        }
        let subscriptions: Vec<u8> = self.subscriptions.keys().copied().collect();
        for id in subscriptions {
            if let Some(subscription) = self.forget_subscription(id) {
                let _left = subscription.queue().cancel(subscription.id(), now.monotonic);
            }
        }
        self.client.left();
    }

    /// Ends the wait of a connection that ends.
    pub(crate) fn abandon(&mut self, asked: AskedCommand, now: Now) {
        if let AskedCommand::Subscribe { subscribing, .. } = asked {
            // It comes behind the call that adds the consumer.
            let _left = subscribing.queue.cancel(subscribing.consumer, now.monotonic);
            self.not_subscribed();
        }
        // A change is made and published all the same.
    }
}
