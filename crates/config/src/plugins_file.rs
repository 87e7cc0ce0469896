//! The file enabled_plugins, which lists the enabled plugins: `[rabbitmq_management].`.

use std::collections::BTreeSet;

use crate::advanced::{Term, TermValue, parse_term};
use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::plugins::{EnabledPlugins, missing};

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
            let text = missing(name);
            warnings.extend(text.map(|text| Warning { source_name: source.to_owned(), line: Some(*line), text }));
            listed.insert(name.clone());
        }
        self.plugins = EnabledPlugins::of(listed);
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::EXPLICIT_BY_DEFAULT;

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
}
