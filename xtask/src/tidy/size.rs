use super::Repository;

/// Half of the files have fewer lines than this ...
const MEDIAN_BELOW: usize = 200;
/// ... 95 of 100 at most this many ...
const MOST_AT_MOST: usize = 600;
/// ... and none has more than this.
const ALL_AT_MOST: usize = 1_000;

/// A shipped function has at most this many lines ...
const FUNCTION_AT_MOST: usize = 100;
/// ... unless it is a table: a row for each command, or a field for each part.
const TABLES: [(&str, &str); 2] =
    [("crates/model/src/model/mod.rs", "submit"), ("crates/broker/src/broker.rs", "recover_streams")];

/// Checks the size budget of Rust files, and of shipped functions.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = check_files(repository);
    let is_shipped = |path: &str| !path.split('/').any(|part| matches!(part, "tests" | "fuzz" | "benches"));
    for (path, text) in repository.texts(".rs").filter(|(path, _)| is_shipped(path)) {
        for (name, lines) in functions(text).filter(|(_, lines)| *lines > FUNCTION_AT_MOST) {
            if !TABLES.contains(&(path, name)) {
                complaints.push(format!("{path}: {name} has {lines} lines; the limit is {FUNCTION_AT_MOST}"));
            }
        }
    }
    complaints
}

/// The functions of a formatted text with their lines, from the one that names it to its closing brace.
fn functions(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let named: Vec<(usize, &str)> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, function(line)?))).collect();
    named.into_iter().filter_map(move |(at, name)| {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let ends = |line: &&str| {
            let rest = line.trim_start();
            let goes_on = rest.is_empty() || rest.starts_with([')', '{']) || rest.starts_with("where");
            !goes_on && rest.len() + indent == line.len()
        };
        let end = lines[at + 1..].iter().position(ends)?;
        // A function without a body, or with one in its line, ends where the next thing of its depth begins.
        lines[at + 1 + end].trim_start().starts_with('}').then_some((name, end + 2))
    })
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let words = line.split_whitespace();
    let mut rest = words.skip_while(|word| {
        word.starts_with("pub") || matches!(*word, "const" | "async" | "unsafe" | "extern") || word.ends_with(')')
    });
    let name = (rest.next()? == "fn").then(|| rest.next()).flatten()?;
    name.split(['(', '<']).next()
}

fn check_files(repository: &Repository) -> Vec<String> {
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
    fn a_long_function_is_named_unless_it_is_a_table() {
        let long = |name: &str| {
            format!(
                "impl A {{\n    pub(crate) fn {name}<T>(\n        t: T,\n    ) {{\n{}    }}\n}}\n",
                "        b();\n".repeat(97)
            )
        };
        let short = long("short").replacen("        b();\n", "", 1);
        assert_eq!(functions(&short).collect::<Vec<_>>(), [("short", 100)]);
        let trait_of = "trait A {\n    fn b(&self);\n    fn c(&self) {}\n\n    fn d(&self) {\n        e();\n    }\n}\n";
        assert_eq!(functions(trait_of).filter(|(_, lines)| *lines > 3).count(), 0);
        let repository = Repository::from([
            ("a/src/lib.rs", &*long("long")),
            ("a/tests/t.rs", &*long("test")),
            ("crates/model/src/model/mod.rs", &*long("submit")),
        ]);
        assert_eq!(check(&repository), ["a/src/lib.rs: long has 101 lines; the limit is 100"]);
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
