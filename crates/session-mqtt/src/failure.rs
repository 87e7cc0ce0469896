//! Why a connection has to end, and the reason codes of refusals.

use leveret_model::{Refused, RefusedKind};
use leveret_mqtt::ReasonCode;

/// Longest routing key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 255;

/// Why the connection has to end.
#[derive(Debug)]
pub(crate) struct BrokenRule {
    pub reason: ReasonCode,
    pub text: String,
}

impl BrokenRule {
    pub(crate) fn new(reason: ReasonCode, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }
}

/// The reason code of a refusal.
pub(crate) fn reason_of(refused: &Refused) -> ReasonCode {
    match refused.kind {
        RefusedKind::AccessRefused | RefusedKind::NotAllowed | RefusedKind::Unanswered => ReasonCode::NOT_AUTHORIZED,
        RefusedKind::LimitReached => ReasonCode::QUOTA_EXCEEDED,
        _ => ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
    }
}

/// Whether a refusal means that the client may not do something.
pub(crate) fn is_unauthorized(refused: &Refused) -> bool {
    matches!(refused.kind, RefusedKind::AccessRefused | RefusedKind::NotAllowed)
}

/// The failure of a packet for which a backend has to answer first. The packet is taken again then.
pub(crate) fn refused_as_a_whole(refused: &Refused) -> BrokenRule {
    BrokenRule::new(ReasonCode::NOT_AUTHORIZED, refused.to_string())
}
