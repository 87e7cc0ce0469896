use super::term;
use crate::answer::Rows;

/// A row a line, tabs between columns.
pub(super) fn show(rows: &Rows, headers: bool) -> String {
    let mut out = String::new();
    // A list without rows has no head either, as in RabbitMQ.
    if headers && !rows.rows.is_empty() {
        out.push_str(&rows.columns.join("\t"));
        out.push('\n');
    }
    for row in &rows.rows {
        let mut separator = "";
        for value in row {
            out.push_str(separator);
            out.push_str(&term::text(value));
            separator = "\t";
        }
        out.push('\n');
    }
    out
}
