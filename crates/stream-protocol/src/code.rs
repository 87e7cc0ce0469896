//! Response codes.

use std::fmt;

macro_rules! response_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// A code in a response, a metadata update or a publish error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ResponseCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl ResponseCode {
            /// All codes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its meaning in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

response_codes! {
    /// Success.
    Ok = 1 "ok",
    /// The stream doesn't exist.
    StreamDoesNotExist = 2 "stream does not exist",
    /// The connection has a subscription with this id.
    SubscriptionIdAlreadyExists = 3 "subscription id already exists",
    /// The connection has no subscription with this id.
    SubscriptionIdDoesNotExist = 4 "subscription id does not exist",
    /// A stream or another queue with this name exists.
    StreamAlreadyExists = 5 "stream already exists",
    /// The stream exists, but can't be used now.
    StreamNotAvailable = 6 "stream not available",
    /// The server doesn't offer the SASL mechanism.
    SaslMechanismNotSupported = 7 "SASL mechanism not supported",
    /// Name or password is wrong.
    AuthenticationFailure = 8 "authentication failure",
    /// The SASL response is malformed.
    SaslError = 9 "SASL error",
    /// The server expects a further SASL response.
    SaslChallenge = 10 "SASL challenge",
    /// The user may log in only from the server's own machine.
    AuthenticationFailureLoopback = 11 "authentication failure, user can only connect via localhost",
    /// The virtual host doesn't exist, or the user may not enter it.
    VhostAccessFailure = 12 "virtual host access failure",
    /// The command is unknown, malformed or not allowed now.
    UnknownFrame = 13 "unknown frame",
    /// The frame is larger than agreed.
    FrameTooLarge = 14 "frame too large",
    /// The server failed.
    InternalError = 15 "internal error",
    /// The user lacks a permission.
    AccessRefused = 16 "access refused",
    /// An argument is wrong, or doesn't fit what exists.
    PreconditionFailed = 17 "precondition failed",
    /// The connection has no publisher with this id.
    PublisherDoesNotExist = 18 "publisher does not exist",
    /// No offset is stored under this reference.
    NoOffset = 19 "no offset",
    /// A second authentication uses another mechanism than the first.
    SaslCannotChangeMechanism = 20 "SASL cannot change mechanism",
    /// A second authentication is for another user than the first.
    SaslCannotChangeUsername = 21 "SASL cannot change username",
}

impl From<ResponseCode> for u16 {
    fn from(code: ResponseCode) -> Self {
        code as Self
    }
}

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::ResponseCode;

    #[test]
    fn numbers_1_to_21_round_trip_and_others_are_no_codes() {
        assert_eq!(ResponseCode::ALL.len(), 21);
        for number in 1..=21 {
            assert_eq!(ResponseCode::from_number(number).map(u16::from), Some(number));
        }
        assert_eq!((ResponseCode::from_number(0), ResponseCode::from_number(22)), (None, None));
        assert_eq!(ResponseCode::StreamDoesNotExist.to_string(), "stream does not exist");
    }
}
