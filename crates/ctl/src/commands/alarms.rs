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

/// The resources whose alarms are in effect.
pub(super) fn raised(node: &NodeClient) -> Result<Vec<String>, Failure> {
    let body = node.request("GET", "/api/health/checks/alarms", None)?.json();
    let alarms = body["alarms"].as_array().cloned().unwrap_or_default();
    Ok(alarms.iter().filter_map(|alarm| alarm["resource"].as_str().map(str::to_owned)).collect())
}

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
    let raised = raised(&node)?;
    let alarms: Vec<Value> = raised.iter().map(|resource| json!({"resource": resource, "node": name})).collect();
    let text = match raised.is_empty() {
        true => format!("Node {name} reported no alarms, local or clusterwide"),
        false => raised.iter().map(|resource| described(resource, &name)).collect::<Vec<_>>().join("\n"),
    };
    Ok(CommandOutput::Report { text, value: json!({"result": "ok", "node": name, "alarms": alarms}) })
}

fn check_all(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} to report any local resource alarms ...", node.name()));
    check(&node, "reported no alarms, local or clusterwide")
}

fn check_local(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Asking node {} to report any local resource alarms ...", node.name()));
    check(&node, "reported no local alarms")
}

fn check(node: &NodeClient, none: &str) -> Result<CommandOutput, Failure> {
    let (name, raised) = (node.name(), raised(node)?);
    if raised.is_empty() {
        let text = format!("Node {name} {none}");
        return Ok(CommandOutput::Report { value: json!({"result": "ok", "message": text}), text });
    }
    let described: Vec<String> = raised.iter().map(|resource| described(resource, &name)).collect();
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

    #[test]
    fn units_are_those_of_the_configuration() {
        let read = ["5", "48MiB", "2GiB", "50MB", "1k", "5x", "", "99999999999TiB"].map(bytes);
        let expected = [Some(5), Some(48 << 20), Some(2 << 30), Some(50_000_000), Some(1024), None, None, None];
        assert_eq!(read, expected);
    }
}
