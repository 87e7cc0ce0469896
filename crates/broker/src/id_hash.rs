//! The hash of an id by which messages are compared.

/// FNV-1a with 128 bits. Its values are stored, so they stay the same for good.
pub(crate) fn hash(kind: u8, bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    [kind].iter().chain(bytes).fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}
