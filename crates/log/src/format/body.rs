//! The checksums after the body in a body file: one for each piece, and one of all of these.

use super::u32_at;

/// Bytes that one checksum covers.
pub const PIECE_BYTES: usize = 256 << 10;

/// Bytes of the table of a body of this length.
#[must_use]
pub(crate) fn table_bytes(length: u64, piece_bytes: usize) -> usize {
    (length.div_ceil(piece_bytes as u64) as usize + 1) * 4
}

/// A piece's checksum covers its index too, so that swapped pieces are found.
pub(crate) fn checksum(piece: &[u8], place: usize, seed: u32) -> u32 {
    crc32c::crc32c_append(seed ^ (place as u32).wrapping_mul(0x9e37_79b1), piece)
}

/// Completes a table of the pieces' checksums with the checksum of the table.
pub(crate) fn close_table(table: &mut Vec<u8>, seed: u32) {
    let all = crc32c::crc32c_append(seed, table);
    table.extend_from_slice(&all.to_le_bytes());
}

/// Whether `piece` is the piece with this index, according to a valid table.
pub(crate) fn is_piece(table: &[u8], piece: &[u8], place: usize, seed: u32) -> bool {
    place < table.len() / 4 - 1 && u32_at(table, place * 4) == checksum(piece, place, seed)
}

/// Checks the pieces of a body one after the other.
pub(crate) struct Pieces<'a> {
    table: &'a [u8],
    seed: u32,
    place: usize,
}

impl<'a> Pieces<'a> {
    /// `None` if the table isn't valid.
    pub(crate) fn new(table: &'a [u8], seed: u32) -> Option<Pieces<'a>> {
        let at = table.len().checked_sub(4)?;
        let is_whole = u32_at(table, at) == crc32c::crc32c_append(seed, &table[..at]);
        is_whole.then_some(Pieces { table, seed, place: 0 })
    }

    /// Whether this is the next piece.
    pub(crate) fn is_next(&mut self, piece: &[u8]) -> bool {
        let place = self.place;
        self.place += 1;
        is_piece(self.table, piece, place, self.seed)
    }
}
