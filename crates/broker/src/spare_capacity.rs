//! Spare capacity of tables: memory that thousands of connections needed once isn't kept after a flood.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Spare entries below which a table isn't shrunk.
pub const ROOM_KEPT: usize = 1024;

/// Shrinks a table that once held many times as many entries as now. Returns whether it did: this indicates that a flood is
/// over, and happens a few times per flood at most.
pub fn give_back<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) -> bool {
    let is_large = table.capacity() > ROOM_KEPT && table.capacity() / 8 > table.len();
    if is_large {
        table.shrink_to(table.len() * 2);
    }
    is_large
}
