use super::term;
use crate::answer::Rows;

/// A table with borders, for people. RabbitMQ draws them with control codes of terminals.
pub(super) fn show(rows: &Rows, headers: bool) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    if headers {
        lines.push(rows.columns.clone());
    }
    lines.extend(rows.rows.iter().map(|row| row.iter().map(term::text).collect()));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.columns.len()).map(width).collect();
    let rule = |left: char, middle: &str, right: char| {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", parts.join(middle))
    };
    let mut out = rule('┌', "┬", '┐');
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push_str(&rule('├', "┼", '┤'));
        }
        let cells: Vec<String> = line.iter().zip(&widths).map(|(text, width)| format!(" {text:width$} ")).collect();
        out.push_str(&format!("│{}│\n", cells.join("│")));
    }
    out.push_str(&rule('└', "┴", '┘'));
    out
}
