//! RabbitMQ's plugins, and which of them are enabled.

use std::collections::BTreeSet;

use crate::suggest;

/// The table of plugins, which the command line uses too.
const TABLE: &str = include_str!("plugins.tsv");

/// The plugins that count as enabled explicitly if there is no file: then everything available is on.
pub(crate) const EXPLICIT_BY_DEFAULT: [&str; 5] =
    ["rabbitmq_management", "rabbitmq_mqtt", "rabbitmq_prometheus", "rabbitmq_stream", "rabbitmq_stream_management"];

/// A plugin of RabbitMQ.
struct Plugin {
    name: &'static str,
    state: State,
    /// Plugins enabled together with it.
    implies: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is always available.
    Core,
    /// It is available if enabled.
    Built,
    /// It isn't available.
    Absent,
}

fn table() -> impl Iterator<Item = Plugin> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (name, state, implies) = (next(), next(), next());
        let state = match state {
            "core" => State::Core,
            "built" => State::Built,
            _ => State::Absent,
        };
        Plugin { name, state, implies }
    })
}

fn find(name: &str) -> Option<Plugin> {
    table().find(|plugin| plugin.name == name)
}

/// The reason why a plugin can't be enabled, if it can't.
pub(crate) fn missing(name: &str) -> Option<String> {
    match find(name) {
        // RabbitMQ starts without an error, because plugins come and go with their files.
        None => Some(unknown(name)),
        Some(Plugin { state: State::Absent, .. }) => {
            Some(format!("the plugin '{name}' isn't built yet, so its features are missing"))
        }
        Some(_) => None,
    }
}

fn unknown(name: &str) -> String {
    let nearest = suggest::nearest(name, table().map(|plugin| plugin.name));
    let hint = nearest.map(|near| format!("; the nearest known one is '{near}'")).unwrap_or_default();
    format!("the plugin '{name}' isn't known, and isn't there{hint}")
}

/// The enabled plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledPlugins {
    /// The plugins listed in the file; `None` if there is no file, which means all available ones.
    listed: Option<BTreeSet<String>>,
}

impl EnabledPlugins {
    /// The plugins that a file lists.
    pub(crate) fn of(listed: BTreeSet<String>) -> Self {
        Self { listed: Some(listed) }
    }

    /// Whether a file lists them.
    pub(crate) fn are_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// The available plugins that were enabled explicitly.
    #[must_use]
    pub fn explicit(&self) -> Vec<&str> {
        match &self.listed {
            None => EXPLICIT_BY_DEFAULT.to_vec(),
            Some(listed) => {
                let is_there = |name: &&str| find(name).is_some_and(|plugin| plugin.state != State::Absent);
                listed.iter().map(String::as_str).filter(is_there).collect()
            }
        }
    }

    /// The plugins in effect: those enabled explicitly, their dependencies, and those that are always available.
    #[must_use]
    pub fn running(&self) -> Vec<&'static str> {
        let mut wanted: BTreeSet<&str> = match &self.listed {
            None => EXPLICIT_BY_DEFAULT.into(),
            Some(listed) => listed.iter().map(String::as_str).collect(),
        };
        let mut open: Vec<&str> = wanted.iter().copied().collect();
        while let Some(name) = open.pop() {
            let implied = find(name).map_or("", |plugin| plugin.implies).split(',');
            open.extend(implied.filter(|name| !name.is_empty() && wanted.insert(name)));
        }
        let runs = |plugin: &Plugin| match plugin.state {
            State::Core => true,
            State::Built => wanted.contains(plugin.name),
            State::Absent => false,
        };
        table().filter(runs).map(|plugin| plugin.name).collect()
    }

    /// Whether this plugin is in effect.
    #[must_use]
    pub fn is_running(&self, name: &str) -> bool {
        self.running().contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_field() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split('\t').count(), 4, "{line}");
        }
        let implied: Vec<&str> =
            table().flat_map(|plugin| plugin.implies.split(',')).filter(|name| !name.is_empty()).collect();
        assert!(implied.iter().all(|name| find(name).is_some()), "{implied:?}");
    }
}
