//! Errors of a session, and whether they end a channel or the connection.

use leveret_amqp091::{DecodeError, HEADER_OVERHEAD, Method, ReplyCode};
use leveret_model::Refused;

use leveret_broker::partial::TooManyPartialBytes;
use leveret_broker::quota::LimitReached;

/// An error that ends a channel or the connection (specification 1.1.3, `reply-code`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtocolError {
    pub code: ReplyCode,
    /// The text after the code's name.
    pub text: String,
    /// Class and method that caused it, 0 if none did.
    pub method: (u16, u16),
    /// Only the channel ends, although the code is one that ends connections.
    pub ends_channel_only: bool,
}

impl ProtocolError {
    pub(crate) fn new(code: ReplyCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), method: (0, 0), ends_channel_only: false }
    }

    /// A content header that doesn't fit into the frames that the client negotiated. Only that channel ends.
    pub(crate) fn header_too_large(bytes: usize, frame_max: u32) -> Self {
        let frame = bytes + HEADER_OVERHEAD;
        let text = format!(
            "a content header takes a frame of {frame} bytes, and this connection's frame_max is {frame_max}: the message stays \
             in its queue; connect with a larger frame_max to consume it"
        );
        Self { ends_channel_only: true, ..Self::new(ReplyCode::FrameError, text) }
    }

    pub(crate) fn in_method(mut self, method: &Method<'_>) -> Self {
        self.method = method.id();
        self
    }

    /// RabbitMQ's form: the code's name, a dash, the reason.
    pub(crate) fn reply_text(&self) -> String {
        format!("{} - {}", self.code.text(), self.text)
    }
}

impl From<LimitReached> for ProtocolError {
    fn from(reached: LimitReached) -> Self {
        precondition(reached.to_string())
    }
}

impl From<Refused> for ProtocolError {
    fn from(refused: Refused) -> Self {
        let code = ReplyCode::from_code(refused.kind.code()).unwrap_or(ReplyCode::InternalError);
        Self::new(code, refused.text)
    }
}

impl From<DecodeError> for ProtocolError {
    fn from(error: DecodeError) -> Self {
        Self::new(error.reply_code(), error.to_string())
    }
}

impl From<TooManyPartialBytes> for ProtocolError {
    fn from(error: TooManyPartialBytes) -> Self {
        Self::new(ReplyCode::ResourceError, error.to_string())
    }
}

pub(crate) type Result<T> = core::result::Result<T, ProtocolError>;

pub(crate) fn syntax(text: impl Into<String>) -> ProtocolError {
    ProtocolError::new(ReplyCode::SyntaxError, text)
}

pub(crate) fn not_implemented(text: impl Into<String>) -> ProtocolError {
    ProtocolError::new(ReplyCode::NotImplemented, text)
}

pub(crate) fn no_channel(number: u16) -> ProtocolError {
    ProtocolError::new(ReplyCode::ChannelError, format!("expected 'channel.open' on channel {number}"))
}

pub(crate) fn precondition(text: impl Into<String>) -> ProtocolError {
    ProtocolError::new(ReplyCode::PreconditionFailed, text)
}

pub(crate) fn not_allowed(text: impl Into<String>) -> ProtocolError {
    ProtocolError::new(ReplyCode::NotAllowed, text)
}

/// The error of a frame that waits for a backend's answer. No client sees it, since the frame is taken again.
pub(crate) fn unanswered() -> ProtocolError {
    ProtocolError::new(ReplyCode::AccessRefused, "the backend hasn't answered yet")
}
