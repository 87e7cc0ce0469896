//! RabbitMQ's commands that aren't supported: they say so, and exit with 64.

use super::{CHECK, COORDINATION, CTL, Command, CommandGroup, LOOK, REPLICAS, STREAMS};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::failure::Failure;
use crate::tool::Tool;

const MIRRORS: &str = "classic queues have no mirrors, as in RabbitMQ 4, whose command ends with a stack trace";
const CLUSTER: &str = "queues and streams have one member each yet";
const ERLANG: &str = "there is no Erlang and no Elixir to evaluate it; look at the HTTP API and at 'rabbitmqctl help'";
const ENCRYPTION: &str = "encrypted values of configurations aren't built yet";

const fn missing(tools: &'static [Tool], name: &'static str, why: &'static str) -> Command {
    let mut command = Command::new(tools, name, CommandGroup::Missing, "[<word>...]", why, refuse);
    command.missing = Some(why);
    command
}

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    missing(REPLICAS, "list_policies_with_classic_queue_mirroring", MIRRORS),
    missing(REPLICAS, "list_operator_policies_with_classic_queue_mirroring", MIRRORS),
    missing(REPLICAS, "check_if_cluster_has_classic_queue_mirroring_policy", MIRRORS),
    missing(CTL, "remove_classic_queue_mirroring_from_policies", MIRRORS),
    missing(CTL, "force_boot", "it isn't needed: a node that was a member starts by itself, whatever the others do"),
    missing(CTL, "force_standalone_khepri_boot", "run 'leveret recover --accept-data-loss' on the data directory of the node that is to go on without the others"),
    missing(CTL, "rename_cluster_node", "a node keeps its name; let a new one join, then run forget_cluster_node for the old one"),
    missing(CTL, "update_cluster_nodes", "it isn't needed: nodes tell each other their members and addresses"),
    missing(CTL, "eval_file", ERLANG),
    missing(CTL, "exec", ERLANG),
    missing(CTL, "encode", ENCRYPTION),
    missing(CTL, "decode", ENCRYPTION),
    missing(CTL, "encrypt_conf_value", ENCRYPTION),
    missing(CTL, "decrypt_conf_value", ENCRYPTION),
    missing(LOOK, "list_ciphers", ENCRYPTION),
    missing(LOOK, "list_hashes", ENCRYPTION),
    missing(CTL, "set_channel_interceptor_priorities", "there are no plugins that could intercept"),
    missing(CHECK, "reset_node_auth_attempt_metrics", "counters only grow"),
    missing(CHECK, "enable_auth_attempt_source_tracking", "logins are counted by protocol, not by source"),
    missing(CHECK, "disable_auth_attempt_source_tracking", "logins are counted by protocol, not by source"),
    missing(CTL, "reset_stats_db", "counters only grow"),
    missing(LOOK, "deactivate_free_disk_space_monitoring", "free disk space is always watched; see set_disk_free_limit"),
    missing(CHECK, "consume_event_stream", "events aren't built yet"),
    missing(CHECK, "maybe_stuck", "a wait has a reason: see the column wait of the HTTP API"),
    missing(CHECK, "observer", "it shows Erlang's processes, of which there are none"),
    missing(CHECK, "remote_shell", ERLANG),
    missing(CHECK, "erlang_cookie_hash", "tools need no cookie: the local socket is the user's own. Nodes with different ones say so in their logs"),
    missing(CHECK, "erlang_cookie_sources", "tools need no cookie: the local socket is the user's own"),
    missing(COORDINATION, "coordinator_status", "a stream has one member, which nothing coordinates"),
    missing(STREAMS, "add_replica", CLUSTER),
    missing(STREAMS, "delete_replica", CLUSTER),
    missing(STREAMS, "grow", CLUSTER),
    missing(STREAMS, "shrink", CLUSTER),
    missing(STREAMS, "transfer_leadership", CLUSTER),
    missing(CHECK, "list_network_interfaces", "use the system's tools, such as 'ip address'"),
];

/// Never called: the command is refused before it runs.
fn refuse(_: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    Ok(CommandOutput::Done)
}
