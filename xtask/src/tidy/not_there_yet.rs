use super::Repository;

const COMPATIBILITY: &str = "docs/compatibility.tsv";
const HEADING: &str = "## Not there yet";
/// Number of words from which on the beginning of a row's text names its feature.
const WORDS_MIN: usize = 2;

/// Checks that no document says of a feature that it isn't there yet whose row in the table of compatibility works.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let table = repository.text(COMPATIBILITY).unwrap_or_default();
    let working: Vec<(&str, String)> = table.lines().filter_map(working).collect();
    let mut complaints = Vec::new();
    for (document, text) in repository.texts(".md") {
        for phrase in phrases(section(text)) {
            for (id, _) in working.iter().filter(|(_, row)| names(&phrase, row)) {
                complaints.push(format!("{document}: \"{phrase}\" is not there yet, and row {id} says that it works"));
            }
        }
    }
    complaints
}

/// Id and text of a row that works.
fn working(line: &str) -> Option<(&str, String)> {
    let mut cells = line.split('\t');
    let (id, state, text) = (cells.next()?, cells.next()?, cells.next()?);
    (state == "works").then(|| (id, plain(text)))
}

/// The items of the lists below the heading.
fn section(text: &str) -> &str {
    let after = text.split_once(HEADING).map_or("", |(_, after)| after);
    after.split("\n## ").next().unwrap_or_default()
}

/// The parts of a list's items between commas, colons and the like.
fn phrases(section: &str) -> Vec<String> {
    let text = section.split("\n- ").skip(1).map(|item| item.replace('\n', " "));
    let text = text.flat_map(|item| item.split([',', ':', ';', '.']).map(str::to_owned).collect::<Vec<_>>());
    text.flat_map(|part| part.split(" and ").map(plain).collect::<Vec<_>>())
        .filter(|phrase| !phrase.is_empty())
        .collect()
}

/// In lower case, without backticks, links and a leading article.
fn plain(text: &str) -> String {
    let text = text.replace(['`', '[', ']', '*'], "").to_lowercase();
    let mut text = text.split_whitespace().collect::<Vec<_>>();
    if matches!(text.first(), Some(&("a" | "an" | "the"))) {
        text.remove(0);
    }
    text.join(" ")
}

/// Whether a phrase is the text of a row, or its beginning.
fn names(phrase: &str, row: &str) -> bool {
    let is_beginning = phrase.split(' ').count() >= WORDS_MIN && row.starts_with(&format!("{phrase} "));
    phrase == row || is_beginning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_works_is_not_called_missing() {
        let table =
            "F1\tworks\tmoving messages in the web page\tt\t\nF2\tlater\tMQTT 5.0\t\t\nF3\tworks\tshovels\tt\t\n";
        let page = "- shovels\n\n## Not there yet\n\nWords.\n\n- MQTT 5.0, moving\n  messages and a tap\n- Clusters: the *Shovels*.\n\n## Next\n\n- shovels\n";
        let repository = Repository::from([(COMPATIBILITY, table), ("README.md", page)]);
        let expected = [
            "README.md: \"moving messages\" is not there yet, and row F1 says that it works",
            "README.md: \"shovels\" is not there yet, and row F3 says that it works",
        ];
        assert_eq!(check(&repository), expected);
    }
}
