//! Log lines about changes of users, permissions and virtual hosts: operators want to know when they were made.

use leveret_model::{Command, ConvertQueue, Topology};

/// The log lines of a command, as RabbitMQ writes them, computed from the topology before it; none for frequent commands.
pub(crate) fn lines(topology: &Topology, command: &Command) -> Vec<String> {
    match command {
        Command::CreateVhost { name } => vec![format!("Adding vhost '{name}'")],
        Command::DeleteVhost { name } => vec![format!("Deleting vhost '{name}'")],
        Command::PutUser(put) => {
            let name = &put.name;
            let first = match topology.user(name) {
                None => format!("Created user '{name}'"),
                Some(_) => format!("Successfully changed password for user '{name}'"),
            };
            let tags = put.tags.iter().map(|tag| &**tag).collect::<Vec<_>>().join(", ");
            vec![first, format!("Successfully set user tags for user '{name}' to [{tags}]")]
        }
        Command::DeleteUser { name } => vec![format!("Deleted user '{name}'")],
        Command::SetPermissions(set) => vec![format!(
            "Successfully set permissions for user '{}' in virtual host '{}' to '{}', '{}', '{}'",
            set.user, set.vhost, set.configure, set.write, set.read
        )],
        Command::ClearPermissions { user, vhost } => {
            vec![format!("Successfully cleared permissions for user '{user}' in virtual host '{vhost}'")]
        }
        Command::SetTopicPermissions(set) => vec![format!(
            "Successfully set topic permissions on exchange '{}' for user '{}' in virtual host '{}' to '{}', '{}'",
            set.exchange, set.user, set.vhost, set.write, set.read
        )],
        Command::ClearTopicPermissions { user, vhost, exchange } => {
            let of = exchange.as_ref().map(|exchange| format!(" on exchange '{exchange}'")).unwrap_or_default();
            vec![format!("Successfully cleared topic permissions{of} for user '{user}' in virtual host '{vhost}'")]
        }
        Command::SetPolicy(set) => {
            let apply_to = set.apply_to.as_ref().and_then(|apply_to| apply_to.as_str()).unwrap_or("all");
            vec![format!(
                "Successfully set {} '{}' matching {apply_to} names in virtual host '{}' using pattern '{}'",
                set.kind.name(),
                set.name,
                set.vhost,
                set.pattern.as_str().unwrap_or("")
            )]
        }
        Command::ClearPolicy { kind, vhost, name } => {
            vec![format!("Successfully cleared {} '{name}' in virtual host '{vhost}'", kind.name())]
        }
        Command::ConvertQueue(convert) => {
            let ConvertQueue { vhost, name, queue_type, .. } = convert;
            let to = queue_type.map(|queue_type| format!(" to the type {}", queue_type.name())).unwrap_or_default();
            vec![format!("Converting queue '{name}' in virtual host '{vhost}'{to}")]
        }
        _ => Vec::new(),
    }
}
