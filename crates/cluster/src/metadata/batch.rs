//! The commands in an entry of placement 0.
//!
//! Version 1 (1), the index of the entry on whose state they were decided (8), their number (4), then of each: the member that asked (2), the
//! number of its start (8), the number of its request there (8), and with their lengths (4) before them the actor's name, the answer as JSON
//! and the record, empty if there is none. All integers are little endian.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use leveret_broker::registry::PlacedAnswer;
use leveret_model::MemberNumber;

use crate::frame::FrameReader;

const VERSION: u8 = 1;

/// The place of a request among all: no two have the same, and no request has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) struct Origin {
    /// The member that asks.
    pub member: MemberNumber,
    /// The number of its start.
    pub boot: u64,
    /// The number of the request in that start.
    pub number: u64,
}

/// A request that was decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DecidedRequest {
    pub origin: Origin,
    pub actor: Arc<str>,
    pub answer: PlacedAnswer,
    pub record: Option<Bytes>,
}

/// The requests of an entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Batch {
    /// Index of the last entry in the state on which they were decided.
    pub base: u64,
    pub requests: Vec<DecidedRequest>,
}

impl Batch {
    pub(super) fn encode(&self) -> Bytes {
        let mut to = BytesMut::new();
        to.put_u8(VERSION);
        to.put_u64_le(self.base);
        to.put_u32_le(self.requests.len() as u32);
        for DecidedRequest { origin, actor, answer, record } in &self.requests {
            to.put_u16_le(origin.member.0);
            to.put_u64_le(origin.boot);
            to.put_u64_le(origin.number);
            let answer = serde_json::to_vec(answer).expect("an answer has a JSON form");
            for part in [actor.as_bytes(), &answer, record.as_deref().unwrap_or_default()] {
                to.put_u32_le(part.len() as u32);
                to.put_slice(part);
            }
        }
        to.freeze()
    }

    /// The batch in these bytes; `None` if they aren't one of this version.
    pub(super) fn decode(bytes: &Bytes) -> Option<Batch> {
        let mut from = FrameReader(bytes.clone());
        if from.take(1)?[0] != VERSION {
            return None;
        }
        let base = from.u64()?;
        let count = from.u32()?;
        let mut requests = Vec::new();
        for _ in 0..count {
            let member = MemberNumber(u16::from_le_bytes(from.take(2)?.as_ref().try_into().ok()?));
            let origin = Origin { member, boot: from.u64()?, number: from.u64()? };
            let actor = from.bytes()?;
            let answer = serde_json::from_slice(&from.bytes()?).ok()?;
            let record = Some(from.bytes()?).filter(|record| !record.is_empty());
            let actor = std::str::from_utf8(&actor).ok()?.into();
            requests.push(DecidedRequest { origin, actor, answer, record });
        }
        from.end(Batch { base, requests })
    }
}

#[cfg(test)]
mod tests {
    use leveret_model::{CommandOutcome, Refused, RefusedKind};

    use super::*;

    #[test]
    fn a_batch_is_found_again_and_cut_ones_are_refused() {
        let origin = |number| Origin { member: MemberNumber(3), boot: 7, number };
        let done =
            PlacedAnswer::Done { outcomes: vec![CommandOutcome::Created, CommandOutcome::Exists], mismatch: None };
        let refused = PlacedAnswer::Refused(1, Refused::new(RefusedKind::NotFound, "no queue 'ä'"));
        let requests = vec![
            DecidedRequest {
                origin: origin(1),
                actor: "guest".into(),
                answer: done,
                record: Some(Bytes::from("\u{1}[]")),
            },
            DecidedRequest { origin: origin(2), actor: "".into(), answer: refused, record: None },
        ];
        let batch = Batch { base: 41, requests };
        let bytes = batch.encode();
        assert_eq!(Batch::decode(&bytes), Some(batch));
        for length in 0..bytes.len() {
            assert_eq!(Batch::decode(&bytes.slice(..length)), None, "{length}");
        }
        assert_eq!(Batch::decode(&[&bytes[..], &[0]].concat().into()), None);
    }
}
