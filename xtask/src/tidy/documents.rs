use std::collections::BTreeSet;

use super::Repository;
use super::manifest::{Dependencies, workspace_dependencies};

const DEPENDENCIES: &str = "docs/dependencies.md";

/// Checks that documents are linked and links aren't broken, and that each third-party crate has its line.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = links(repository);
    complaints.extend(dependencies(repository));
    complaints
}

fn links(repository: &Repository) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut linked = BTreeSet::new();
    for (path, text) in repository.texts(".md") {
        for target in targets(text) {
            let resolved = resolve(path, target);
            let exists = repository.files.contains_key(&resolved)
                || repository.files.keys().any(|file| file.starts_with(&format!("{resolved}/")));
            if !exists {
                complaints.push(format!("{path}: the link to {target} leads nowhere"));
            }
            if resolved != path {
                linked.insert(resolved);
            }
        }
    }
    let unlinked = repository.texts(".md").map(|(path, _)| path).filter(|path| path.starts_with("docs/"));
    complaints.extend(unlinked.filter(|p| !linked.contains(*p)).map(|p| format!("{p} is linked from no document")));
    complaints
}

/// Targets of Markdown links to files, without anchors.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ', '\n']).next())
        .filter(|target| !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:"))
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty())
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn dependencies(repository: &Repository) -> Vec<String> {
    let Some(manifest) = repository.text("Cargo.toml") else { return Vec::new() };
    let Some(page) = repository.text(DEPENDENCIES) else { return vec![format!("{DEPENDENCIES} is missing")] };
    let mut used = BTreeSet::new();
    match workspace_dependencies(manifest) {
        Ok(names) => used.extend(names),
        Err(reason) => return vec![format!("Cargo.toml {reason}")],
    }
    for (_, text) in repository.texts("/Cargo.toml") {
        if let Ok(more) = Dependencies::read(text) {
            used.extend(more.normal);
            used.extend(more.dev);
        }
    }
    used.retain(|name| !name.starts_with("leveret") && name != "xtask");
    let described: BTreeSet<&str> = page.lines().flat_map(row).collect();
    let missing = used.iter().filter(|name| !described.contains(name.as_str()));
    let missing = missing.map(|name| format!("{DEPENDENCIES}: no line for {name}"));
    let unused = described.iter().filter(|name| !used.contains(**name));
    missing.chain(unused.map(|name| format!("{DEPENDENCIES}: nothing uses {name}"))).collect()
}

/// The crates in the first column of a row of a table, each in backticks.
fn row(line: &str) -> impl Iterator<Item = &str> {
    let first = line.strip_prefix('|').and_then(|rest| rest.split('|').next()).unwrap_or_default();
    first.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlinked_documents_and_broken_links_are_named() {
        let repository = Repository::from([
            ("README.md", "[a](docs/a.md#part) [web](https://example.org/x.md) [gone](docs/gone.md) [d](docs/)"),
            ("docs/a.md", "[b](deep/b.md) [up](../README.md)"),
            ("docs/deep/b.md", "[itself](b.md)"),
            ("docs/c.md", "[itself](c.md)"),
        ]);
        let expected = ["README.md: the link to docs/gone.md leads nowhere", "docs/c.md is linked from no document"];
        assert_eq!(links(&repository), expected);
    }

    #[test]
    fn each_dependency_has_a_line_and_each_line_a_dependency() {
        let repository = Repository::from([
            ("Cargo.toml", "[workspace.dependencies]\na = \"1\"\nb = \"1\"\nleveret-x = \"1\"\n"),
            ("crates/x/Cargo.toml", "[dev-dependencies]\nc = \"1\"\n"),
            (DEPENDENCIES, "| crate | for |\n| --- | --- |\n| `a`, `c` | all |\n| `old` | nothing |\n"),
        ]);
        let expected = ["docs/dependencies.md: no line for b", "docs/dependencies.md: nothing uses old"];
        assert_eq!(dependencies(&repository), expected);
    }
}
