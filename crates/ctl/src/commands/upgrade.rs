//! Commands before and after the upgrade of a node.

use serde_json::json;

use super::{Command, CommandGroup, UPGRADE};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(UPGRADE, "drain", CommandGroup::Upgrade, "", "Puts the node in maintenance mode: it serves no clients until it is revived or restarted", drain),
    Command::new(UPGRADE, "revive", CommandGroup::Upgrade, "", "Ends the maintenance mode of the node: it serves clients again", revive),
    Command::new(UPGRADE, "await_online_quorum_plus_one", CommandGroup::Upgrade, "", "Succeeds: a node that is alone can't wait for others", await_quorum),
    Command::new(UPGRADE, "await_online_synchronized_mirror", CommandGroup::Upgrade, "", "Succeeds: a node that is alone can't wait for others", await_mirrors),
    Command::new(UPGRADE, "post_upgrade", CommandGroup::Upgrade, "", "Succeeds: a node that is alone has nothing to rebalance", post_upgrade),
];

fn drain(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Will put node {name} into maintenance mode. The node will no longer serve any client traffic!"));
    node.change("PUT", &format!("/api/nodes/{}/maintenance", word(&name)), json!({}))?;
    Ok(CommandOutput::Done)
}

fn revive(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!(
        "Will put node {name} back into regular operating mode. The node will again serve client traffic and host \
         primary queue replicas."
    ));
    node.change("DELETE", &format!("/api/nodes/{}/maintenance", word(&name)), json!({}))?;
    Ok(CommandOutput::Done)
}

fn await_quorum(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    alone(call, "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for 120 seconds...")
}

fn await_mirrors(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    alone(call, "Will wait for a synchronised mirror be online for all classic mirrored queues...")
}

/// RabbitMQ's output for a node without a cluster.
fn alone(call: &mut Call<'_>, what: &str) -> Result<CommandOutput, Failure> {
    call.node()?;
    call.say(what);
    let text = |what: &str| {
        format!("Target node seems to be the only one in a single node cluster, the {what} does not apply")
    };
    if call.options.quiet || call.options.silent {
        return Ok(CommandOutput::Done);
    }
    Ok(CommandOutput::Report { text: text("command"), value: json!({"result": "ok", "message": text("check")}) })
}

fn post_upgrade(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    call.node()?;
    call.say("Executing post upgrade tasks...\nRebalancing queue masters...");
    Ok(CommandOutput::Done)
}
