//! Formatters of a command's output.

mod csv;
mod erlang;
mod json;
mod pretty_table;
mod table;
pub(crate) mod term;

use std::fmt::Write;

use crate::answer::CommandOutput;

/// A format of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Formatter {
    /// Columns separated by tabs.
    #[default]
    Table,
    /// Columns separated by lines.
    PrettyTable,
    /// One JSON object per row.
    Json,
    /// As in RFC 4180.
    Csv,
    /// Erlang terms: one list of pairs per row.
    Erlang,
}

impl Formatter {
    /// All formatters by name.
    pub(crate) const ALL: [(&'static str, Formatter); 5] = [
        ("table", Formatter::Table),
        ("pretty_table", Formatter::PrettyTable),
        ("json", Formatter::Json),
        ("csv", Formatter::Csv),
        ("erlang", Formatter::Erlang),
    ];

    /// The formatter with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Formatter::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, formatter)| formatter)
    }

    /// Whether values keep their types.
    pub(crate) fn has_types(self) -> bool {
        self.is_for_programs() || self == Formatter::Erlang
    }

    /// Whether the output must contain nothing but the result.
    pub(crate) fn is_for_programs(self) -> bool {
        matches!(self, Formatter::Json | Formatter::Csv)
    }
}

/// Formats a result.
pub(crate) fn show(answer: CommandOutput, formatter: Formatter, headers: bool) -> String {
    match (answer, formatter) {
        (CommandOutput::Done, _) => String::new(),
        (CommandOutput::Text(text), Formatter::Json) => format!("{}\n", serde_json::json!(text.trim_end())),
        (CommandOutput::Text(text), Formatter::Erlang) => format!("{}\n", erlang::text(text.trim_end())),
        (CommandOutput::Text(text), _) => ended(text),
        (CommandOutput::Report { value, .. }, Formatter::Json) => format!("{value}\n"),
        (CommandOutput::Report { value, .. }, Formatter::Erlang) => format!("{}\n", erlang::report(&value)),
        (CommandOutput::Report { text, .. }, _) => ended(text),
        (CommandOutput::Rows(rows), Formatter::Json) => json::show(&rows),
        (CommandOutput::Rows(rows), Formatter::Csv) => csv::show(&rows, headers),
        (CommandOutput::Rows(rows), Formatter::Erlang) => erlang::show(&rows),
        (CommandOutput::Rows(rows), Formatter::Table) => table::show(&rows, headers),
        (CommandOutput::Rows(rows), Formatter::PrettyTable) => pretty_table::show(&rows, headers),
    }
}

/// Makes a text safe for terminals: characters that could move the cursor, change colours or the title, or reverse
/// the direction of text are replaced by their code, as in JSON. Names are chosen by clients.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => out.push(letter),
            _ if letter.is_control() || TURNING.contains(&letter) => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out
}

/// As [`harmless`], for a part of a line: line feeds and tabs in it would add rows and columns.
fn in_one_line(text: &str) -> String {
    harmless(text).replace('\n', "\\u000a").replace('\t', "\\u0009")
}

/// Marks that change the direction of text, and separators that some terminals treat as line ends.
const TURNING: [char; 13] = [
    '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::answer::Rows;

    fn rows() -> CommandOutput {
        let objects = vec![
            json!({"name": "a", "tags": ["x", "y"], "count": 5, "arguments": {"x-max-length": 100, "s": "t"}}),
            json!({"name": "b \"c\"", "tags": [], "count": null, "arguments": {}}),
        ];
        let columns = ["name", "tags", "count", "arguments"].map(str::to_owned);
        Rows::pick(&columns, objects).into()
    }

    #[test]
    fn a_table_has_tabs_and_erlangs_terms() {
        let expected =
            "name\ttags\tcount\targuments\na\t[x, y]\t5\t[{\"s\",\"t\"},{\"x-max-length\",100}]\nb \"c\"\t[]\t\t[]\n";
        assert_eq!(show(rows(), Formatter::Table, true), expected);
        assert_eq!(show(rows(), Formatter::Table, false), expected.split_once('\n').expect("lines").1);
    }

    #[test]
    fn control_and_bidi_characters_are_written_as_codes() {
        let name = "a\u{1b}]0;owned\u{7}\r\u{9b}2J\u{7f}\u{202e}b";
        let expected = r"a\u001b]0;owned\u0007\u000d\u009b2J\u007f\u202eb";
        let columns = ["name", "arguments", "list"].map(str::to_owned);
        let rows = || Rows::pick(&columns, vec![json!({"name": name, "arguments": {name: name}, "list": [name]})]);
        for (_, formatter) in Formatter::ALL {
            let shown = harmless(&show(rows().into(), formatter, true));
            assert!(
                shown.matches(expected).count() + shown.matches(&expected.replace("\\u000d", "\\r")).count() >= 3,
                "{shown}"
            );
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{shown:?}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&harmless(&show(rows().into(), Formatter::Json, true))).expect("JSON");
        assert_eq!(json[0]["name"], name);
        assert_eq!(harmless("two\nlines\tü"), "two\nlines\tü");
    }

    #[test]
    fn line_ends_and_tabs_in_names_make_no_rows_or_columns() {
        let name = "a\r\n\u{1b}[31mb\tc";
        let columns = ["name", "arguments", "list"].map(str::to_owned);
        let rows = || Rows::pick(&columns, vec![json!({"name": name, "arguments": {name: name}, "list": [name]})]);
        for (_, formatter) in Formatter::ALL {
            let shown = harmless(&show(rows().into(), formatter, true));
            let plain = show(Rows::pick(&columns, vec![json!({})]).into(), formatter, true);
            let count = |text: &str, letter| text.matches(letter).count();
            assert_eq!(
                (count(&shown, '\n'), count(&shown, '\t')),
                (count(&plain, '\n'), count(&plain, '\t')),
                "{shown}"
            );
            assert!(!shown.contains(['\r', '\u{1b}']), "{shown:?}");
        }
        let arguments = term::text(&json!({name: [name]}));
        assert_eq!(arguments, r#"[{"a\u000d\u000a\u001b[31mb\u0009c",["a\u000d\u000a\u001b[31mb\u0009c"]}]"#);
    }

    #[test]
    fn csv_quotes_every_value() {
        let expected = "\"name\",\"tags\",\"count\",\"arguments\"\n\
                        \"a\",\"x,y\",\"5\",\"s=t,x-max-length=100\"\n\"b \"\"c\"\"\",\"\",\"\",\"\"\n";
        assert_eq!(show(rows(), Formatter::Csv, true), expected);
    }

    #[test]
    fn json_is_an_array_with_a_row_a_line() {
        let text = show(rows(), Formatter::Json, true);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read[0]["tags"], json!(["x", "y"]));
        assert_eq!(read[0]["arguments"], json!([["s", "longstr", "t"], ["x-max-length", "long", 100]]));
        assert_eq!(text.lines().count(), 4);
        assert_eq!(show(Rows::default().into(), Formatter::Json, true), "[\n]\n");
    }

    #[test]
    fn maps_stay_maps_and_what_is_not_set_is_an_empty_text() {
        let columns = ["name", "policy", "effective_policy_definition"].map(str::to_owned);
        let queue = |policy: Value, definition: Value| {
            let row = json!({"name": "q", "policy": policy, "effective_policy_definition": definition});
            show(Rows::pick(&columns, vec![row]).into(), Formatter::Json, true)
        };
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")[0].clone();
        let without = read(&queue(Value::Null, json!({})));
        assert_eq!(without, json!({"name": "q", "policy": "", "effective_policy_definition": {}}));
        let with = read(&queue(json!("p"), json!({"max-length": 7})));
        assert_eq!(with["effective_policy_definition"]["max-length"], 7);
        let definition = json!({"max-length": 7, "overflow": "reject-publish"});
        let shown = term::in_column("effective_policy_definition", &definition);
        assert_eq!(shown, r#"[{<<"max-length">>, 7}, {<<"overflow">>, reject-publish}]"#);
        assert_eq!(term::in_column("effective_policy_definition", &json!({})), "#{}");
    }

    #[test]
    fn erlang_reads_it_as_terms() {
        let expected = "[[{name,<<\"a\">>},{tags,[<<\"x\">>,<<\"y\">>]},{count,5},\
                        {arguments,[{<<\"s\">>,longstr,<<\"t\">>},{<<\"x-max-length\">>,long,100}]}],\n \
                        [{name,<<\"b \\\"c\\\"\">>},{tags,[]},{count,''},{arguments,[]}]]\n";
        assert_eq!(show(rows(), Formatter::Erlang, true), expected);
        let value = json!({"result": "ok", "log.level": null, "uptime": 1.5, "ü": [true, {}]});
        let report = CommandOutput::Report { text: String::new(), value };
        let expected = "[{'log.level',''},{result,<<\"ok\">>},{uptime,1.5},{'ü',[true,[]]}]\n";
        assert_eq!(show(report, Formatter::Erlang, true), expected);
        let rows = Rows { columns: vec!["protocol".to_owned()], rows: vec![vec![json!([1, 0])]] };
        assert_eq!(show(rows.into(), Formatter::Erlang, true), "[[{protocol,{1,0}}]]\n");
        assert_eq!(show(Rows::default().into(), Formatter::Erlang, true), "[]\n");
        assert_eq!(show(CommandOutput::Text("ä\n".to_owned()), Formatter::Erlang, true), "<<\"ä\"/utf8>>\n");
    }

    #[test]
    fn a_pretty_table_has_lines() {
        let rows = Rows { columns: vec!["a".to_owned()], rows: vec![vec![json!("long")]] };
        let expected = "┌──────┐\n│ a    │\n├──────┤\n│ long │\n└──────┘\n";
        assert_eq!(show(rows.into(), Formatter::PrettyTable, true), expected);
    }
}
