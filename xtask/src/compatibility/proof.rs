use crate::tidy::Repository;

/// The reason why a proof is void: its file is missing, or has no such test that runs.
pub(super) fn missing(proof: &str, repository: &Repository) -> Option<String> {
    let Some((path, name)) = proof.split_once("::") else { return Some(format!("{proof:?} is not FILE::NAME")) };
    let Some(text) = repository.text(path) else { return Some(format!("there is no {path}")) };
    if path.ends_with(".json") {
        return recorded(path, name, text, repository);
    }
    if path.ends_with(".txt") {
        let there =
            text.lines().any(|line| line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) == Some(name));
        return (!there).then(|| format!("{path} has no message {name}"));
    }
    let function = name.rsplit("::").next().unwrap_or(name);
    let there = if path.starts_with("tests/src/table/") { scenario(text, name) } else { test(text, function) };
    (!there).then(|| format!("{path} has no test {name}"))
}

/// A script whose answer was recorded from RabbitMQ and equals ours.
fn recorded(path: &str, name: &str, text: &str, repository: &Repository) -> Option<String> {
    let quoted = format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    if !text.contains(&quoted) {
        return Some(format!("{path} has no script {name}"));
    }
    let allowed = path.replace("golden/", "allow/").replace(".json", ".txt");
    let allowed = repository.text(&allowed).unwrap_or_default();
    let differs = allowed
        .lines()
        .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ") || rest.starts_with(" / ")));
    differs.then(|| format!("ours differs from what {path} has of {name}"))
}

/// A row of the table of clients.
fn scenario(text: &str, name: &str) -> bool {
    let quoted = format!("\"{name}\",");
    text.split("scenario(").skip(1).any(|row| row.trim_start().starts_with(&quoted))
}

/// A test function that is part of ordinary runs.
fn test(text: &str, name: &str) -> bool {
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    let attributes = text[..at].rsplit("\n\n").next().unwrap_or_default();
    let attributes = attributes.rsplit(['{', '}', ';']).next().unwrap_or_default();
    let runs = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
    runs && !attributes.contains("#[ignore")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "fn plain() {}\n\n#[test]\nfn runs() {}\n\nmod inner {\n    #[test]\n    fn too() {}\n}\n\n\
                         #[test]\n#[ignore = \"long\"]\nfn waits() {}\nfn below() {}\n";

    #[test]
    fn a_proof_is_a_test_that_runs() {
        let repository = Repository::from([
            ("a.rs", TESTS),
            ("tests/src/table/x.rs", "scenario(\n    \"publish\", \"shows\"),"),
            ("tests/golden/x.json", "{\"name\": \"one: two\"} {\"name\": \"other\"} {\"name\": \"say \\\"5\\\"\"}"),
            ("a.txt", "[a message]\nbytes 00\n"),
            ("tests/allow/x.txt", "# other: no\nother / no frame: on purpose\n"),
        ]);
        for proof in [
            "a.rs::runs",
            "a.rs::inner::too",
            "tests/src/table/x.rs::publish",
            "a.txt::a message",
            "tests/golden/x.json::one: two",
            "tests/golden/x.json::say \"5\"",
        ] {
            assert_eq!(missing(proof, &repository), None);
        }
        for proof in [
            "runs",
            "b.rs::runs",
            "a.rs::plain",
            "a.rs::below",
            "a.rs::waits",
            "a.rs::none",
            "tests/src/table/x.rs::pub",
            "a.txt::bytes 00",
            "tests/golden/x.json::one",
            "tests/golden/x.json::other",
        ] {
            assert!(missing(proof, &repository).is_some(), "{proof}");
        }
    }
}
