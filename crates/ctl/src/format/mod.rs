//! How an answer is written.

mod csv;
mod erlang;
mod json;
mod pretty_table;
mod table;
pub(crate) mod term;

use crate::answer::Answer;

/// A way to write an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Formatter {
    /// Tabs between columns.
    #[default]
    Table,
    /// Lines between them.
    PrettyTable,
    /// An object a row.
    Json,
    /// As in RFC 4180.
    Csv,
    /// Terms, each list of pairs a row.
    Erlang,
}

impl Formatter {
    /// All with their names.
    pub(crate) const ALL: [(&'static str, Formatter); 5] = [
        ("table", Formatter::Table),
        ("pretty_table", Formatter::PrettyTable),
        ("json", Formatter::Json),
        ("csv", Formatter::Csv),
        ("erlang", Formatter::Erlang),
    ];

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Formatter::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, formatter)| formatter)
    }

    /// Whether values keep their types.
    pub(crate) fn has_types(self) -> bool {
        self.is_for_programs() || self == Formatter::Erlang
    }

    /// Whether nothing may be written but the answer.
    pub(crate) fn is_for_programs(self) -> bool {
        matches!(self, Formatter::Json | Formatter::Csv)
    }
}

/// Writes an answer.
pub(crate) fn show(answer: Answer, formatter: Formatter, headers: bool) -> String {
    match (answer, formatter) {
        (Answer::Done, _) => String::new(),
        (Answer::Text(text), Formatter::Json) => format!("{}\n", serde_json::json!(text.trim_end())),
        (Answer::Text(text), Formatter::Erlang) => format!("{}\n", erlang::text(text.trim_end())),
        (Answer::Text(text), _) => ended(text),
        (Answer::Report { value, .. }, Formatter::Json) => format!("{value}\n"),
        (Answer::Report { value, .. }, Formatter::Erlang) => format!("{}\n", erlang::report(&value)),
        (Answer::Report { text, .. }, _) => ended(text),
        (Answer::Rows(rows), Formatter::Json) => json::show(&rows),
        (Answer::Rows(rows), Formatter::Csv) => csv::show(&rows, headers),
        (Answer::Rows(rows), Formatter::Erlang) => erlang::show(&rows),
        (Answer::Rows(rows), Formatter::Table) => table::show(&rows, headers),
        (Answer::Rows(rows), Formatter::PrettyTable) => pretty_table::show(&rows, headers),
    }
}

fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::answer::Rows;

    fn rows() -> Answer {
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
    fn csv_quotes_texts() {
        let expected = "\"name\",\"tags\",\"count\",\"arguments\"\n\
                        \"a\",\"x,y\",5,\"s=t,x-max-length=100\"\n\"b \"\"c\"\"\",\"\",\"\",\"\"\n";
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
    fn erlang_reads_it_as_terms() {
        let expected = "[[{name,<<\"a\">>},{tags,[<<\"x\">>,<<\"y\">>]},{count,5},\
                        {arguments,[{<<\"s\">>,longstr,<<\"t\">>},{<<\"x-max-length\">>,long,100}]}],\n \
                        [{name,<<\"b \\\"c\\\"\">>},{tags,[]},{count,''},{arguments,[]}]]\n";
        assert_eq!(show(rows(), Formatter::Erlang, true), expected);
        let value = json!({"result": "ok", "log.level": null, "uptime": 1.5, "ü": [true, {}]});
        let report = Answer::Report { text: String::new(), value };
        let expected = "[{'log.level',''},{result,<<\"ok\">>},{uptime,1.5},{'ü',[true,[]]}]\n";
        assert_eq!(show(report, Formatter::Erlang, true), expected);
        let rows = Rows { columns: vec!["protocol".to_owned()], rows: vec![vec![json!([1, 0])]] };
        assert_eq!(show(rows.into(), Formatter::Erlang, true), "[[{protocol,{1,0}}]]\n");
        assert_eq!(show(Rows::default().into(), Formatter::Erlang, true), "[]\n");
        assert_eq!(show(Answer::Text("ä\n".to_owned()), Formatter::Erlang, true), "<<\"ä\"/utf8>>\n");
    }

    #[test]
    fn a_pretty_table_has_lines() {
        let rows = Rows { columns: vec!["a".to_owned()], rows: vec![vec![json!("long")]] };
        let expected = "┌──────┐\n│ a    │\n├──────┤\n│ long │\n└──────┘\n";
        assert_eq!(show(rows.into(), Formatter::PrettyTable, true), expected);
    }
}
