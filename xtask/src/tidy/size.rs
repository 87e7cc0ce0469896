use super::Repository;

/// Half of the files have fewer lines than this ...
const MEDIAN_BELOW: usize = 200;
/// ... 95 of 100 at most this many ...
const MOST_AT_MOST: usize = 600;
/// ... and none has more than this.
const ALL_AT_MOST: usize = 1_000;

/// Checks the size budget of Rust files.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut sizes: Vec<(usize, &str)> =
        repository.texts(".rs").map(|(path, text)| (text.lines().count(), path)).collect();
    sizes.sort_unstable();
    let mut complaints = Vec::new();
    let Some((median, _)) = sizes.get(sizes.len() / 2) else { return complaints };
    if *median >= MEDIAN_BELOW {
        complaints.push(format!("the median file has {median} lines; it must be under {MEDIAN_BELOW}"));
    }
    let long: Vec<_> = sizes.iter().filter(|(lines, _)| *lines > MOST_AT_MOST).collect();
    if long.len() * 20 > sizes.len() {
        complaints.push(format!(
            "{} of {} files have over {MOST_AT_MOST} lines, more than one in twenty: {long:?}",
            long.len(),
            sizes.len()
        ));
    }
    for (lines, path) in sizes.iter().filter(|(lines, _)| *lines > ALL_AT_MOST) {
        complaints.push(format!("{path} has {lines} lines; the limit is {ALL_AT_MOST}"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(sizes: &[usize]) -> Vec<String> {
        let file = |lines: usize| super::super::File { text: Some("x\n".repeat(lines)) };
        let files = sizes.iter().enumerate().map(|(n, lines)| (format!("{n}.rs"), file(*lines))).collect();
        check(&Repository { files })
    }

    #[test]
    fn each_limit_is_held() {
        assert_eq!(complaints(&[10, 199, 300]), [""; 0]);
        assert!(complaints(&[10, 200, 300])[0].contains("median file has 200 lines"));
        let mut sizes = vec![10; 40];
        sizes.extend([601, 601]);
        assert_eq!(complaints(&sizes), [""; 0]);
        sizes.push(601);
        assert!(complaints(&sizes)[0].starts_with("3 of 43 files"));
        sizes.truncate(40);
        sizes.push(1_001);
        assert!(complaints(&sizes)[0].ends_with("has 1001 lines; the limit is 1000"));
    }
}
