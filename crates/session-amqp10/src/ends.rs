//! The performatives that end links, sessions and the connection.

use leveret_amqp10::performative::{Close, Detach, End};
use leveret_amqp10::{Error, Performative, encode_performative};

use super::connection::Connection;
use super::error::Failure;
use super::rejection::with_error;
use super::session::Session;
use leveret_broker::time::{Nanos, Now, SECOND};
use leveret_session::gone::GoneAt;

/// How long a client may take to answer our `close`.
const CLOSE_TIMEOUT: Nanos = 5 * SECOND;

impl Connection {
    /// Sends the reason of our close, after which nothing is sent.
    pub(super) fn close_with(&mut self, failure: &Failure, now: Now) {
        self.send_close(Some(failure));
        self.client.silence.expect_by(Some(now.monotonic + CLOSE_TIMEOUT));
    }

    pub(crate) fn send_close(&mut self, failure: Option<&Failure>) {
        self.send_end_of(0, failure, |error| Performative::Close(Close { error }));
    }

    pub(crate) fn send_end(&mut self, channel: u16, failure: Option<&Failure>) {
        self.send_end_of(channel, failure, |error| Performative::End(End { error }));
    }

    pub(super) fn send_detach(&mut self, channel: u16, handle: u32, closed: bool, failure: Option<&Failure>) {
        self.send_end_of(channel, failure, |error| Performative::Detach(Detach { handle, closed, error }));
    }

    fn send_end_of(
        &mut self,
        channel: u16,
        failure: Option<&Failure>,
        performative: impl for<'e> Fn(Option<Error<'e>>) -> Performative<'e>,
    ) {
        match failure {
            None => encode_performative(self.client.output.buffer(), channel, &performative(None)),
            Some(failure) => {
                with_error(failure, |error| self.send_error(channel, error, |error| performative(Some(error))));
            }
        }
    }

    /// Ends a session at once that may not begin. Further frames for it are ignored until the client ends it, too.
    pub(crate) fn refuse_session(&mut self, session: &mut Session, failure: &Failure) {
        let what = format_args!("refusing session {}", session.channel());
        self.told().refused(what, failure.condition.as_str(), &failure.description);
        session.end();
        // It owns nothing, and never counted as a session.
        session.set_left();
        self.send_end(session.channel(), Some(failure));
    }

    /// Whether the answer to the frame at the head of the input has to wait until these queues are gone. The frame is
    /// handled again then.
    pub(crate) fn waits_for(&mut self, mut gone_at: GoneAt) -> bool {
        let ticket = gone_at.ticket();
        if ticket.is_some_and(|ticket| self.client.broker.streams.is_durable(ticket)) {
            self.client.broker.registry.publish();
            return false;
        }
        gone_at.notify(&self.client.outbox, 0);
        self.hold(ticket.unwrap_or_default());
        self.going = gone_at;
        true
    }
}
