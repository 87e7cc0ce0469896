//! Commands before and after the upgrade of a node.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::life::POLL;
use super::{Command, CommandGroup, UPGRADE};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

/// Default timeout of RabbitMQ's tool for a majority and one more.
const QUORUM_PATIENCE: Duration = Duration::from_secs(120);
/// Timeouts from here on mean none, for which RabbitMQ's tool takes its default.
const FOREVER_S: u64 = 1_000_000_000;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(UPGRADE, "drain", CommandGroup::Upgrade, "", "Puts the node in maintenance mode: it serves no clients until it is revived or restarted", drain),
    Command::new(UPGRADE, "revive", CommandGroup::Upgrade, "", "Ends the maintenance mode of the node: it serves clients again", revive),
    Command::new(UPGRADE, "await_online_quorum_plus_one", CommandGroup::Upgrade, "", "Waits until no queue would lose its majority without this node", await_quorum),
    Command::new(UPGRADE, "await_online_synchronized_mirror", CommandGroup::Upgrade, "", "Succeeds: there are no mirrors to wait for", await_mirrors),
    Command::new(UPGRADE, "post_upgrade", CommandGroup::Upgrade, "", "Succeeds: queues have one member each yet, so nothing is rebalanced", post_upgrade),
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
    let node = call.node()?;
    let patience = call.options.timeout.filter(|given| given.as_secs() < FOREVER_S).unwrap_or(QUORUM_PATIENCE);
    call.say(&format!(
        "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for {} seconds...",
        patience.as_secs()
    ));
    if is_alone(&node)? {
        return alone(call);
    }
    let deadline = Instant::now() + patience;
    while node.request("GET", "/api/health/checks/node-is-quorum-critical", None)?.status != 200 {
        if Instant::now() >= deadline {
            return Err(Failure::check(
                "time is up, no quorum + 1 online replicas came online for at least some quorum queues or streams",
            ));
        }
        thread::sleep(POLL);
    }
    Ok(CommandOutput::Done)
}

fn await_mirrors(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Will wait for a synchronised mirror be online for all classic mirrored queues...");
    if is_alone(&node)? { alone(call) } else { Ok(CommandOutput::Done) }
}

/// Whether the node has no cluster, or one of which it is the only member.
fn is_alone(node: &NodeClient) -> Result<bool, Failure> {
    Ok(node.list("/api/nodes?columns=name")?.len() <= 1)
}

/// RabbitMQ's output for a node without a cluster.
fn alone(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
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

#[cfg(test)]
mod tests {
    use crate::stand_in::StandIn;
    use crate::tool::Tool;

    const NODES: &str = "GET /api/nodes?columns=name";
    const CRITICAL: &str = "GET /api/health/checks/node-is-quorum-critical";

    #[test]
    fn a_majority_and_one_more_is_waited_for() {
        let node = StandIn::new("rabbit@a");
        node.answers(NODES, 200, r#"[{"name": "rabbit@a"}]"#);
        let said = node.run_as(Tool::Upgrade, "await_online_quorum_plus_one").expect("is alone");
        assert!(said.contains("for 120 seconds") && said.contains("the command does not apply"), "{said}");
        node.answers(NODES, 200, r#"[{"name": "rabbit@a"}, {"name": "rabbit@b"}]"#);
        node.answers(CRITICAL, 503, "{}");
        node.answers(CRITICAL, 200, "{}");
        let said = node.run_as(Tool::Upgrade, "await_online_quorum_plus_one -t 7").expect("isn't critical");
        assert!(said.ends_with("for 7 seconds...\n"), "{said}");
        node.answers(NODES, 200, r#"[{"name": "rabbit@a"}, {"name": "rabbit@b"}]"#);
        (0..10).for_each(|_| node.answers(CRITICAL, 503, "{}"));
        let failure = node.run_as(Tool::Upgrade, "await_online_quorum_plus_one -t 0.3").expect_err("is critical");
        assert!(failure.code() == 69 && failure.text().contains("time is up"), "{failure:?}");
    }

    #[test]
    fn nodes_are_waited_for_by_their_number() {
        let node = StandIn::new("rabbit@a");
        let path = "GET /api/nodes?columns=name,running";
        node.run("await_online_nodes 1").expect("is one");
        let nodes =
            |second: bool| format!(r#"[{{"name": "a", "running": true}}, {{"name": "b", "running": {second}}}]"#);
        node.answers(path, 200, &nodes(false));
        node.answers(path, 200, &nodes(true));
        let said = node.run("await_online_nodes 2 -t 9").expect("are two");
        assert_eq!(said, "Will wait for at least 2 nodes to join the cluster of rabbit@a. Timeout: 9 seconds.\n");
        (0..10).for_each(|_| node.answers(path, 200, &nodes(false)));
        let failure = node.run("await_online_nodes 2 -t 0.3").expect_err("is one");
        let told = "Error:\nError: timed out while waiting. Not enough nodes joined rabbit@a's cluster.";
        assert_eq!((failure.code(), failure.text()), (70, told));
    }
}
