//! Plugins. RabbitMQ's plugins are either built in here or unavailable. The file enabled_plugins, if there is one,
//! lists those whose listeners are enabled.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Command, CommandGroup, PLUGINS, enabled_plugins};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(PLUGINS, "list", CommandGroup::Plugins, "[<pattern>] [--enabled] [--implicitly-enabled] [--minimal] [--verbose] [--offline] [--online]", "Lists plugins and their state: -E explicitly enabled ones, -e all enabled ones, -m names only, -v with descriptions", list),
    Command::new(PLUGINS, "enable", CommandGroup::Plugins, "[<plugin>...] [--all] [--offline] [--online]", "Adds built-in plugins to the file enabled_plugins, if there is one, and refuses plugins that don't exist yet", enable),
    Command::new(PLUGINS, "disable", CommandGroup::Plugins, "[<plugin>...] [--all] [--offline] [--online]", "Removes plugins from the file enabled_plugins, which the node reads when it starts", disable),
    Command::new(PLUGINS, "set", CommandGroup::Plugins, "[<plugin>...] [--offline] [--online]", "Replaces the list in the file enabled_plugins, which the node reads when it starts; warns of plugins that don't exist yet", set),
    Command::new(PLUGINS, "is_enabled", CommandGroup::Monitoring, "<plugin>... [--offline] [--online]", "Exits with a non-zero code if a plugin isn't enabled", is_enabled),
    Command::new(PLUGINS, "directories", CommandGroup::Monitoring, "[--offline] [--online]", "Reports the file that lists the plugins, and that plugins have no directories", directories),
];

/// RabbitMQ's plugins: name, availability, plugins enabled with it, description.
const TABLE: &str = include_str!("../../../config/src/plugins.tsv");

/// A row of the table.
struct Plugin {
    name: &'static str,
    /// `core`, `built` or `absent`.
    state: &'static str,
    implies: &'static str,
    description: &'static str,
}

fn table() -> impl Iterator<Item = Plugin> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        Plugin { name: next(), state: next(), implies: next(), description: next() }
    })
}

fn find(name: &str) -> Option<Plugin> {
    table().find(|plugin| plugin.name == name)
}

fn is_there(name: &str) -> bool {
    find(name).is_some_and(|plugin| plugin.state != "absent")
}

/// The enabled plugins, and the file that lists them.
struct Enabled {
    /// The node's name; `None` if no node was asked.
    node: Option<String>,
    /// The version reported for plugins.
    version: String,
    /// The file that lists them, if known.
    file: Option<PathBuf>,
    /// The plugins in the file; `None` if it doesn't exist and all are enabled.
    listed: Option<BTreeSet<String>>,
    /// The plugins in effect; `None` if no node was asked.
    running: Option<BTreeSet<String>>,
}

impl Enabled {
    /// Reads them from the node, or without a node unless `needs_node`.
    fn of(call: &Call<'_>, needs_node: bool) -> Result<Self, Failure> {
        let node = match call.has("offline") {
            true => None,
            false if needs_node => Some(call.node()?),
            false => call.node().ok(),
        };
        let Some(node) = node else {
            let file = enabled_plugins::offline();
            let listed = enabled_plugins::read(&file)?;
            let version = super::general::RABBITMQ_VERSION.to_owned();
            return Ok(Enabled { node: None, version, file: Some(file), listed, running: None });
        };
        let said = node.get("/local/plugins")?;
        let file = said["file"].as_str().map(PathBuf::from);
        let listed = file.as_deref().map(enabled_plugins::read).transpose()?.flatten();
        let running = said["running"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let version = node.node["rabbitmq_version"].as_str().unwrap_or_default().to_owned();
        Ok(Enabled { node: Some(node.name()), version, file, listed, running: Some(running.collect()) })
    }

    /// The plugins enabled explicitly.
    fn explicit(&self) -> BTreeSet<String> {
        match &self.listed {
            Some(listed) => listed.clone(),
            None => ["rabbitmq_management", "rabbitmq_prometheus"].map(str::to_owned).into(),
        }
    }

    /// These, their dependencies, and those that are always available, as far as they are built in.
    fn all(&self) -> BTreeSet<String> {
        let mut wanted = self.explicit();
        let mut open: Vec<String> = wanted.iter().cloned().collect();
        while let Some(name) = open.pop() {
            let implied = find(&name).map_or("", |plugin| plugin.implies).split(',');
            for name in implied.filter(|name| !name.is_empty()) {
                if wanted.insert(name.to_owned()) {
                    open.push(name.to_owned());
                }
            }
        }
        wanted.extend(table().filter(|plugin| plugin.state == "core").map(|plugin| plugin.name.to_owned()));
        wanted.retain(|name| is_there(name));
        wanted
    }

    fn node(&self) -> &str {
        self.node.as_deref().unwrap_or("offline")
    }

    /// Writes another list to the file, and reports the result.
    fn change(&self, call: &mut Call<'_>, names: BTreeSet<String>) -> Result<CommandOutput, Failure> {
        let unchanged = match (&self.listed, &self.file) {
            (Some(listed), _) => *listed == names,
            (None, Some(_)) => self.explicit() == names,
            (None, None) => true,
        };
        if unchanged {
            call.say("Plugin configuration unchanged.");
            return Ok(CommandOutput::Done);
        }
        if let Some(file) = &self.file {
            enabled_plugins::write(file, &names)?;
            let lines: Vec<String> = names.iter().map(|name| format!("  {name}")).collect();
            call.say(&format!("The following plugins have been configured:\n{}", lines.join("\n")));
            call.say(&format!("{} is written; the node reads it when it starts.", file.display()));
        }
        Ok(CommandOutput::Done)
    }
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let pattern = call.given("pattern").unwrap_or("").to_owned();
    let (explicitly, implicitly) = (call.has("enabled"), call.has("implicitly-enabled"));
    let (minimal, verbose) = (call.has("minimal"), call.has("verbose"));
    let enabled = Enabled::of(call, true)?;
    let (explicit, all) = (enabled.explicit(), enabled.all());
    let state = |name: &str| match (explicit.contains(name), all.contains(name)) {
        (true, _) => "enabled",
        (false, true) => "implicit",
        (false, false) => "not_enabled",
    };
    let is_wanted = |name: &str| match state(name) {
        _ if implicitly => all.contains(name) || explicit.contains(name),
        state => !explicitly || state == "enabled",
    };
    let looked_for = pattern.trim_matches(['.', '*', '^', '$']);
    let plugins: Vec<Plugin> =
        table().filter(|plugin| plugin.name.contains(looked_for) && is_wanted(plugin.name)).collect();
    let runs = |name: &str| enabled.running.as_ref().is_some_and(|running| running.contains(name));
    call.say(&format!("Listing plugins with pattern \"{}\" ...", if pattern.is_empty() { ".*" } else { &pattern }));
    if !minimal {
        call.say(" Configured: E = explicitly enabled; e = implicitly enabled");
        match &enabled.node {
            Some(node) => call.say(&format!(" | Status: * = running on {node}")),
            None => call.say(" | Status: [failed to contact the node - status not shown]"),
        }
        call.say(" |/");
    }
    let width = plugins.iter().map(|plugin| plugin.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Plugin { name, description, .. } in &plugins {
        let mark = match state(name) {
            "enabled" => 'E',
            "implicit" => 'e',
            _ => ' ',
        };
        let status = if runs(name) { '*' } else { ' ' };
        let _ = match minimal {
            true => writeln!(text, "{name}"),
            false => writeln!(text, "[{mark}{status}] {name:width$} {}", enabled.version),
        };
        if verbose {
            let _ = writeln!(text, "     Description: {description}");
        }
    }
    let value = |plugin: &Plugin| {
        json!({
            "name": plugin.name,
            "enabled": state(plugin.name),
            "running": runs(plugin.name),
            "version": enabled.version,
            "running_version": if runs(plugin.name) { &enabled.version } else { "" },
        })
    };
    let value = json!({
        "status": if enabled.node.is_some() { "running" } else { "node_down" },
        "format": if minimal { "minimal" } else if verbose { "verbose" } else { "normal" },
        "plugins": plugins.iter().map(value).collect::<Vec<_>>(),
    });
    Ok(CommandOutput::Report { text, value })
}

/// The plugins given as arguments.
fn named(call: &Call<'_>) -> Result<Vec<String>, Failure> {
    match call.words("plugin") {
        names if names.is_empty() => {
            Err(Failure::Usage("Error (argument validation): not enough arguments.".to_owned()))
        }
        names => Ok(names),
    }
}

/// The available ones of these names. RabbitMQ's other plugins are refused; unknown names give a warning.
fn check(call: &mut Call<'_>, names: &[String]) -> Result<BTreeSet<String>, Failure> {
    warn_of_unknown(call, names);
    let known = || names.iter().filter(|name| find(name).is_some());
    let missing: Vec<&str> = known().map(String::as_str).filter(|name| !is_there(name)).collect();
    match missing.is_empty() {
        true => Ok(known().cloned().collect()),
        false => Err(Failure::refused(&format!(
            "The following plugins aren't there yet: {}. What is there is built in: {}",
            missing.join(", "),
            table().map(|plugin| plugin.name).filter(|name| is_there(name)).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// The known ones of these names. RabbitMQ's operator replaces the list and tries again until it succeeds, and a file with
/// the same names is accepted at a start: so plugins that aren't there give a warning.
fn accepted(call: &mut Call<'_>, names: &[String]) -> BTreeSet<String> {
    warn_of_unknown(call, names);
    let known = || names.iter().filter(|name| find(name).is_some());
    let absent: Vec<&str> = known().map(String::as_str).filter(|name| !is_there(name)).collect();
    if !absent.is_empty() {
        call.say(&format!(
            "WARNING - plugins that aren't built yet, so their features are missing: {}\n",
            absent.join(", ")
        ));
    }
    known().cloned().collect()
}

fn warn_of_unknown(call: &mut Call<'_>, names: &[String]) {
    let unknown: Vec<&str> = names.iter().map(String::as_str).filter(|name| find(name).is_none()).collect();
    if !unknown.is_empty() {
        call.say(&format!("WARNING - plugins currently enabled but missing: {}\n", unknown.join(", ")));
    }
}

/// Works without a node, because scripts call it before they start one.
fn enable(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let names = match call.has("all") {
        true => table().filter(|plugin| plugin.state == "built").map(|plugin| plugin.name.to_owned()).collect(),
        false => named(call)?,
    };
    call.say(&format!("Enabling plugins:\n{}", names.join("\n")));
    let names = check(call, &names)?;
    let enabled = Enabled::of(call, false)?;
    match &enabled.listed {
        Some(listed) => enabled.change(call, listed | &names),
        // All available plugins are on, and stay on.
        None => enabled.change(call, enabled.explicit()),
    }
}

fn disable(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let enabled = Enabled::of(call, false)?;
    let names = if call.has("all") { enabled.explicit().into_iter().collect() } else { named(call)? };
    call.say(&format!("Disabling plugins:\n{}", names.join("\n")));
    warn_of_unknown(call, &names);
    let names: BTreeSet<String> = names.into_iter().collect();
    if enabled.file.is_none() {
        let here: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| enabled.explicit().contains(*name)).collect();
        if !here.is_empty() {
            return Err(Failure::refused(&format!(
                "{} can't be disabled: this node has no enabled_plugins file. Start it with --enabled-plugins FILE or \
                 RABBITMQ_ENABLED_PLUGINS_FILE",
                here.join(", ")
            )));
        }
    }
    let rest = &enabled.explicit() - &names;
    enabled.change(call, rest)
}

fn set(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let names = call.words("plugin");
    call.say(&format!("Enabling plugins:\n{}", names.join("\n")));
    let names = accepted(call, &names);
    Enabled::of(call, false)?.change(call, names)
}

fn is_enabled(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let names = call.words("plugin");
    let enabled = Enabled::of(call, true)?;
    let node = enabled.node();
    let (plugin, is) = if names.len() == 1 { ("plugin", "is") } else { ("plugins", "are") };
    let listed = names.join(", ");
    call.say(&format!("Asking node {node} if {plugin} {listed} {is} enabled..."));
    let all = enabled.running.clone().unwrap_or_else(|| enabled.all());
    let missing: Vec<&str> = names.iter().map(String::as_str).filter(|name| !all.contains(*name)).collect();
    if missing.is_empty() {
        let text = format!("{}{} {listed} {is} enabled on node {node}", plugin[..1].to_uppercase(), &plugin[1..]);
        return Ok(CommandOutput::Report { value: json!({"result": "ok", "message": text}), text });
    }
    let (plugin, is) = if missing.len() == 1 { ("Plugin", "is") } else { ("Plugins", "are") };
    Err(Failure::check(&format!(
        "{plugin} {} {is} not enabled on node {node}. Enabled plugins and dependencies: {}",
        missing.join(", "),
        all.into_iter().collect::<Vec<_>>().join(", ")
    )))
}

fn directories(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let enabled = Enabled::of(call, true)?;
    call.say(&format!("Listing plugin directories used by node {}", enabled.node()));
    let none = "none: plugins are built in";
    let file = enabled.file.as_ref().map(|file| file.display().to_string());
    let shown = file.as_deref().unwrap_or("none: all that is built in is enabled");
    Ok(CommandOutput::Report {
        text: format!(
            "Plugin archives directory: {none}\nPlugin expansion directory: {none}\nEnabled plugins file: {shown}"
        ),
        value: json!({"plugins_dir": "", "plugins_expand_dir": "", "enabled_plugins_file": file.unwrap_or_default()}),
    })
}
