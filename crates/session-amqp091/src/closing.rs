//! The end of a channel or connection, from either side (specification 1.1.3).

use leveret_amqp091::method::{channel, connection};
use leveret_amqp091::{Method, ReplyCode, ShortStr, encode_method};

use super::channel::Channel;
use super::error::ProtocolError;
use super::held::{Answer, InputHold};
use super::session::{Phase, Session};
use leveret_broker::time::{Nanos, Now, SECOND};

/// How long a client may take to answer our `connection.close`.
const CLOSE_TIMEOUT: Nanos = 5 * SECOND;

impl Session {
    /// Closes the channel or the connection, depending on the error (specification 1.1.3).
    pub(crate) fn fail(&mut self, number: u16, error: ProtocolError, now: Now) {
        self.flush_run(now);
        self.flush_acks(now);
        let text = error.reply_text();
        let (class_id, method_id) = error.method;
        let hard =
            (error.code.is_hard() && !error.ends_channel_only) || number == 0 || !self.channels.contains_key(&number);
        if !hard {
            self.told().channel_failed(number, &self.cause("channel", &error));
            self.confirm_durable(now);
            self.withhold_answer(number, now);
            self.begin_end_of_channel(number, None, now);
            self.channels.insert(number, Box::new(Channel::closing()));
            let close = channel::Close {
                reply_code: error.code.code(),
                reply_text: ShortStr::truncated(&text),
                class_id,
                method_id,
            };
            encode_method(self.out(number), number, &Method::ChannelClose(close));
            return;
        }
        if !self.is_closing() {
            // The reason of a refused login was logged where it was found, and is more than the client is told.
            if self.client.is_logged_in() || error.code != ReplyCode::AccessRefused {
                self.told().failed(self.state(), &self.cause("connection", &error));
            }
            self.send_close(error.code, &text, (class_id, method_id), now);
        }
    }

    /// Closes the connection on behalf of the broker.
    pub(crate) fn close_with(&mut self, code: ReplyCode, text: &str, now: Now) {
        if !self.is_closing() {
            self.told().failed(self.state(), text);
            self.send_close(code, text, (0, 0), now);
        }
    }

    fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::Finished)
    }

    fn send_close(&mut self, code: ReplyCode, text: &str, method: (u16, u16), now: Now) {
        self.begin_end(None, now);
        let close = connection::Close {
            reply_code: code.code(),
            reply_text: ShortStr::truncated(text),
            class_id: method.0,
            method_id: method.1,
        };
        encode_method(self.client.output.buffer(), 0, &Method::ConnectionClose(close));
        self.phase = Phase::Closing;
        self.end_hold();
        self.client.silence.expect_by(Some(now.monotonic + CLOSE_TIMEOUT));
    }

    /// Drops the pending answer on a channel that the broker closes: earlier requests of the client aren't answered any
    /// more. Input is still only unblocked when the change that it waits for is durable.
    pub(crate) fn withhold_answer(&mut self, number: u16, now: Now) {
        self.abandon_question(number, now);
        if let InputHold::Durable { answer, .. } = &mut self.held
            && answer.channel() == Some(number)
        {
            *answer = Answer::Nothing;
        }
    }
}
