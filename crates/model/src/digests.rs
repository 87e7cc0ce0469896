//! Sets of objects that are told by digests of them.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use rustc_hash::FxHashSet;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::Arguments;

/// A set of objects with equally many parts: one digest of 128 bits each, under a random key. A look-up reads the set and no object, which
/// would be several cache misses away.
pub(crate) struct Digests {
    /// Has its key, and has hashed nothing yet.
    hasher: SipHasher13,
    known: FxHashSet<Digest>,
    /// The parts of one object.
    buffer: Vec<u8>,
}

/// A digest stands for its object: among ten million objects, two have the same one with a probability below 1 in 10^24.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Digest(u64, u64);

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

impl Digests {
    /// An empty set with room for so many objects.
    pub(crate) fn with_room_for(objects: usize) -> Self {
        let known = FxHashSet::with_capacity_and_hasher(objects, Default::default());
        // Its key is random, but can't be read.
        let random = RandomState::new();
        let hasher = SipHasher13::new_with_keys(random.hash_one(0), random.hash_one(1));
        Self { hasher, known, buffer: Vec::new() }
    }

    /// Adds the object with these parts.
    pub(crate) fn add<const N: usize>(&mut self, parts: [&[u8]; N], arguments: &Arguments) {
        if let Some(digest) = self.digest(parts, arguments) {
            self.known.insert(digest);
        }
    }

    /// Whether the object with these parts was added.
    pub(crate) fn has<const N: usize>(&mut self, parts: [&[u8]; N], arguments: &Arguments) -> bool {
        self.digest(parts, arguments).is_some_and(|digest| self.known.contains(&digest))
    }

    /// None if the arguments can't be encoded; all can.
    fn digest<const N: usize>(&mut self, parts: [&[u8]; N], arguments: &Arguments) -> Option<Digest> {
        let mut hasher = self.hasher;
        if let [part] = parts.as_slice()
            && arguments.is_empty()
        {
            hasher.write(part);
            let hash = hasher.finish128();
            return Some(Digest(hash.h1, hash.h2));
        }
        self.buffer.clear();
        // All lengths at once: each copy costs about as much as hashing what it copies.
        self.buffer.extend_from_slice(parts.map(|part| (part.len() as u64).to_le_bytes()).as_flattened());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        if !arguments.is_empty() {
            // As in records, from which the same arguments are read again: different arguments have different texts.
            serde_json::to_writer(&mut self.buffer, arguments).ok()?;
        }
        hasher.write(&self.buffer);
        let hash = hasher.finish128();
        Some(Digest(hash.h1, hash.h2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn objects_differ_by_each_part_and_by_where_it_ends() {
        let none = Arguments::default();
        let one = |value: Value| Arguments::from_iter([("k", value)]);
        let mut digests = Digests::with_room_for(2);
        digests.add([b"ab", b"c"], &none);
        digests.add([b"x", b""], &one(Value::Int(1)));
        assert!(digests.has([b"ab", b"c"], &none) && digests.has([b"x", b""], &one(Value::Int(1))));
        for parts in [[&b"a"[..], b"bc"], [b"abc", b""], [b"ab", b"C"], [b"c", b"ab"]] {
            assert!(!digests.has(parts, &none), "{parts:?}");
        }
        assert!(!digests.has([b"ab"], &none) && !digests.has([b"ab", b"c", b""], &none));
        assert!(!digests.has([b"ab", b"c"], &one(Value::Int(1))));
        for other in [Value::Int(2), Value::UInt(1), Value::string("1"), Value::Bytes((*b"1").into())] {
            assert!(!digests.has([b"x", b""], &one(other)));
        }
    }
}
