//! RabbitMQ's plugins, and the file enabled_plugins, which lists the enabled ones: `[rabbitmq_management].`.

use std::collections::BTreeSet;

use crate::advanced::{Term, TermValue, parse_term};
use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::suggest;

/// The table of plugins, which the command line uses too.
const TABLE: &str = include_str!("plugins.tsv");

/// The plugins that count as enabled explicitly if there is no file: then everything available is on.
const EXPLICIT_BY_DEFAULT: [&str; 5] =
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

/// The enabled plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledPlugins {
    /// The plugins listed in the file; `None` if there is no file, which means all available ones.
    listed: Option<BTreeSet<String>>,
}

impl EnabledPlugins {
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

impl Config {
    /// Applies the text of an enabled_plugins file; `source` names it in errors.
    ///
    /// # Errors
    /// It isn't a list of names.
    pub fn read_plugins(&mut self, source: &str, text: &str) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let wrong = |line, text| ConfigError { source_name: source.to_owned(), line: Some(line), text };
        let names = match parse_term(text.trim_start_matches('\u{feff}')) {
            Ok(None) => Vec::new(),
            Ok(Some(Term { value: TermValue::List(names), .. })) => names,
            Ok(Some(Term { line, .. })) => {
                return Err(vec![wrong(line, "expected a list of plugins, such as [rabbitmq_management].".to_owned())]);
            }
            Err((line, text)) => return Err(vec![wrong(line, text)]),
        };
        let (mut warnings, mut errors, mut listed) = (Vec::new(), Vec::new(), BTreeSet::new());
        for Term { line, value } in &names {
            let TermValue::Atom(name) = value else {
                errors.push(wrong(*line, "expected the name of a plugin, such as rabbitmq_management".to_owned()));
                continue;
            };
            let text = match find(name) {
                // RabbitMQ starts without an error, because plugins come and go with their files.
                None => Some(unknown(name)),
                Some(Plugin { state: State::Absent, .. }) => {
                    Some(format!("the plugin '{name}' isn't built yet, so its features are missing"))
                }
                Some(_) => None,
            };
            warnings.extend(text.map(|text| Warning { source_name: source.to_owned(), line: Some(*line), text }));
            listed.insert(name.clone());
        }
        self.plugins = EnabledPlugins { listed: Some(listed) };
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }
}

fn unknown(name: &str) -> String {
    let nearest = suggest::nearest(name, table().map(|plugin| plugin.name));
    let hint = nearest.map(|near| format!("; the nearest known one is '{near}'")).unwrap_or_default();
    format!("the plugin '{name}' isn't known, and isn't there{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Config, Vec<Warning>), String> {
        let mut config = Config::default();
        let told = config.read_plugins("enabled_plugins", text);
        told.map(|warnings| (config, warnings)).map_err(|errors| errors[0].to_string())
    }

    fn running(text: &str) -> Vec<&'static str> {
        read(text).expect("is right").0.plugins.running()
    }

    /// The plugins that no file turns off.
    const CORE: [&str; 7] = [
        "rabbitmq_amqp1_0",
        "rabbitmq_auth_mechanism_ssl",
        "rabbitmq_consistent_hash_exchange",
        "rabbitmq_delayed_message_exchange",
        "rabbitmq_random_exchange",
        "rabbitmq_recent_history_exchange",
        "rabbitmq_tracing",
    ];

    #[test]
    fn without_a_file_all_plugins_are_on_else_the_listed_ones() {
        let all = Config::default().plugins;
        assert!(all.is_running("rabbitmq_management") && all.is_running("rabbitmq_prometheus"));
        assert_eq!(all.explicit(), EXPLICIT_BY_DEFAULT);
        let core = CORE;
        assert_eq!(running("[]."), core);
        assert_eq!(running(""), core);
        let (config, warnings) = read("%% of the image\n[rabbitmq_prometheus].\n").expect("is right");
        assert_eq!(warnings, []);
        assert_eq!(config.plugins.explicit(), ["rabbitmq_prometheus"]);
        assert!(config.plugins.is_running("rabbitmq_web_dispatch"));
        assert!(!config.plugins.is_running("rabbitmq_management"));
    }

    #[test]
    fn an_unavailable_plugin_gives_a_warning_and_its_needs_are_on() {
        let (config, warnings) = read("[rabbitmq_stomp,\n 'rabbitmq_top'].").expect("is right");
        let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(told[0].contains("'rabbitmq_stomp' isn't built yet") && told[1].contains("'rabbitmq_top'"), "{told:?}");
        assert_eq!(config.plugins.explicit(), [""; 0]);
        let expected = ["rabbitmq_management", "rabbitmq_management_agent", "rabbitmq_web_dispatch"];
        assert!(expected.iter().all(|name| config.plugins.is_running(name)), "RabbitMQ's rabbitmq_top enables them");
    }

    #[test]
    fn an_unknown_name_gives_a_warning_with_the_nearest_one() {
        let (config, warnings) = read("[rabbitmq_prometheus,\nrabbitmq_managment].").expect("is right");
        let told = warnings[0].to_string();
        assert!(told.contains(":2:") && told.contains("the nearest known one is 'rabbitmq_management'"), "{told}");
        assert!(!config.plugins.is_running("rabbitmq_management"));
    }

    #[test]
    fn anything_but_a_list_of_names_is_an_error() {
        assert!(read("{rabbitmq_management}.").expect_err("is wrong").contains("expected a list of plugins"));
        assert!(read("[\"rabbitmq_management\"].").expect_err("is wrong").contains("expected the name of a plugin"));
        assert!(read("[rabbitmq_management]").expect_err("is wrong").contains("'.' after the list"));
    }

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
