//! `eval`: without Erlang, expressions can't be evaluated, but those used by start scripts and test suites are
//! recognised; for others the error names the command that does the same.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup};
use crate::answer::CommandOutput;
use crate::call::{self, Call};
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "eval", CommandGroup::Operations, "[<expression>...]", "Answers some expressions of Erlang that scripts use, and names the command for others", eval),
];

/// A recognised expression.
#[derive(Debug, PartialEq)]
enum Asked {
    Node,
    Nodes,
    ReachedTargetClusterSize,
    IsPermitted(String),
    SetAlarm(String),
    ClearAlarm(String),
    Setting(&'static str),
    SetChannelMax(u16),
    SetLoopbackUsers(Vec<String>),
    /// Ends a connection of this name without a word to its client, and answers so.
    Kill {
        connection: String,
        answer: &'static str,
    },
}

/// Words in expressions, each with the command that does the same.
const INSTEAD: &[(&str, &str)] = &[
    ("rabbit_alarm", "rabbitmq-diagnostics alarms"),
    ("vm_memory", "rabbitmqctl set_vm_memory_high_watermark"),
    ("disk_monitor", "rabbitmqctl set_disk_free_limit"),
    ("disk_free", "rabbitmqctl set_disk_free_limit"),
    ("rabbit_amqqueue", "rabbitmqctl list_queues, delete_queue or purge_queue"),
    ("rabbit_exchange", "rabbitmqctl list_exchanges, or the HTTP API"),
    ("rabbit_binding", "rabbitmqctl list_bindings, or the HTTP API"),
    ("rabbit_vhost", "rabbitmqctl list_vhosts, add_vhost or delete_vhost"),
    ("rabbit_auth_backend_internal", "rabbitmqctl list_users, add_user, set_user_tags or set_permissions"),
    ("rabbit_policy", "rabbitmqctl list_policies"),
    ("rabbit_runtime_parameters", "rabbitmqctl list_global_parameters or set_global_parameter"),
    ("rabbit_connection_tracking", "rabbitmqctl list_connections or close_all_connections"),
    ("rabbit_networking", "rabbitmqctl list_connections or close_connection, rabbitmq-diagnostics listeners"),
    ("rabbit_channel", "rabbitmqctl list_channels"),
    ("rabbit_feature_flags", "rabbitmqctl list_feature_flags"),
    ("rabbit_deprecated_features", "rabbitmqctl list_deprecated_features"),
    ("rabbit_plugins", "rabbitmq-plugins list"),
    ("rabbit_maintenance", "rabbitmq-upgrade drain or revive"),
    ("rabbit_mnesia", "rabbitmqctl cluster_status"),
    ("rabbit_db", "rabbitmqctl cluster_status"),
    ("rabbit_nodes", "rabbitmqctl cluster_status"),
    ("rabbit_definitions", "rabbitmqctl export_definitions or import_definitions"),
    ("rabbit_log", "rabbitmqctl set_log_level"),
    ("logger:", "rabbitmqctl set_log_level"),
    ("lager:", "rabbitmqctl set_log_level"),
    ("erlang:memory", "rabbitmq-diagnostics memory_breakdown"),
    ("rabbit_vm", "rabbitmq-diagnostics memory_breakdown"),
    ("init:stop", "rabbitmqctl stop"),
    ("rabbit:stop", "rabbitmqctl stop_app"),
    ("rabbit:start", "rabbitmqctl start_app"),
    ("rabbit:status", "rabbitmqctl status"),
    ("rabbit:is_running", "rabbitmq-diagnostics check_running"),
    ("application:set_env", "a key of rabbitmq.conf and a start"),
    ("application:get", "rabbitmqctl environment"),
];

fn eval(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let mut expression = call.words("expression").join(" ");
    if expression.is_empty() {
        expression = call::input()?;
    }
    if !expression.trim_end().ends_with('.') {
        // RabbitMQ's text.
        return Err(Failure::Usage("Error (argument validation): \"syntax error before: \"".to_owned()));
    }
    let asked = recognised(&expression).ok_or_else(|| unknown(&expression))?;
    let answer = match asked {
        Asked::Node => atom(&call.process()?.name()),
        Asked::Nodes => "[]".to_owned(),
        Asked::ReachedTargetClusterSize => {
            let path = "/api/health/checks/reached-target-cluster-size";
            (call.node()?.request("GET", path, None)?.status == 200).to_string()
        }
        Asked::IsPermitted(feature) => {
            let features = call.node()?.list("/api/deprecated-features")?;
            let denied = features.iter().any(|known| known["name"] == feature.as_str() && known["state"] == "denied");
            (!denied).to_string()
        }
        Asked::SetAlarm(resource) => done(call, "PUT", &format!("/local/alarms/{}", word(&resource)), json!({}))?,
        Asked::ClearAlarm(resource) => done(call, "DELETE", &format!("/local/alarms/{}", word(&resource)), json!({}))?,
        Asked::Setting(name) => format!("{{ok,{}}}", term(&call.node()?.get("/local/settings")?[name])),
        Asked::SetChannelMax(number) => done(call, "PUT", "/local/settings", json!({"channel_max": number}))?,
        Asked::Kill { connection, answer } => {
            call.node()?.change("POST", "/local/connections/kill", json!({"name": connection}))?;
            answer.to_owned()
        }
        Asked::SetLoopbackUsers(names) => done(call, "PUT", "/local/settings", json!({"loopback_users": names}))?,
    };
    Ok(CommandOutput::Text(answer))
}

fn done(call: &Call<'_>, method: &str, path: &str, body: Value) -> Result<String, Failure> {
    call.node()?.change(method, path, body)?;
    Ok("ok".to_owned())
}

/// Recognises exactly the expressions listed here: an expression that is merely similar may mean something else.
fn recognised(expression: &str) -> Option<Asked> {
    let text: String = expression.chars().filter(|letter| !letter.is_whitespace()).collect();
    let inside = |begin: &str, end: &str| text.strip_prefix(begin)?.strip_suffix(end);
    match text.as_str() {
        "node()." => return Some(Asked::Node),
        "nodes()." => return Some(Asked::Nodes),
        "rabbit_nodes:reached_target_cluster_size()." => return Some(Asked::ReachedTargetClusterSize),
        "application:get_env(rabbit,channel_max)." => return Some(Asked::Setting("channel_max")),
        "application:get_env(rabbit,loopback_users)." => return Some(Asked::Setting("loopback_users")),
        _ => {}
    }
    if let Some(feature) = inside("rabbit_deprecated_features:is_permitted(", ").") {
        return name(feature).map(Asked::IsPermitted);
    }
    if let Some(limit) = inside("rabbit_alarm:set_alarm({{resource_limit,", "},[]}).") {
        return resource(limit).map(Asked::SetAlarm);
    }
    if let Some(limit) = inside("rabbit_alarm:clear_alarm({resource_limit,", "}).") {
        return resource(limit).map(Asked::ClearAlarm);
    }
    if let Some(number) = inside("application:set_env(rabbit,channel_max,", ").") {
        return number.parse().ok().map(Asked::SetChannelMax);
    }
    if let Some(killed) = killed(expression) {
        return Some(killed);
    }
    let users = inside("application:set_env(rabbit,loopback_users,[", "]).")?;
    let users = users.split(',').filter(|user| !user.is_empty());
    users.map(text_of).collect::<Option<Vec<String>>>().map(Asked::SetLoopbackUsers)
}

/// The forms in which suites of client libraries kill a connection. Its name, which is also its pid here, has blanks of its own.
fn killed(expression: &str) -> Option<Asked> {
    let (before, rest) = expression.split_once('"')?;
    let (connection, behind) = rest.rsplit_once('"')?;
    let plain = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
    let answer = match (&*plain(before), &*plain(behind)) {
        ("exit(rabbit_misc:string_to_pid(", "),kill).") => "true",
        ("rabbit_stream:kill_connection(", ").") => "ok",
        _ => return None,
    };
    let connection = connection.to_owned();
    (!connection.is_empty() && !connection.contains(['"', '\\'])).then_some(Asked::Kill { connection, answer })
}

/// `memory,node()`: an alarm of this node, whatever its name.
fn resource(limit: &str) -> Option<String> {
    let (resource, node) = limit.split_once(',')?;
    let is_node = node == "node()" || name(node).is_some_and(|node| node.contains('@'));
    (is_node && matches!(resource, "memory" | "disk")).then(|| resource.to_owned())
}

/// An atom, quoted or not.
fn name(text: &str) -> Option<String> {
    let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '@' | '-' | '.');
    (!text.is_empty() && text.chars().all(is_name)).then(|| text.to_owned())
}

/// `"text"` or `<<"text">>`.
fn text_of(text: &str) -> Option<String> {
    let text = text.strip_prefix("<<").and_then(|text| text.strip_suffix(">>")).unwrap_or(text);
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    (!text.contains(['"', '\\'])).then(|| text.to_owned())
}

/// A value as Erlang writes it.
fn term(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(term).collect::<Vec<_>>().join(",")),
        Value::String(text) => format!("<<\"{text}\">>"),
        other => other.to_string(),
    }
}

/// The name of a node as an atom, quoted where Erlang requires it.
fn atom(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '@');
    match name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{name}'"),
    }
}

fn unknown(expression: &str) -> Failure {
    let found = INSTEAD.iter().find(|(part, _)| expression.contains(part)).map(|(_, command)| *command);
    let instead = found.unwrap_or("the HTTP API, or a command of 'rabbitmqctl help' and 'rabbitmq-diagnostics help'");
    Failure::Usage(format!(
        "Error:\nthere is no Erlang to evaluate '{}'. Use instead: {instead}",
        expression.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_expressions_are_recognised_whatever_their_blanks() {
        let resource = |name: &str| name.to_owned();
        for (text, asked) in [
            ("node().", Asked::Node),
            (" nodes( ) .\n", Asked::Nodes),
            ("rabbit_nodes:reached_target_cluster_size().", Asked::ReachedTargetClusterSize),
            ("rabbit_deprecated_features:is_permitted(global_qos).", Asked::IsPermitted(resource("global_qos"))),
            ("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).", Asked::SetAlarm(resource("memory"))),
            (
                "rabbit_alarm:set_alarm({{resource_limit, disk, 'rabbit@my-host'}, []}).",
                Asked::SetAlarm(resource("disk")),
            ),
            ("rabbit_alarm:clear_alarm({resource_limit, disk, rabbit@host}).", Asked::ClearAlarm(resource("disk"))),
            ("application:get_env(rabbit, channel_max).", Asked::Setting("channel_max")),
            ("application:set_env(rabbit, channel_max, 5).", Asked::SetChannelMax(5)),
            ("application:set_env(rabbit, loopback_users, []).", Asked::SetLoopbackUsers(Vec::new())),
            (
                "application:set_env(rabbit, loopback_users, [<<\"guest\">>, \"a\"]).",
                Asked::SetLoopbackUsers(vec!["guest".to_owned(), "a".to_owned()]),
            ),
        ] {
            assert_eq!(recognised(text), Some(asked), "{text}");
        }
    }

    #[test]
    fn others_are_not_recognised_and_name_their_command() {
        for (text, command) in [
            ("rabbit_alarm:get_alarms().", "rabbitmq-diagnostics alarms"),
            ("rabbit_alarm:set_alarm({{resource_limit, cpu, node()}, []}).", "rabbitmq-diagnostics alarms"),
            ("application:set_env(rabbit, channel_max, -1).", "a key of rabbitmq.conf"),
            ("application:set_env(rabbit, loopback_users, [guest]).", "a key of rabbitmq.conf"),
            ("node(), rabbit_vhost:list().", "rabbitmqctl list_vhosts"),
            ("1 + 1.", "the HTTP API"),
        ] {
            assert_eq!(recognised(text), None, "{text}");
            let told = unknown(text);
            assert!(told.code() == 64 && told.text().contains(&format!("Use instead: {command}")), "{}", told.text());
        }
        assert_eq!((atom("rabbit@host"), atom("rabbit@my-host")), ("rabbit@host".into(), "'rabbit@my-host'".into()));
    }
}
