//! The distribution of published messages' sizes.

use serde_json::{Value, json};

use super::{CHECK, Command, CommandGroup};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "message_size_stats", CommandGroup::Monitoring, "", "Displays the sizes of the messages that clients have published since the node started", sizes),
];

/// RabbitMQ's names of its ranges, by which the node counts; the last one has no upper bound.
const RANGES: &[(u64, &str)] = &[
    (100, "below 100B"),
    (1_000, "between 100B and 1KB"),
    (10_000, "between 1KB and 10KB"),
    (100_000, "between 10KB and 100KB"),
    (1_000_000, "between 100KB and 1MB"),
    (10_000_000, "between 1MB and 10MB"),
    (50_000_000, "between 10MB and 50MB"),
    (100_000_000, "between 50MB and 100MB"),
    (u64::MAX, "above 100MB"),
];

fn sizes(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Gathering message size statistics across the cluster using node {} ...", node.name()));
    let counted = node.list("/local/message-sizes")?;
    // A pair of bound and count; the last one has no bound.
    let count = |(bound, _): &(u64, &str)| {
        let of = counted.iter().find(|pair| pair[0].as_u64().unwrap_or(u64::MAX) == *bound);
        of.and_then(|pair| pair[1].as_u64()).unwrap_or(0)
    };
    let total: u64 = RANGES.iter().map(count).sum();
    let row = |range: &(u64, &str)| -> Value {
        let share = if total == 0 { 0.0 } else { count(range) as f64 * 100.0 / total as f64 };
        json!({"Message Size": range.1, "Count": count(range), "Percentage": format!("{share:.2}")})
    };
    let columns = ["Message Size", "Count", "Percentage"].map(str::to_owned);
    Ok(Rows::pick(&columns, RANGES.iter().map(row).collect()).into())
}
