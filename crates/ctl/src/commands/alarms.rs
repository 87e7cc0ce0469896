//! Alarms, which block publishers, and their limits.

use serde_json::{Value, json};

use super::{CHECK, CTL, Command, CommandGroup, LOOK};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::NodeClient;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "alarms", CommandGroup::Monitoring, "", "Lists resource alarms that are in effect", list),
    Command::new(CHECK, "check_alarms", CommandGroup::Monitoring, "", "Exits with a non-zero code if an alarm is in effect", check_all),
    Command::new(CHECK, "check_local_alarms", CommandGroup::Monitoring, "", "Exits with a non-zero code if an alarm is in effect on this node", check_local),
    Command::new(CTL, "set_vm_memory_high_watermark", CommandGroup::Configuration, "<fraction> [<value>]", "Sets the memory watermark until the node stops: a fraction, or absolute <value>", set_memory),
    Command::new(LOOK, "activate_free_disk_space_monitoring", CommandGroup::Monitoring, "", "Does nothing: free disk space is always monitored", activate),
    Command::new(CTL, "set_disk_free_limit", CommandGroup::Configuration, "<disk_limit> [<fraction>]", "Sets the limit of free disk space until the node stops: bytes, or mem_relative <fraction>", set_disk),
];

/// An alarm in effect.
struct RaisedAlarm {
    resource: String,
    node: String,
}

impl RaisedAlarm {
    fn described(&self) -> String {
        described(&self.resource, &self.node)
    }
}

/// The alarms that a health check reports.
fn reported(node: &NodeClient, check: &str) -> Result<Vec<RaisedAlarm>, Failure> {
    let body = node.request("GET", &format!("/api/health/checks/{check}"), None)?.json();
    let own = node.name();
    let alarm = |alarm: &Value| {
        let resource = alarm["resource"].as_str()?.to_owned();
        Some(RaisedAlarm { resource, node: alarm["node"].as_str().unwrap_or(&own).to_owned() })
    };
    Ok(body["alarms"].as_array().into_iter().flatten().filter_map(alarm).collect())
}

/// The resources whose alarms are in effect on the node.
pub(super) fn raised(node: &NodeClient) -> Result<Vec<String>, Failure> {
    Ok(reported(node, LOCAL)?.into_iter().map(|alarm| alarm.resource).collect())
}

/// The check of all nodes.
const ALL: &str = "alarms";
/// The check of one node.
const LOCAL: &str = "local-alarms";

/// The description of an alarm, in RabbitMQ's words.
pub(super) fn described(resource: &str, node: &str) -> String {
    match resource {
        "memory" => format!("Memory alarm on node {node}"),
        "disk" => format!("Free disk space alarm on node {node}"),
        other => format!("{other} alarm on node {node}"),
    }
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Asking node {name} to report any known resource alarms ..."));
    let raised = reported(&node, ALL)?;
    let shown = |alarm: &RaisedAlarm| json!({"resource": alarm.resource, "node": alarm.node});
    let alarms: Vec<Value> = raised.iter().map(shown).collect();
    let text = match raised.is_empty() {
        true => format!("Node {name} reported no alarms, local or clusterwide"),
        false => raised.iter().map(RaisedAlarm::described).collect::<Vec<_>>().join("\n"),
    };
    Ok(CommandOutput::Report { text, value: json!({"result": "ok", "node": name, "alarms": alarms}) })
}

fn check_all(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} to report any local resource alarms ...", node.name()));
    check(&node, ALL, "reported no alarms, local or clusterwide")
}

fn check_local(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} to report any local resource alarms ...", node.name()));
    check(&node, LOCAL, "reported no local alarms")
}

fn check(node: &NodeClient, check: &str, none: &str) -> Result<CommandOutput, Failure> {
    let (name, raised) = (node.name(), reported(node, check)?);
    if raised.is_empty() {
        let text = format!("Node {name} {none}");
        return Ok(CommandOutput::Report { value: json!({"result": "ok", "message": text}), text });
    }
    let described: Vec<String> = raised.iter().map(RaisedAlarm::described).collect();
    Err(Failure::check(&described.join("\n")))
}

fn set_memory(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (first, value) = (call.word("fraction").to_owned(), call.given("value").map(str::to_owned));
    let (body, told) = match (first.as_str(), value) {
        ("absolute", Some(value)) => {
            let bytes = bytes(&value).ok_or_else(bad)?;
            (json!({"bytes": bytes}), format!("{value} bytes"))
        }
        ("absolute", None) => {
            return Err(Failure::Usage("Error (argument validation): not enough arguments.".to_owned()));
        }
        (_, Some(_)) => return Err(Failure::Usage("Error (argument validation): too many arguments.".to_owned())),
        (fraction, None) => {
            let factor: f64 = fraction.parse().map_err(|_| bad())?;
            if !(0.0..=1.0).contains(&factor) {
                return Err(Failure::bad_argument(
                    "Bad argument: The threshold should be a fraction between 0.0 and 1.0",
                ));
            }
            (json!({"factor": factor}), fraction.to_owned())
        }
    };
    let node = call.node()?;
    call.say(&format!("Setting memory threshold on {} to {told} ...", node.name()));
    node.change("PUT", "/local/alarm-limits/memory", body)?;
    Ok(CommandOutput::Done)
}

fn set_disk(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (first, fraction) = (call.word("disk_limit").to_owned(), call.given("fraction").map(str::to_owned));
    let (body, told) = match (first.as_str(), fraction) {
        ("mem_relative", Some(fraction)) => {
            let factor: f64 = fraction.parse().map_err(|_| bad())?;
            if !(0.0..=1000.0).contains(&factor) {
                return Err(bad());
            }
            (json!({"factor": factor}), format!("{fraction} times the total RAM"))
        }
        ("mem_relative", None) => {
            return Err(Failure::Usage("Error (argument validation): not enough arguments.".to_owned()));
        }
        (_, Some(_)) => return Err(Failure::Usage("Error (argument validation): too many arguments.".to_owned())),
        (limit, None) => (json!({"bytes": bytes(limit).ok_or_else(bad)?}), format!("{limit} bytes")),
    };
    let node = call.node()?;
    call.say(&format!("Setting disk free limit on {} to {told} ...", node.name()));
    node.change("PUT", "/local/alarm-limits/disk", body)?;
    Ok(CommandOutput::Done)
}

fn bad() -> Failure {
    Failure::bad_argument("Bad argument.")
}

/// Parses a number of bytes with a unit as in rabbitmq.conf.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let unit = match text[split..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" | "ki" => 1 << 10,
        "m" | "mib" | "mi" => 1 << 20,
        "g" | "gib" | "gi" => 1 << 30,
        "t" | "tib" | "ti" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn activate(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.node()?.name();
    call.say(&format!("[Re-]activating free disk space monitoring on node {name}..."));
    Ok(CommandOutput::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;
    use crate::tool::Tool;

    #[test]
    fn alarms_of_other_nodes_are_named_and_are_not_local() {
        let node = StandIn::new("rabbit@a");
        let body = r#"{"alarms": [{"resource": "memory", "node": "rabbit@b"}]}"#;
        let path = "GET /api/health/checks/alarms";
        node.answers(path, 503, body);
        let said = node.run_as(Tool::Diagnostics, "-q alarms").expect("a list");
        assert_eq!(said, "Memory alarm on node rabbit@b\n");
        node.answers(path, 503, body);
        let failure = node.run_as(Tool::Diagnostics, "-q check_alarms").expect_err("an alarm");
        assert!(failure.text().contains("Memory alarm on node rabbit@b"), "{failure:?}");
        node.answers("GET /api/health/checks/local-alarms", 200, r#"{"status": "ok"}"#);
        let said = node.run_as(Tool::Diagnostics, "-q check_local_alarms").expect("no local alarm");
        assert_eq!(said, "Node rabbit@a reported no local alarms\n");
    }

    #[test]
    fn units_are_those_of_the_configuration() {
        let read = ["5", "48MiB", "2GiB", "50MB", "1k", "5x", "", "99999999999TiB"].map(bytes);
        let expected = [Some(5), Some(48 << 20), Some(2 << 30), Some(50_000_000), Some(1024), None, None, None];
        assert_eq!(read, expected);
    }
}
