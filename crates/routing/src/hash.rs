//! A hash whose values stay the same for good: after a restart, in a later version and on another machine, a message has to
//! be routed to the same queue.

/// Distance of the states of [`mixed`] (SplitMix64).
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// FNV-1a with 64 bits, mixed: alone, its upper bits depend too little on the last bytes.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    mixed(
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)),
    )
}

/// The output of SplitMix64 in this state: each bit depends on all bits of it.
pub(crate) fn mixed(state: u64) -> u64 {
    let mut bits = state.wrapping_add(STEP);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The number below `count` at which evenly distributed bits point.
pub(crate) fn below(count: usize, bits: u64) -> usize {
    ((u128::from(bits) * count as u128) >> 64) as usize
}

/// Evenly distributed bits as a number between 0 and 1, neither of them.
pub(crate) fn between_0_and_1(bits: u64) -> f64 {
    const HALF_STEP: f64 = 1.0 / (1_u64 << 53) as f64;
    (bits >> 12) as f64 * (2.0 * HALF_STEP) + HALF_STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of these values moves messages of existing programs to other queues.
    #[test]
    fn hashes_stay_the_same_for_good() {
        // FNV-1a of "a" by its specification, before it is mixed.
        assert_eq!(of(b"a"), mixed(0xaf63_dc4c_8601_ec8c));
        // The first output of SplitMix64 for the seed 0.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn bits_become_numbers_of_the_whole_range() {
        assert_eq!((below(7, 0), below(7, u64::MAX)), (0, 6));
        assert!(between_0_and_1(0) > 0.0 && between_0_and_1(u64::MAX) < 1.0);
        assert_eq!(between_0_and_1(1 << 63), 0.5 + 1.0 / (1_u64 << 53) as f64);
    }
}
