//! Plugins. What RabbitMQ has as plugins is built in here, or isn't there; nothing is enabled or disabled.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{Command, Group, PLUGINS};
use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(PLUGINS, "list", Group::Plugins, "[<pattern>] [--enabled] [--implicitly-enabled] [--minimal] [--verbose]", "Lists plugins and their state: -E enabled, -e also implicitly, -m names only, -v with descriptions", list),
    Command::new(PLUGINS, "enable", Group::Plugins, "[<plugin>...] [--all] [--offline] [--online]", "Succeeds for what is built in, and refuses what isn't built yet", enable),
    Command::new(PLUGINS, "disable", Group::Plugins, "[<plugin>...] [--all] [--offline] [--online]", "Succeeds for what isn't there and for rabbitmq_amqp1_0, which does nothing; what is built in can't be taken out", disable),
    Command::new(PLUGINS, "set", Group::Plugins, "[<plugin>...] [--offline] [--online]", "Succeeds if all of these are built in", set),
    Command::new(PLUGINS, "is_enabled", Group::Monitoring, "<plugin>... [--offline] [--online]", "Exits with a non-zero code if a plugin isn't there", is_enabled),
    Command::new(PLUGINS, "directories", Group::Monitoring, "[--offline] [--online]", "Says that there are no plugin directories", directories),
];

/// RabbitMQ's plugins whose work this node does, and what they are.
const BUILT_IN: &[(&str, &str)] = &[
    ("rabbitmq_amqp1_0", "AMQP 1.0, which is part of the core"),
    ("rabbitmq_management", "the HTTP API"),
    ("rabbitmq_management_agent", "statistics for the HTTP API"),
    ("rabbitmq_prometheus", "metrics"),
    ("rabbitmq_web_dispatch", "HTTP listeners"),
];

/// Those that RabbitMQ has and this node doesn't.
const ABSENT: &[&str] = &[
    "rabbitmq_auth_backend_cache",
    "rabbitmq_auth_backend_http",
    "rabbitmq_auth_backend_internal_loopback",
    "rabbitmq_auth_backend_ldap",
    "rabbitmq_auth_backend_oauth2",
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_exchange_federation",
    "rabbitmq_federation",
    "rabbitmq_federation_management",
    "rabbitmq_federation_prometheus",
    "rabbitmq_jms_topic_exchange",
    "rabbitmq_mqtt",
    "rabbitmq_peer_discovery_aws",
    "rabbitmq_peer_discovery_common",
    "rabbitmq_peer_discovery_consul",
    "rabbitmq_peer_discovery_etcd",
    "rabbitmq_peer_discovery_k8s",
    "rabbitmq_queue_federation",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    "rabbitmq_shovel_prometheus",
    "rabbitmq_stomp",
    "rabbitmq_stream",
    "rabbitmq_stream_management",
    "rabbitmq_top",
    "rabbitmq_tracing",
    "rabbitmq_trust_store",
    "rabbitmq_web_mqtt",
    "rabbitmq_web_stomp",
];

fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(known, _)| *known == name)
}

fn list(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let pattern = call.given("pattern").unwrap_or("").to_owned();
    let (only_enabled, minimal) = (call.has("enabled") || call.has("implicitly-enabled"), call.has("minimal"));
    let verbose = call.has("verbose");
    let node = call.node()?;
    let version = node.node["rabbitmq_version"].as_str().unwrap_or_default().to_owned();
    let mut names: BTreeSet<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    if !only_enabled {
        names.extend(ABSENT);
    }
    names.retain(|name| name.contains(pattern.trim_matches(['.', '*', '^', '$'])));
    call.say(&format!("Listing plugins with pattern \"{}\" ...", if pattern.is_empty() { ".*" } else { &pattern }));
    if !minimal {
        call.say(" Configured: E = explicitly enabled; e = implicitly enabled");
        call.say(&format!(" | Status: * = running on {}", node.name()));
        call.say(" |/");
    }
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for name in &names {
        let mark = if is_built_in(name) { "E*" } else { "  " };
        let _ = match minimal {
            true => writeln!(text, "{name}"),
            false => writeln!(text, "[{mark}] {name:width$} {version}"),
        };
        if let (true, Some((_, described))) = (verbose, BUILT_IN.iter().find(|(known, _)| known == name)) {
            let _ = writeln!(text, "     Description: {described}");
        }
    }
    let plugins: Vec<Value> = names.iter().map(|name| value(name, &version)).collect();
    let value = json!({
        "status": "running",
        "format": if minimal { "minimal" } else if verbose { "verbose" } else { "normal" },
        "plugins": plugins,
    });
    Ok(Answer::Report { text, value })
}

fn value(name: &str, version: &str) -> Value {
    let running = is_built_in(name);
    json!({
        "name": name,
        "enabled": if running { "enabled" } else { "not_enabled" },
        "running": running,
        "version": version,
        "running_version": if running { version } else { "" },
    })
}

/// The plugins that were named.
fn named(call: &Call<'_>) -> Result<Vec<String>, Failure> {
    match call.words("plugin") {
        names if names.is_empty() => {
            Err(Failure::Usage("Error (argument validation): not enough arguments.".to_owned()))
        }
        names => Ok(names),
    }
}

/// Whether this is a plugin of RabbitMQ, which warns of others and goes on.
fn is_known(name: &str) -> bool {
    is_built_in(name) || ABSENT.contains(&name)
}

fn check(call: &mut Call<'_>, names: &[String]) -> Result<(), Failure> {
    warn_of_unknown(call, names);
    let missing: Vec<&str> = names.iter().map(String::as_str).filter(|name| ABSENT.contains(name)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::refused(&format!(
            "The following plugins aren't there yet: {}. What is there is built in: {}",
            missing.join(", "),
            BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        ))),
    }
}

fn warn_of_unknown(call: &mut Call<'_>, names: &[String]) {
    let unknown: Vec<&str> = names.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        call.say(&format!("WARNING - plugins currently enabled but missing: {}\n", unknown.join(", ")));
    }
}

/// Needs no node: what is built in is on whether one runs or not, and scripts call it before they start one.
fn enable(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let names = if call.has("all") { Vec::new() } else { named(call)? };
    call.say(&format!("Enabling plugins:\n{}", names.join("\n")));
    check(call, &names)?;
    call.say("Plugin configuration unchanged.");
    Ok(Answer::Done)
}

fn disable(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let names =
        if call.has("all") { BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect() } else { named(call)? };
    call.say(&format!("Disabling plugins:\n{}", names.join("\n")));
    warn_of_unknown(call, &names);
    // RabbitMQ's is empty too since 4.0, and scripts that are older take it out before they put it in.
    let does_something = |name: &&str| is_built_in(name) && *name != "rabbitmq_amqp1_0";
    let here: Vec<&str> = names.iter().map(String::as_str).filter(does_something).collect();
    match here.is_empty() {
        true => {
            call.say("Plugin configuration unchanged.");
            Ok(Answer::Done)
        }
        false => Err(Failure::refused(&format!("{} can't be disabled: it is built in", here.join(", ")))),
    }
}

fn set(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let names = call.words("plugin");
    call.say(&format!("Enabling plugins:\n{}", names.join("\n")));
    check(call, &names)?;
    call.say("Plugin configuration unchanged.");
    Ok(Answer::Done)
}

fn is_enabled(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let names = call.words("plugin");
    let node = match call.has("offline") {
        true => "offline".to_owned(),
        false => call.node()?.name(),
    };
    let (plugin, is) = if names.len() == 1 { ("plugin", "is") } else { ("plugins", "are") };
    let listed = names.join(", ");
    call.say(&format!("Asking node {node} if {plugin} {listed} {is} enabled..."));
    let missing: Vec<&str> = names.iter().map(String::as_str).filter(|name| !is_built_in(name)).collect();
    if missing.is_empty() {
        let text = format!("{}{} {listed} {is} enabled on node {node}", plugin[..1].to_uppercase(), &plugin[1..]);
        return Ok(Answer::Report { value: json!({"result": "ok", "message": text}), text });
    }
    let all: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let (plugin, is) = if missing.len() == 1 { ("Plugin", "is") } else { ("Plugins", "are") };
    Err(Failure::check(&format!(
        "{plugin} {} {is} not enabled on node {node}. Enabled plugins and dependencies: {}",
        missing.join(", "),
        all.join(", ")
    )))
}

fn directories(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let node = match call.has("offline") {
        true => "offline".to_owned(),
        false => call.node()?.name(),
    };
    call.say(&format!("Listing plugin directories used by node {node}"));
    let none = "none: plugins are built in";
    Ok(Answer::Report {
        text: format!(
            "Plugin archives directory: {none}\nPlugin expansion directory: {none}\nEnabled plugins file: {none}"
        ),
        value: json!({"plugins_dir": "", "plugins_expand_dir": "", "enabled_plugins_file": ""}),
    })
}
