//! The node's memory by kind.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{CHECK, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "memory_breakdown", CommandGroup::Monitoring, "[--unit <unit>]", "Provides a memory usage breakdown, in bytes, mb or gb", breakdown),
];

/// Bytes by kind, largest first.
pub(super) fn kinds(node: &NodeClient) -> Result<Vec<(String, u64)>, Failure> {
    let body = node.get(&format!("/api/nodes/{}/memory", word(&node.name())))?;
    let kinds = body["memory"].as_object().into_iter().flatten();
    let mut kinds: Vec<(String, u64)> =
        kinds.filter_map(|(kind, bytes)| Some((kind.clone(), bytes.as_u64()?))).collect();
    kinds.sort_by_key(|(kind, bytes)| (std::cmp::Reverse(*bytes), kind.clone()));
    Ok(kinds)
}

fn percentage(bytes: u64, total: u64) -> f64 {
    (bytes as f64 / total.max(1) as f64 * 10_000.0).round() / 100.0
}

/// A line for each kind.
pub(super) fn lines(kinds: &[(String, u64)], unit: &str) -> String {
    let total = kinds.iter().map(|(_, bytes)| bytes).sum();
    let mut text = String::new();
    for (kind, bytes) in kinds {
        let size = match unit {
            "bytes" => bytes.to_string(),
            "mb" => rounded(*bytes as f64 / 1e6),
            _ => rounded(*bytes as f64 / 1e9),
        };
        let _ = writeln!(text, "{kind}: {size} {unit} ({:?}%)", percentage(*bytes, total));
    }
    text
}

/// At most four decimal places, at least one.
pub(super) fn rounded(number: f64) -> String {
    format!("{:?}", (number * 10_000.0).round() / 10_000.0)
}

fn breakdown(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let unit = call.given("unit").unwrap_or("gb").to_ascii_lowercase();
    if !["bytes", "mb", "gb"].contains(&unit.as_str()) {
        return Err(Failure::Usage(format!(
            "Error (argument validation): \"unit '{unit}' is not supported. Please use one of: bytes, mb, gb\""
        )));
    }
    let node = call.node()?;
    call.say(&format!("Reporting memory breakdown on node {}...", node.name()));
    let kinds = kinds(&node)?;
    let total = kinds.iter().map(|(_, bytes)| bytes).sum();
    let value: Map<String, Value> = kinds
        .iter()
        .map(|(kind, bytes)| (kind.clone(), json!({"bytes": bytes, "percentage": percentage(*bytes, total)})))
        .collect();
    Ok(CommandOutput::Report { text: lines(&kinds, &unit), value: Value::Object(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_by_rabbitmq() {
        let kinds = [("binary".to_owned(), 79_548_400), ("code".to_owned(), 0)];
        assert_eq!(lines(&kinds, "mb"), "binary: 79.5484 mb (100.0%)\ncode: 0.0 mb (0.0%)\n");
        assert_eq!(lines(&kinds, "gb"), "binary: 0.0795 gb (100.0%)\ncode: 0.0 gb (0.0%)\n");
        assert_eq!(lines(&kinds, "bytes"), "binary: 79548400 bytes (100.0%)\ncode: 0 bytes (0.0%)\n");
    }
}
