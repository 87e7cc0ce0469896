//! Messages whose publisher names itself and counts them up, for queues that drop what is sent again (`x-publisher-deduplication`).

use leveret_message::ComparedBy;
use leveret_message::headers::{Header, Headers};
use thiserror::Error;

use crate::id_hash::hash;

/// The header with the publisher's name.
const PUBLISHER: &str = "x-publisher-id";
/// The header with the message's number.
const SEQUENCE: &str = "x-publisher-sequence";
/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Headers that are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum WrongNumber {
    #[error("header '{PUBLISHER}' must be a string of 1 to {NAME_BYTES_MAX} bytes")]
    Publisher,
    #[error("header '{SEQUENCE}' must be an integer from 0 to {}", u64::MAX)]
    Sequence,
    #[error("a message with '{PUBLISHER}' needs '{SEQUENCE}', too")]
    NoSequence,
    #[error("a message with '{SEQUENCE}' needs '{PUBLISHER}', too")]
    NoPublisher,
}

/// The publisher and number of a message with these headers; `None` if it has neither.
pub(crate) fn numbered(headers: &Headers<'_>) -> Result<Option<ComparedBy>, WrongNumber> {
    of(headers.lookup(PUBLISHER), headers.lookup(SEQUENCE))
}

fn of(publisher: Option<Header<'_>>, sequence: Option<Header<'_>>) -> Result<Option<ComparedBy>, WrongNumber> {
    let name = match publisher {
        None => None,
        Some(Header::Bytes(name)) if (1..=NAME_BYTES_MAX).contains(&name.len()) => Some(name),
        Some(_) => return Err(WrongNumber::Publisher),
    };
    let sequence = match sequence {
        None => None,
        Some(Header::Integer(number)) => Some(u64::try_from(number).map_err(|_| WrongNumber::Sequence)?),
        Some(_) => return Err(WrongNumber::Sequence),
    };
    match (name, sequence) {
        (None, None) => Ok(None),
        (Some(name), Some(sequence)) => Ok(Some(ComparedBy { id: hash(0, name), sequence: Some(sequence) })),
        (Some(_), None) => Err(WrongNumber::NoSequence),
        (None, Some(_)) => Err(WrongNumber::NoPublisher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_message_has_a_name_and_a_number() {
        let (web, seven) = (Some(Header::Bytes(b"web")), Some(Header::Integer(7)));
        assert_eq!(of(None, None), Ok(None));
        let found = of(web, seven).expect("it is right").expect("it is numbered");
        assert_eq!(found.sequence, Some(7));
        assert_ne!(Ok(Some(found)), of(Some(Header::Bytes(b"till")), seven));
        assert_eq!((of(web, None), of(None, seven)), (Err(WrongNumber::NoSequence), Err(WrongNumber::NoPublisher)));
        for wrong in [Header::Bytes(b""), Header::Bytes(&[b'n'; 256]), Header::Integer(1), Header::Void] {
            assert_eq!(of(Some(wrong), seven), Err(WrongNumber::Publisher));
        }
        for wrong in [Header::Integer(-1), Header::Integer(1 << 64), Header::Bytes(b"1"), Header::Bool(true)] {
            assert_eq!(of(web, Some(wrong)), Err(WrongNumber::Sequence));
        }
    }
}
