//! Reasons why a benchmark has no result.

use leveret_strict_client::Violation;

/// An error, and its cause.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The arguments can't be used.
    #[error("{0}")]
    Usage(String),
    /// The broker can't be reached or went away.
    #[error("{broker}: {doing}: {source}")]
    Socket {
        /// Address of the broker.
        broker: String,
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The broker broke a rule of the protocol.
    #[error("the run is void: {0}")]
    Violation(#[from] Violation),
    /// The broker closed the connection or channel, or refused something.
    #[error("the run is void: the broker {0}")]
    Refused(String),
    /// The broker was silent for longer than it may be.
    #[error("the run is void: {broker} owed {due} for {seconds} s; --silence-max-s says how long it may")]
    Silent {
        /// Address of the broker.
        broker: String,
        /// The event that was due.
        due: String,
        /// Time waited for it.
        seconds: u64,
    },
    /// The other side of the round failed and stopped this one.
    #[error("stopped")]
    Stopped,
    /// Messages were lost, duplicated, reordered or changed.
    #[error("the run is void: {0}")]
    Void(String),
}
