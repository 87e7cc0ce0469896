//! Counts of the codes that clients were refused with, of all connections.

use std::sync::atomic::{AtomicU64, Ordering};

use leveret_stream_protocol::ResponseCode;

use leveret_broker::protocol::RefusedCommands;

/// Codes that RabbitMQ counts, in the order of their numbers, with their names in its metrics.
const COUNTED: [(ResponseCode, &str); 17] = [
    (ResponseCode::StreamDoesNotExist, "stream_does_not_exist"),
    (ResponseCode::SubscriptionIdAlreadyExists, "subscription_id_already_exists"),
    (ResponseCode::SubscriptionIdDoesNotExist, "subscription_id_does_not_exist"),
    (ResponseCode::StreamAlreadyExists, "stream_already_exists"),
    (ResponseCode::StreamNotAvailable, "stream_not_available"),
    (ResponseCode::SaslMechanismNotSupported, "sasl_mechanism_not_supported"),
    (ResponseCode::AuthenticationFailure, "authentication_failure"),
    (ResponseCode::SaslError, "sasl_error"),
    (ResponseCode::SaslChallenge, "sasl_challenge"),
    (ResponseCode::AuthenticationFailureLoopback, "sasl_authentication_failure_loopback"),
    (ResponseCode::VhostAccessFailure, "vhost_access_failure"),
    (ResponseCode::UnknownFrame, "unknown_frame"),
    (ResponseCode::FrameTooLarge, "frame_too_large"),
    (ResponseCode::InternalError, "internal_error"),
    (ResponseCode::AccessRefused, "access_refused"),
    (ResponseCode::PreconditionFailed, "precondition_failed"),
    (ResponseCode::PublisherDoesNotExist, "publisher_does_not_exist"),
];

/// Counts of refused commands. Refusals are rare, so cores share them.
#[derive(Debug, Default)]
pub(crate) struct RefusedCounts([AtomicU64; COUNTED.len()]);

impl RefusedCounts {
    /// Counts an answer with this code, if it is one that is counted.
    #[inline]
    pub(crate) fn count(&self, code: ResponseCode) {
        if code != ResponseCode::Ok {
            self.count_refusal(code);
        }
    }

    #[cold]
    fn count_refusal(&self, code: ResponseCode) {
        if let Some(at) = COUNTED.iter().position(|(counted, _)| *counted == code) {
            self.0[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All of them, by name.
    pub(crate) fn shown(&self) -> Vec<RefusedCommands> {
        let of = |((_, name), count): (&(ResponseCode, &'static str), &AtomicU64)| RefusedCommands {
            name,
            count: count.load(Ordering::Relaxed),
        };
        COUNTED.iter().zip(&self.0).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_own_count_and_some_have_none() {
        let counts = RefusedCounts::default();
        ResponseCode::ALL.iter().for_each(|code| counts.count(*code));
        counts.count(ResponseCode::AccessRefused);
        let shown = counts.shown();
        let twice: Vec<_> = shown.iter().filter(|refused| refused.count == 2).map(|refused| refused.name).collect();
        assert_eq!((shown.len(), twice), (17, vec!["access_refused"]));
        assert_eq!(
            shown.iter().map(|refused| refused.count).sum::<u64>(),
            18,
            "no other is counted in another's place"
        );
    }
}
