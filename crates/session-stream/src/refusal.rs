//! Refusals, as the codes of the protocol.

use leveret_model::{Refused, RefusedKind};
use leveret_stream_protocol::ResponseCode;

/// The code for what the model refuses. The protocol has no text for the reason: it is logged.
pub(crate) fn code_of(refused: &Refused) -> ResponseCode {
    match refused.kind {
        RefusedKind::NotFound => ResponseCode::StreamDoesNotExist,
        RefusedKind::AlreadyExists => ResponseCode::StreamAlreadyExists,
        RefusedKind::AccessRefused | RefusedKind::Unanswered => ResponseCode::AccessRefused,
        _ => ResponseCode::PreconditionFailed,
    }
}

/// The answer to a refused login, or to a vhost that may not be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusedLogin {
    /// To `SaslAuthenticate`.
    Secret { correlation: u32, code: ResponseCode },
    /// To `Open`.
    Vhost { correlation: u32 },
}
