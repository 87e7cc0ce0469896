use std::collections::BTreeSet;

use super::Repository;

/// Paths in documents that aren't in the repository, each with its reason.
const ALLOWED: [(&str, &str); 1] =
    [("tests/shots/", "pictures that a run of the page's tests leaves, which git ignores")];

/// Endings of files whose paths documents name.
const ENDINGS: [&str; 7] = [".rs", ".md", ".toml", ".tsv", ".py", ".sh", ".js"];

/// Checks that the paths which documents name in backticks exist: from the root, below `crates/`, or from the document's folder.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let places = places(repository);
    let begins: BTreeSet<&str> =
        places.iter().filter_map(|place| place.strip_prefix("crates/").unwrap_or(place).split('/').next()).collect();
    let mut complaints = Vec::new();
    for (document, text) in repository.texts(".md") {
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        for path in spans(text).filter(|span| is_path(span, &begins)) {
            // The name of a test may stand behind its file.
            let file = path.split("::").next().unwrap_or(path).trim_end_matches('/');
            let candidates = [file.to_owned(), format!("crates/{file}"), format!("{folder}/{file}")];
            let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == path);
            if !is_allowed && !candidates.iter().any(|candidate| places.contains(candidate.as_str())) {
                complaints.push(format!("{document}: `{path}` is no file or folder of the repository"));
            }
        }
    }
    complaints
}

/// All files and folders.
fn places(repository: &Repository) -> BTreeSet<&str> {
    let ends = |path: &str| path.match_indices('/').map(|(at, _)| at).chain([path.len()]).collect::<Vec<_>>();
    repository.files.keys().flat_map(|path| ends(path).into_iter().map(|end| &path[..end])).collect()
}

/// The words in single backticks, outside blocks of code.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    let outside = text.split("```").step_by(2);
    outside.flat_map(|part| part.lines()).flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether it looks like a path of the repository: it ends like a file, or begins with a folder that there is.
fn is_path(span: &str, begins: &BTreeSet<&str>) -> bool {
    let is_plain = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./:".contains(letter));
    let file = span.split("::").next().unwrap_or(span);
    let Some((first, _)) = file.split_once('/') else { return false };
    is_plain && !first.is_empty() && (ENDINGS.iter().any(|ending| file.ends_with(ending)) || begins.contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_nowhere_are_named() {
        let repository = Repository::from([
            ("README.md", "`log/src/a.rs` `docs/a.md` `log/src/b.rs` `other/c.rs` `application/json` `/etc/x.toml`"),
            (
                "docs/a.md",
                "`b.md` `deep/b.md` `log/src` `log/src/a.rs::works`\n```\n`log/src/gone`\n```\n`tests/shots/`",
            ),
            ("docs/deep/b.md", "`log/gone/`"),
            ("crates/log/src/a.rs", ""),
        ]);
        let expected = [
            "README.md: `log/src/b.rs` is no file or folder of the repository",
            "README.md: `other/c.rs` is no file or folder of the repository",
            "docs/deep/b.md: `log/gone/` is no file or folder of the repository",
        ];
        assert_eq!(check(&repository), expected);
    }
}
