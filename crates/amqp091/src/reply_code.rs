//! Reply codes (specification 1.2, RabbitMQ's set).

macro_rules! reply_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal $text:literal $hard:literal,)*) => {
        /// A reply code of `connection.close`, `channel.close` or `basic.return`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ReplyCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ReplyCode {
            /// All codes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> u16 {
                self as u16
            }

            /// RabbitMQ's name of the code. Every reply text begins with it.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Whether the code closes the connection. Other codes close the channel or nothing.
            #[must_use]
            pub const fn is_hard(self) -> bool {
                match self {
                    $(Self::$name => $hard,)*
                }
            }

            /// The code with this number, if there is one.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

reply_codes! {
    /// Normal close.
    Success = 200 "REPLY_SUCCESS" false,
    /// The content is larger than the server accepts.
    ContentTooLarge = 311 "CONTENT_TOO_LARGE" false,
    /// A mandatory message matched no queue.
    NoRoute = 312 "NO_ROUTE" false,
    /// An immediate message found no consumer.
    NoConsumers = 313 "NO_CONSUMERS" false,
    /// An operator closed the connection.
    ConnectionForced = 320 "CONNECTION_FORCED" true,
    /// The virtual host doesn't exist.
    InvalidPath = 402 "INVALID_PATH" true,
    /// The user may not do this.
    AccessRefused = 403 "ACCESS_REFUSED" false,
    /// The queue or exchange doesn't exist.
    NotFound = 404 "NOT_FOUND" false,
    /// Another connection has exclusive access.
    ResourceLocked = 405 "RESOURCE_LOCKED" false,
    /// A precondition failed, such as an inequivalent declaration.
    PreconditionFailed = 406 "PRECONDITION_FAILED" false,
    /// A frame is malformed.
    FrameError = 501 "FRAME_ERROR" true,
    /// A field has an illegal value.
    SyntaxError = 502 "SYNTAX_ERROR" true,
    /// The command isn't valid at this point.
    CommandInvalid = 503 "COMMAND_INVALID" true,
    /// The channel isn't open, or is open already.
    ChannelError = 504 "CHANNEL_ERROR" true,
    /// A frame of another kind was expected.
    UnexpectedFrame = 505 "UNEXPECTED_FRAME" true,
    /// The server is out of a resource.
    ResourceError = 506 "RESOURCE_ERROR" true,
    /// The server's rules don't allow the request.
    NotAllowed = 530 "NOT_ALLOWED" true,
    /// Not implemented by the server.
    NotImplemented = 540 "NOT_IMPLEMENTED" true,
    /// The server failed.
    InternalError = 541 "INTERNAL_ERROR" true,
}

#[cfg(test)]
mod tests {
    use super::ReplyCode;

    #[test]
    fn numbers_round_trip_and_classes_match_the_specification() {
        assert_eq!(ReplyCode::ALL.len(), 19);
        for code in ReplyCode::ALL {
            assert_eq!(ReplyCode::from_code(code.code()), Some(*code));
        }
        assert_eq!(ReplyCode::from_code(999), None);
        let soft: Vec<u16> = ReplyCode::ALL.iter().filter(|code| !code.is_hard()).map(|code| code.code()).collect();
        assert_eq!(soft, [200, 311, 312, 313, 403, 404, 405, 406]);
        assert_eq!(ReplyCode::NotFound.text(), "NOT_FOUND");
    }
}
