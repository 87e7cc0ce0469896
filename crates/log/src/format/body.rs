//! The checksums behind the body in a body file: one for each piece, and one of all of them.

use super::u32_at;

/// Bytes that one checksum covers.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Bytes of the table of a body of this length.
#[must_use]
pub(crate) fn table_bytes(length: u64) -> usize {
    (length.div_ceil(PIECE_BYTES as u64) as usize + 1) * 4
}

/// Each piece's checksum begins with its place: pieces that changed places are found.
fn checksum(piece: &[u8], place: usize, seed: u32) -> u32 {
    crc32c::crc32c_append(seed ^ (place as u32).wrapping_mul(0x9e37_79b1), piece)
}

pub(crate) fn encode_table(body: &[u8], seed: u32) -> Vec<u8> {
    let pieces = body.chunks(PIECE_BYTES).enumerate();
    let mut table: Vec<u8> = pieces.flat_map(|(place, piece)| checksum(piece, place, seed).to_le_bytes()).collect();
    let all = crc32c::crc32c_append(seed, &table);
    table.extend_from_slice(&all.to_le_bytes());
    table
}

/// The pieces of a body, one after the other, and whether they are what was written.
pub(crate) struct Pieces<'a> {
    table: &'a [u8],
    seed: u32,
    place: usize,
}

impl<'a> Pieces<'a> {
    /// None if the table isn't whole.
    pub(crate) fn new(table: &'a [u8], seed: u32) -> Option<Pieces<'a>> {
        let at = table.len().checked_sub(4)?;
        let is_whole = u32_at(table, at) == crc32c::crc32c_append(seed, &table[..at]);
        is_whole.then_some(Pieces { table: &table[..at], seed, place: 0 })
    }

    /// Whether this is the next piece.
    pub(crate) fn is_next(&mut self, piece: &[u8]) -> bool {
        let place = self.place;
        self.place += 1;
        let expected = self.table.get(place * 4..place * 4 + 4);
        expected.is_some_and(|expected| u32_at(expected, 0) == checksum(piece, place, self.seed))
    }
}

/// Checks a body of `length` bytes: the place of a piece that is wrong, or none when the table itself is.
pub(crate) fn check(body: &[u8], length: u64, table: &[u8], seed: u32) -> Result<(), Option<u64>> {
    let Some(at) = table.len().checked_sub(4).filter(|_| table.len() == table_bytes(length)) else { return Err(None) };
    if u32_at(table, at) != crc32c::crc32c_append(seed, &table[..at]) {
        return Err(None);
    }
    let pieces = at / 4;
    for place in 0..pieces {
        let start = place * PIECE_BYTES;
        let end = (start + PIECE_BYTES).min(length as usize);
        let piece = body.get(start..end).ok_or(Some(place as u64))?;
        if u32_at(table, place * 4) != checksum(piece, place, seed) {
            return Err(Some(place as u64));
        }
    }
    Ok(())
}
