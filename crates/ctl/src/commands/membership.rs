//! Members of the cluster: joining, leaving, forgetting.
//!
//! The requests of these commands, and of others about the cluster:
//!
//! | request | body | answers |
//! | --- | --- | --- |
//! | `PUT /api/cluster/join` | `{"node": NAME}`, a member of the cluster to join | as below; 204 if it is a member of it already |
//! | `PUT /api/cluster/reset` | `{"force": BOOLEAN}`: false leaves the cluster first, true doesn't ask it | as below |
//! | `DELETE /api/cluster/nodes/NAME` | `{}` | as below; 404 if it isn't a member. RabbitMQ's reason for a node that runs is `RabbitMQ on node NAME must be stopped with 'rabbitmqctl -n NAME stop_app' before it can be removed` |
//! | `GET /api/cluster/change` | | of the change that a 202 began: `{"state": "running"}`, `"done"`, or `"failed"` with `"reason"` |
//! | `GET /api/cluster/status` | | the nodes, see [`super::cluster`] |
//! | `GET /api/cluster/peers` | | the names that discovery finds, as a list |
//!
//! A change is answered with 204 when it is done, with 202 if the node goes on with it (it may restart, and not answer for a while), and
//! with another status and `{"reason": TEXT}` if it is refused. All of them are for administrators. Those of the node itself, `join`, `reset`
//! and `change`, are to be answered after `stop_app` as well: RabbitMQ's tools demand it before a reset, and scripts do it before a join, too.

use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::life::{PATIENCE, STEP};
use super::{CTL, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "join_cluster", CommandGroup::Cluster, "<existing_cluster_member> [--disc]", "Makes the node a member of the cluster of another one; its own users, queues and messages go", join),
    Command::new(CTL, "reset", CommandGroup::Cluster, "", "Removes the node from its cluster, and all data from its disk", reset),
    Command::new(CTL, "force_reset", CommandGroup::Cluster, "", "Removes all data from the node's disk without asking its cluster, which has to forget it", force_reset),
    Command::new(CTL, "forget_cluster_node", CommandGroup::Cluster, "<existing_cluster_member_node> [--offline]", "Removes a stopped node from the cluster", forget),
];

fn join(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.process()?;
    let own = node.name();
    let given = call.word("existing_cluster_member").to_owned();
    let target = with_host(&given, &own);
    call.say(&format!("Clustering node {own} with {target}"));
    if target == own {
        return Err(Failure::refused(&format!("Error: cannot cluster node with itself: {own}")));
    }
    change(call, &node, "PUT", "/api/cluster/join", json!({"node": target}))?;
    Ok(CommandOutput::Done)
}

fn reset(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.process()?;
    call.say(&format!("Resetting node {} ...", node.name()));
    change(call, &node, "PUT", "/api/cluster/reset", json!({"force": false}))?;
    Ok(CommandOutput::Done)
}

fn force_reset(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.process()?;
    call.say(&format!("Forcefully resetting node {} ...", node.name()));
    change(call, &node, "PUT", "/api/cluster/reset", json!({"force": true}))?;
    Ok(CommandOutput::Done)
}

fn forget(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    if call.has("offline") {
        return Err(Failure::Usage(
            "Error:\na cluster without a majority of its nodes can't forget one, and no single node may do it for them: run 'leveret recover \
             --accept-data-loss' on the data directory of the node that is to go on"
                .to_owned(),
        ));
    }
    let node = call.node()?;
    let name = with_host(call.word("existing_cluster_member_node"), &node.name());
    call.say(&format!("Removing node {name} from the cluster"));
    let path = format!("/api/cluster/nodes/{}", word(&name));
    match change(call, &node, "DELETE", &path, json!({})) {
        Err(Refusal::NotFound) => {
            Err(Failure::check("{:not_a_cluster_node, ~c\"The node selected is not in the cluster.\"}"))
        }
        other => other.map(|()| CommandOutput::Done).map_err(Failure::from),
    }
}

/// A name with its host: that of the own name if it has none, as in RabbitMQ's tools.
fn with_host(name: &str, own: &str) -> String {
    match own.split_once('@') {
        Some((_, host)) if !name.contains('@') => format!("{name}@{host}"),
        _ => name.to_owned(),
    }
}

/// The reason why a change isn't made.
enum Refusal {
    /// Its object, or the route for it, is missing.
    NotFound,
    Other(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal::Other(failure)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Failure::check(
                "the node doesn't know this change; if it was stopped, start it with 'rabbitmqctl start_app' first",
            ),
            Refusal::Other(failure) => failure,
        }
    }
}

/// Sends a change of the cluster, and waits until it is done. The node was there a moment before.
fn change(call: &Call<'_>, node: &NodeClient, method: &str, path: &str, body: Value) -> Result<(), Refusal> {
    let response = match node.request(method, path, Some(&body)) {
        // A node that has just started may go down for the change before it has answered: the second time it says whether it is done.
        Err(Failure::Unavailable(_)) if method == "PUT" => {
            until_changed(call)?;
            call.process()?.request(method, path, Some(&body))?
        }
        answered => answered?,
    };
    match response.status {
        202 => Ok(until_changed(call)?),
        200..=299 => Ok(()),
        404 => Err(Refusal::NotFound),
        _ => Err(Failure::check(&response.reason()).into()),
    }
}

/// Waits for the end of a change. Meanwhile the process may not answer, if it starts again.
fn until_changed(call: &Call<'_>) -> Result<(), Failure> {
    let patience = call.options.timeout.unwrap_or(PATIENCE);
    let deadline = Instant::now() + patience;
    loop {
        let answer = call.process().and_then(|node| node.get("/api/cluster/change"));
        match answer {
            Ok(answer) => match answer["state"].as_str() {
                Some("done") => return Ok(()),
                Some("failed") => return Err(Failure::check(answer["reason"].as_str().unwrap_or("it failed"))),
                _ => {}
            },
            Err(Failure::Unavailable(_)) => {}
            Err(failure) => return Err(failure),
        }
        if Instant::now() >= deadline {
            return Err(Failure::Timeout(format!(
                "Error: the change goes on, but isn't done after {} s; look at the node's log",
                patience.as_secs_f64()
            )));
        }
        thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stand_in::StandIn;

    #[test]
    fn a_node_joins_and_the_tool_waits_for_it() {
        let node = StandIn::new("rabbit@b");
        node.answers("PUT /api/cluster/join", 202, "");
        node.answers("GET /api/cluster/change", 200, r#"{"state": "running"}"#);
        node.answers("GET /api/cluster/change", 200, r#"{"state": "done"}"#);
        let said = node.run("join_cluster rabbit@a").expect("joins");
        assert_eq!(said, "Clustering node rabbit@b with rabbit@a\n");
        assert_eq!(node.asked("PUT /api/cluster/join"), [json!({"node": "rabbit@a"})]);
        // Without a host the own one is meant.
        node.answers("PUT /api/cluster/join", 204, "");
        assert_eq!(node.run("-q join_cluster hare --disc").as_deref(), Ok(""));
        assert_eq!(node.asked("PUT /api/cluster/join"), [json!({"node": "hare@b"})]);
    }

    #[test]
    fn a_refused_change_gives_its_reason() {
        let node = StandIn::new("rabbit@b");
        node.answers("PUT /api/cluster/join", 409, r#"{"reason": "it holds 5 durable messages"}"#);
        let failure = node.run("join_cluster rabbit@a").expect_err("is refused");
        assert_eq!((failure.code(), failure.text()), (69, "Error:\nit holds 5 durable messages"));
        node.answers("PUT /api/cluster/join", 202, "");
        node.answers("GET /api/cluster/change", 200, r#"{"state": "failed", "reason": "wrong cookie"}"#);
        assert_eq!(node.run("join_cluster rabbit@a").expect_err("fails").text(), "Error:\nwrong cookie");
        node.answers("DELETE /api/cluster/nodes/rabbit%40a", 409, r#"{"reason": "it runs"}"#);
        assert_eq!(node.run("forget_cluster_node rabbit@a").expect_err("runs").text(), "Error:\nit runs");
        let failure = node.run("forget_cluster_node rabbit@z").expect_err("is none");
        let told = "Error:\n{:not_a_cluster_node, ~c\"The node selected is not in the cluster.\"}";
        assert_eq!((failure.code(), failure.text()), (69, told));
    }

    #[test]
    fn a_change_that_takes_too_long_is_a_timeout() {
        let node = StandIn::stopped("rabbit@b");
        node.answers("PUT /api/cluster/reset", 202, "");
        (0..1000).for_each(|_| node.answers("GET /api/cluster/change", 200, r#"{"state": "running"}"#));
        let began = Instant::now();
        let failure = node.run("reset -t 0.1").expect_err("is late");
        assert!(failure.code() == 75 && began.elapsed() < Duration::from_secs(5), "{failure:?}");
    }

    #[test]
    fn resets_and_removals_are_sent_as_they_are_meant() {
        let node = StandIn::stopped("rabbit@b");
        (0..2).for_each(|_| node.answers("PUT /api/cluster/reset", 204, ""));
        assert_eq!(node.run("reset").as_deref(), Ok("Resetting node rabbit@b ...\n"));
        assert_eq!(node.run("force_reset").as_deref(), Ok("Forcefully resetting node rabbit@b ...\n"));
        assert_eq!(node.asked("PUT /api/cluster/reset"), [json!({"force": false}), json!({"force": true})]);
        let node = StandIn::new("rabbit@b");
        node.answers("DELETE /api/cluster/nodes/rabbit%40a", 204, "");
        let said = node.run("forget_cluster_node rabbit@a").expect("is removed");
        assert_eq!(said, "Removing node rabbit@a from the cluster\n");
    }

    #[test]
    fn impossible_changes_are_refused_before_they_are_sent() {
        let node = StandIn::new("rabbit@b");
        for (line, code, part) in [
            ("join_cluster --ram rabbit@a", 64, "Invalid options for this command:\n--ram : \n"),
            ("reset", 69, "start it with 'rabbitmqctl start_app' first"),
            ("reset now", 64, "too many arguments"),
            ("join_cluster rabbit@b", 70, "cannot cluster node with itself: rabbit@b"),
            ("join_cluster", 64, "not enough arguments"),
            ("join_cluster a b", 64, "too many arguments"),
            ("forget_cluster_node --offline rabbit@a", 64, "leveret recover --accept-data-loss"),
            ("force_boot", 64, "a node that was a member starts by itself"),
            ("rename_cluster_node a b", 64, "forget_cluster_node"),
            ("force_standalone_khepri_boot", 64, "leveret recover --accept-data-loss"),
        ] {
            let failure = node.run(line).expect_err(line);
            assert!(failure.code() == code && failure.text().contains(part), "{line}: {failure:?}");
        }
    }
}
