use super::term;
use crate::answer::Rows;

/// One row per line, columns separated by tabs.
pub(super) fn show(rows: &Rows, headers: bool) -> String {
    let mut out = String::new();
    // An empty list has no header line either, as in RabbitMQ.
    if headers && !rows.rows.is_empty() {
        out.push_str(&rows.columns.join("\t"));
        out.push('\n');
    }
    for row in &rows.rows {
        let mut separator = "";
        for (column, value) in rows.columns.iter().zip(row) {
            out.push_str(separator);
            out.push_str(&term::in_column(column, value));
            separator = "\t";
        }
        out.push('\n');
    }
    out
}
