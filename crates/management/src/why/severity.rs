//! How much a reason matters, and its short name.

use crate::error::Error;
use crate::query::{Query, given};

/// How much a reason matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Messages are lost or refused, or nothing goes on.
    Bad,
    /// An operator should look at it.
    Warn,
    /// Ordinary: it concerns nobody as long as it doesn't last.
    Note,
}

impl Severity {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Bad => "bad",
            Severity::Warn => "warn",
            Severity::Note => "note",
        }
    }

    /// The severity of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Severity::Bad, Severity::Warn, Severity::Note].into_iter().find(|severity| severity.name() == name)
    }

    /// The severity that a query asks for.
    ///
    /// # Errors
    /// There is no such severity.
    pub(crate) fn asked(query: &Query) -> Result<Option<Self>, Error> {
        let unknown = |name| Error::BadRequest(format!("severity '{name}' is none of bad, warn and note"));
        given(query, "severity").map(|name| Self::parse(name).ok_or_else(|| unknown(name))).transpose()
    }

    /// The severity of a reason that has lasted for this time.
    pub(crate) fn of(code: &str, seconds: Option<f64>) -> Self {
        let is_bad = matches!(
            code,
            "failed"
                | "alarm"
                | "disk_full"
                | "full"
                | "dropping"
                | "redelivery_loop"
                | "dead_letter_loop"
                | "unroutable"
        );
        let is_calm = matches!(
            code,
            "empty" | "inactive" | "turn" | "pacing" | "replaced" | "waits_to_retry" | "delayed" | "returned"
        );
        let is_brief = matches!(
            code,
            "sync"
                | "disk"
                | "body_file"
                | "log_full"
                | "link"
                | "consumers_busy"
                | "credit"
                | "room"
                | "window"
                | "unacknowledged"
                | "no_consumers"
        );
        match code {
            _ if is_bad => Severity::Bad,
            _ if is_calm || is_brief && seconds.is_some_and(|seconds| seconds < 1.0) => Severity::Note,
            _ => Severity::Warn,
        }
    }
}

/// The short name of a reason, for tables.
pub(crate) fn short(code: &str) -> String {
    let short = match code {
        "link_credit" => "no link credit",
        "window" => "window shut",
        "room" => "client does not read",
        "disk" => "reads from disk",
        "inactive" => "stands by",
        "replaced" => "gives way",
        "dropping" => "drops messages",
        "expiring" => "messages expire unread",
        "sync" => "slow disk syncs",
        "body_file" => "large messages",
        "pacing" => "paced",
        "failed" => "stopped",
        "waits_to_retry" => "waits to retry",
        "dead_letter_loop" => "dead-letter loop",
        "dead_letters_lost" => "dead letters lost",
        "dead_letters_wait" => "dead letters wait",
        "unroutable" => "reaches no queue",
        "returned" => "returned to publishers",
        other => return other.replace('_', " "),
    };
    short.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_waits_matter_if_they_last() {
        assert_eq!(Severity::of("no_consumers", Some(0.2)), Severity::Note);
        assert_eq!(Severity::of("no_consumers", Some(2.0)), Severity::Warn);
        assert_eq!(Severity::of("full", Some(0.2)), Severity::Bad);
        assert_eq!(Severity::of("waits_to_retry", Some(3600.0)), Severity::Note);
        assert!(Severity::Bad < Severity::Warn && Severity::Warn < Severity::Note);
        assert_eq!(Severity::parse("warn"), Some(Severity::Warn));
    }
}
