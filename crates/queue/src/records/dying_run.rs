//! Consecutive messages of a queue that died for the same reason.

use leveret_message::Reason;

/// Bytes of an encoded run: first and last number, body bytes of all, and the reason.
pub(crate) const RUN_BYTES: usize = 25;

/// Consecutive durable messages that died for the same reason, and that no queue takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DyingRun {
    /// First number, inclusive.
    pub first: u64,
    /// Last number, inclusive.
    pub last: u64,
    /// Sum of the body lengths in bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: Reason,
}

impl DyingRun {
    /// Encodes runs: 8 bytes first number, 8 bytes last number, 8 bytes length of all bodies, 1 byte reason (1 expired, 2
    /// rejected, 3 maxlen, 4 delivery_limit).
    pub fn encode(runs: &[Self]) -> Vec<u8> {
        let mut out = Vec::with_capacity(runs.len() * RUN_BYTES);
        for Self { first, last, bytes, reason } in runs {
            [first, last, bytes].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            out.push(match reason {
                Reason::Expired => 1,
                Reason::Rejected => 2,
                Reason::MaxLen => 3,
                Reason::DeliveryLimit => 4,
            });
        }
        out
    }

    /// Decodes runs. `None` if they aren't whole, or have an unknown reason.
    pub fn decode(bytes: &[u8]) -> Option<Vec<Self>> {
        let (runs, rest) = bytes.as_chunks::<RUN_BYTES>();
        let decode = |run: &[u8; RUN_BYTES]| {
            let number = |at: usize| u64::from_le_bytes(*run[at..].first_chunk().expect("a run is long enough"));
            let reason = match run[RUN_BYTES - 1] {
                1 => Reason::Expired,
                2 => Reason::Rejected,
                3 => Reason::MaxLen,
                4 => Reason::DeliveryLimit,
                _ => return None,
            };
            Some(Self { first: number(0), last: number(8), bytes: number(16), reason })
        };
        if rest.is_empty() { runs.iter().map(decode).collect() } else { None }
    }
}
