//! Room that tables keep after a flood: none that thousands of connections needed once.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Entries for which a table may have room without being looked at.
pub const ROOM_KEPT: usize = 1024;

/// Gives back what a table takes that once held many times what it holds now. True if there was something: a flood is
/// over, which a table tells a few times at most.
pub fn give_back<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) -> bool {
    let is_large = table.capacity() > ROOM_KEPT && table.capacity() / 8 > table.len();
    if is_large {
        table.shrink_to(table.len() * 2);
    }
    is_large
}
