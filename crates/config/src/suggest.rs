/// The candidate with the smallest edit distance to `text`, if that is small enough for a suggestion.
pub(crate) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, found) = candidates.map(|candidate| (distance(text, candidate), candidate)).min()?;
    (distance <= text.len().div_ceil(3)).then_some(found)
}

/// The edit distance (insert, delete, replace) between two keys.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (to, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[to + 1];
            row[to + 1] = replaced.min(row[to] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found_and_a_far_one_is_not() {
        let keys = ["heartbeat", "frame_max", "listeners.tcp.default"];
        assert_eq!(nearest("hartbeat", keys.into_iter()), Some("heartbeat"));
        assert_eq!(nearest("listener.tcp.default", keys.into_iter()), Some("listeners.tcp.default"));
        assert_eq!(nearest("zzzzzzzz", keys.into_iter()), None);
    }
}
