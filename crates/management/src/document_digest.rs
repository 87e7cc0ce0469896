//! A digest of a document of definitions that doesn't depend on the order of its queues, exchanges and bindings.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};
use siphasher::sip128::{Hasher128, SipHasher13};

/// The lists whose order has no meaning: their objects are created if they don't exist. A user who stands in a document twice gets the
/// later password.
const ANY_ORDER: [&[u8]; 3] = [b"queues", b"exchanges", b"bindings"];

/// The depth at which the entries of a list of the document begin.
const ENTRIES: usize = 2;

/// The hash of an entry, with a random key: nobody can make two documents with the same digest.
static HASHER: LazyLock<SipHasher13> = LazyLock::new(|| {
    let random = RandomState::new();
    SipHasher13::new_with_keys(random.hash_one(0), random.hash_one(1))
});

/// The digest of the text of a document, and of the vhost that it was imported into. Two documents with the same digest have the same
/// entries in [`ANY_ORDER`] and, but for these, the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentDigest {
    /// Of the text around the entries, and of the vhost.
    frame: [u8; 32],
    /// The sum of the hashes of the entries of each list.
    entries: [u128; ANY_ORDER.len()],
}

impl DocumentDigest {
    /// The digest of any text, whether or not it is valid JSON.
    pub(crate) fn of(text: &[u8], vhost: Option<&str>) -> Self {
        let mut frame = Sha256::new();
        if let Some(vhost) = vhost {
            frame.update(Sha256::digest(vhost));
        }
        let mut entries = [0_u128; ANY_ORDER.len()];
        // Where the text begins that isn't in the digest yet.
        let mut from = 0;
        each_entry(text, |list, begin, end| {
            let before = &text[from..begin];
            // The length says where an entry stood, so that no text can take the place of one.
            frame.update((before.len() as u64).to_le_bytes());
            frame.update(before);
            let mut hasher = *HASHER;
            hasher.write(&text[begin..end]);
            entries[list] = entries[list].wrapping_add(hasher.finish128().as_u128());
            from = end;
        });
        frame.update(&text[from..]);
        DocumentDigest { frame: frame.finalize().into(), entries }
    }
}

/// Passes on the list, by its place in [`ANY_ORDER`], the begin and the end of each entry. Of a text that isn't valid JSON, it passes on
/// something, the same each time.
fn each_entry(text: &[u8], mut take: impl FnMut(usize, usize, usize)) {
    // The text before the list, which is its name.
    let (mut name, mut list): (&[u8], Option<usize>) = (b"", None);
    let (mut at, mut depth, mut begin) = (0, 0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = end_of_text(text, at);
                if depth == 1 {
                    name = text.get(at + 1..end - 1).unwrap_or_default();
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                if depth == 1 {
                    list = ANY_ORDER.iter().position(|of| *of == name && *byte == b'[');
                } else if depth == ENTRIES {
                    begin = at;
                }
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if let Some(list) = list.filter(|_| depth == ENTRIES) {
                    take(list, begin, at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Where the text ends whose quotation mark is at `at`, or the document does.
fn end_of_text(text: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    loop {
        match text.get(next) {
            None => return text.len(),
            Some(b'"') => return next + 1,
            Some(b'\\') => next += 2,
            Some(_) => next += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"users": [{"name": "a"}, {"name": "b"}], "queues": [{"name": "q]\"", "arguments": {"x": [1]}},
        {"name": "r"}, {"name": "s"}], "metadata": {"queues": []}, "bindings": [{"source": "q"}]}"#;

    fn digest(text: &str) -> DocumentDigest {
        DocumentDigest::of(text.as_bytes(), None)
    }

    fn with(from: &str, to: &str) -> DocumentDigest {
        assert!(TEXT.contains(from));
        digest(&TEXT.replacen(from, to, 1))
    }

    #[test]
    fn the_order_of_queues_changes_nothing() {
        let other = TEXT.replace("\"r\"", "\"-\"").replace("\"s\"", "\"r\"").replace("\"-\"", "\"s\"");
        assert_ne!(other, TEXT);
        assert_eq!(digest(&other), digest(TEXT));
        let first = r#"{"name": "q]\"", "arguments": {"x": [1]}}"#;
        let moved = TEXT.replace(r#"{"name": "r"}"#, "-").replace(first, r#"{"name": "r"}"#).replace('-', first);
        assert_eq!(digest(&moved), digest(TEXT));
    }

    #[test]
    fn all_else_changes_it() {
        let plain = digest(TEXT);
        assert_ne!(
            with("[{\"name\": \"a\"}, {\"name\": \"b\"}]", "[{\"name\": \"b\"}, {\"name\": \"a\"}]"),
            plain,
            "users in another order"
        );
        assert_ne!(with("\"r\"", "\"t\""), plain, "another queue");
        assert_ne!(with("[1]", "[2]"), plain, "another argument");
        assert_ne!(with("{\"name\": \"r\"}, ", ""), plain, "a queue less");
        assert_ne!(with("{\"name\": \"r\"}", "{\"name\": \"r\"}, {\"name\": \"r\"}"), plain, "a queue twice");
        assert_ne!(with("\"queues\": []", "\"queues\": [1]"), plain, "another member");
        assert_ne!(with("\"queues\": [{", "\"exchanges\": [{"), plain, "another list");
        assert_ne!(with("{\"source\": \"q\"}", "{\"name\": \"r\"}"), plain, "an entry of another list");
        assert_ne!(DocumentDigest::of(TEXT.as_bytes(), Some("/")), plain, "another vhost");
    }

    #[test]
    fn any_text_has_one() {
        for end in 0..TEXT.len() {
            assert_eq!(digest(&TEXT[..end]), digest(&TEXT[..end]));
            assert_ne!(digest(&TEXT[..end]), digest(TEXT));
        }
        for text in ["]]]}}}[{", "{\"queues\": [}]{", "\"\\", "[[[\"", "{\"queues\":[{]"] {
            assert_eq!(digest(text), digest(text));
        }
    }
}
