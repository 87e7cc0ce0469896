//! The control records of a queue's log. Each kind is a row of one table: its number on disk, its content, and how that is
//! encoded and decoded. A kind without one of these doesn't compile, nor does one that no replica applies.

use std::borrow::Cow;

use thiserror::Error;

use crate::records;
use crate::records::{Annotated, AttemptRun, DelayRun, DyingRun, KeptOffset, Run};

/// A control record that this version can't decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ControlError {
    /// No row of the table has this kind.
    #[error("control record of unknown kind {0}; was this directory written by a newer version?")]
    Unknown(u8),
    /// Its content isn't one of its kind.
    #[error(
        "control record of kind {kind} ({what}): its {length} bytes can't be read; was this directory written by a newer version?"
    )]
    Malformed {
        /// The kind.
        kind: u8,
        /// The meaning of the kind.
        what: &'static str,
        /// Number of bytes of its content.
        length: usize,
    },
}

macro_rules! controls {
    ($($(#[$doc:meta])* $kind:literal $name:ident($content:ty): $what:literal, $encode:expr, $decode:expr;)*) => {
        /// A control record of a queue's log, decoded.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Control<'a> {
            $($(#[$doc])* $name(Cow<'a, $content>),)*
        }

        impl Control<'_> {
            /// The numbers of all kinds.
            pub const KINDS: &'static [u8] = &[$($kind),*];

            /// The number of its kind.
            pub fn kind(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $kind,)*
                }
            }

            /// Its content, as the log has it.
            pub fn encode(&self) -> Vec<u8> {
                match self {
                    $(Self::$name(content) => $encode(content),)*
                }
            }

            /// Decodes the content of a record of this kind.
            ///
            /// # Errors
            /// [`ControlError`] if the kind isn't known or its content isn't whole.
            pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, ControlError> {
                match kind {
                    $($kind => match $decode(payload) {
                        Some(content) => Ok(Self::$name(Cow::Owned(content))),
                        None => Err(ControlError::Malformed { kind, what: $what, length: payload.len() }),
                    },)*
                    _ => Err(ControlError::Unknown(kind)),
                }
            }
        }
    };
}

controls! {
    /// Messages with lower numbers may have been delivered before a clean stop.
    1 DeliveredBelow(u64): "first number that wasn't delivered", encode_number, decode_number;
    /// How often messages were delivered, and how often that failed.
    2 Attempts([AttemptRun]): "counts of deliveries", AttemptRun::encode, AttemptRun::decode;
    /// Messages were parked.
    3 Parked([Run]): "parked messages", records::encode_runs, records::decode_runs;
    /// Messages wait for a time.
    4 Delayed([DelayRun]): "delayed messages", DelayRun::encode, DelayRun::decode;
    /// Consumers added annotations to messages.
    5 Annotated([Annotated]): "annotations", Annotated::encode_all, Annotated::decode_all;
    /// No queue takes dead letters.
    6 Dying([DyingRun]): "dead letters", DyingRun::encode, DyingRun::decode;
    /// A stream keeps offsets of consumers.
    7 Offsets([KeptOffset]): "offsets of consumers", KeptOffset::encode_all, KeptOffset::decode_all;
    /// A replicated queue hands out messages with lower numbers only.
    10 Mark(u64): "mark of what may be delivered", encode_number, decode_number;
    /// This consumer of a replicated queue is its single active one; 0 if nobody is.
    11 Active(u64): "active consumer", encode_number, decode_number;
}

fn encode_number(number: &u64) -> Vec<u8> {
    number.to_le_bytes().into()
}

fn decode_number(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_le_bytes)
}
