//! Environment variables with RabbitMQ's names, from the process's environment or, without their prefix, from a
//! rabbitmq-env.conf.

use crate::cluster::{ClusterListener, node_name};
use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::grammar::Assignment;
use crate::logging::LogPlace;
use crate::plugins::EnabledPlugins;
use crate::suggest;
use crate::units::integer;

const PREFIX: &str = "RABBITMQ_";
/// Variables that set a key, without their prefix.
const KEYS: [(&str, &str); 3] =
    [("DEFAULT_USER", "default_user"), ("DEFAULT_PASS", "default_pass"), ("DEFAULT_VHOST", "default_vhost")];
/// Variables with paths of files and those for the process itself, which the binary reads, and one without a meaning. They are
/// skipped here.
const OF_THE_PROCESS: [&str; 10] = [
    "ADVANCED_CONFIG_FILE",
    "CONFIG_FILE",
    "CONFIG_FILES",
    "CONF_ENV_FILE",
    "ENABLED_PLUGINS_FILE",
    "KEEP_PID_FILE_ON_EXIT",
    "MNESIA_BASE",
    "MNESIA_DIR",
    "PID_FILE",
    // A node's name may have dots without it.
    "USE_LONGNAME",
];
/// Variables that are read one by one.
const BY_HAND: [&str; 8] =
    ["NODENAME", "NODE_PORT", "NODE_IP_ADDRESS", "DIST_PORT", "ERLANG_COOKIE", "LOGS", "LOG", "LOG_BASE"];
/// Variables that tune something that we don't have, and the reason.
const WITHOUT_EFFECT: [(&str, &str); 40] = [
    ("ADVANCED_CONFIG_FILES", "name one file by RABBITMQ_ADVANCED_CONFIG_FILE"),
    ("ALLOW_INPUT", ERLANG),
    ("BASE", "it is for Windows"),
    ("BOOT_MODULE", ERLANG),
    ("CTL_DIST_PORT_MAX", LOCAL),
    ("CTL_DIST_PORT_MIN", LOCAL),
    ("CTL_ERL_ARGS", ERLANG),
    ("DATA_DIR", "it is for images; name the data directory by RABBITMQ_MNESIA_DIR"),
    ("DBG", ERLANG),
    ("DEFAULT_ALLOC_ARGS", ERLANG),
    ("DISTRIBUTION_BUFFER_SIZE", ERLANG),
    ("FEATURE_FLAGS", "every feature has one state"),
    ("FEATURE_FLAGS_FILE", "every feature has one state"),
    ("GENERATED_CONFIG_DIR", "no configuration is generated"),
    ("HOME", "there are no files beside the binary"),
    ("IGNORE_SIGINT", "SIGINT always stops the node"),
    ("IO_THREAD_POOL_SIZE", ERLANG),
    ("LOG_FF_REGISTRY", "every feature has one state"),
    ("MAX_NUMBER_OF_ATOMS", ERLANG),
    ("MAX_NUMBER_OF_PROCESSES", ERLANG),
    ("MAX_OPEN_FILES", "the node raises its limit to what the system allows"),
    ("MOTD_FILE", "the banner is fixed"),
    ("PGP_KEY_ID", "it is of an image of RabbitMQ"),
    ("PLUGINS_DIR", "plugins are built in"),
    ("PLUGINS_EXPAND_DIR", "plugins are built in"),
    ("PRODUCT_NAME", "see identity.rabbitmq_compatible"),
    ("PRODUCT_VERSION", "see identity.rabbitmq_compatible"),
    ("QUORUM_DIR", "everything is kept in the data directory"),
    ("SASL_LOGS", "there is one log; see RABBITMQ_LOGS"),
    ("SCHEDULER_BIND_TYPE", ERLANG),
    ("SCHEMA_DIR", "keys are built in"),
    ("SCRIPTS_DIR", "no script is run"),
    ("SERVER_ADDITIONAL_ERL_ARGS", ERLANG),
    ("SERVER_CODE_PATH", ERLANG),
    ("SERVER_ERL_ARGS", ERLANG),
    ("SERVER_START_ARGS", ERLANG),
    ("STREAM_DIR", "everything is kept in the data directory"),
    ("UPGRADE_LOG", "there is one log; see RABBITMQ_LOGS"),
    ("USE_LOCALHOST", "a node's name is taken as it is"),
    ("VERSION", "it is of an image of RabbitMQ"),
];
const ERLANG: &str = "it tunes the Erlang runtime";
const LOCAL: &str = "tools come by the node's local socket";
/// Port for an address that is given without one.
const AMQP_PORT: &str = "5672";

/// A variable, and the place where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// A file, or `environment`.
    pub source: String,
    /// Its line, from 1; `None` in the environment.
    pub line: Option<u32>,
    /// Its name, with `RABBITMQ_`.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Config {
    /// Applies the environment, which overrides files that were read before; variables of other programs are left
    /// alone.
    ///
    /// # Errors
    /// Every variable that isn't accepted.
    pub fn read_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let source = || "environment".to_owned();
        let of = |(name, value)| Variable { source: source(), line: None, name, value };
        self.read_variables(variables.into_iter().map(of))
    }

    /// Applies variables from several sources; each name occurs once.
    ///
    /// # Errors
    /// As [`Config::read_environment`].
    pub fn read_variables(
        &mut self,
        variables: impl IntoIterator<Item = Variable>,
    ) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        let (mut port, mut host) = (None, None);
        for variable in variables {
            let Variable { name: full, value, .. } = &variable;
            let Some(name) = full.strip_prefix(PREFIX).filter(|_| !value.is_empty()) else { continue };
            let mut set = |key: &str| self.assign(Assignment { key, value });
            let done = match name {
                "NODENAME" => self.take_node_name(value),
                // Kubernetes sets it for a service that is called rabbitmq-node.
                "NODE_PORT" if is_address(value) && variable.line.is_none() => continue,
                "NODE_PORT" => {
                    port = Some(variable);
                    continue;
                }
                // As above, for one that is called rabbitmq-dist.
                "DIST_PORT" if is_address(value) && variable.line.is_none() => continue,
                "DIST_PORT" => self.take_dist_port(value),
                "ERLANG_COOKIE" => {
                    self.cluster.cookie = Some(value.clone());
                    Ok(None)
                }
                "NODE_IP_ADDRESS" => {
                    host = Some(variable).filter(|host| host.value != "auto");
                    continue;
                }
                "LOGS" => self.log_to(value),
                "LOG" => self.log_levels(value),
                "LOG_BASE" => set("log.dir"),
                "ENABLED_PLUGINS" => self.enable_plugins(value),
                _ if OF_THE_PROCESS.contains(&name) => Ok(None),
                _ => match KEYS.iter().find(|(known, _)| *known == name) {
                    Some((_, key)) => set(key),
                    None => Ok(without_effect(&variable, name)),
                },
            };
            note(&variable, done, &mut warnings, &mut errors);
        }
        if let Some(told) = port.clone().or(host.clone()) {
            let (source, full) = (told.source.clone(), told.name.clone());
            let port = port.map_or(AMQP_PORT.to_owned(), |port| port.value);
            let value = match host.map(|host| host.value) {
                Some(host) if host.contains(':') => format!("[{host}]:{port}"),
                Some(host) => format!("{host}:{port}"),
                None => port,
            };
            let done = match &self.tcp_listeners {
                // A port variable doesn't change a listener that is set by a file.
                Some(_) => Ok(Some(format!("{full} has no effect: the configuration has listeners.tcp"))),
                None => self
                    .assign(Assignment { key: "listeners.tcp.default", value: &value })
                    .map_err(|text| format!("{full}: {text}")),
            };
            note(&Variable { source, ..told }, done, &mut warnings, &mut errors);
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// Applies `RABBITMQ_ENABLED_PLUGINS`: names separated by commas, or `ALL`; it overrides the file.
    fn enable_plugins(&mut self, value: &str) -> Result<Option<String>, String> {
        if value == "ALL" {
            self.plugins = EnabledPlugins::default();
            return Ok(None);
        }
        let names: Vec<&str> = value.split([',', ' ']).filter(|name| !name.is_empty()).collect();
        let warnings = self
            .read_plugins("RABBITMQ_ENABLED_PLUGINS", &format!("[{}].", names.join(",")))
            .map_err(|errors| format!("RABBITMQ_ENABLED_PLUGINS: {}", errors[0].text))?;
        let told: Vec<&str> = warnings.iter().map(|warning| &*warning.text).collect();
        Ok((!told.is_empty()).then(|| format!("RABBITMQ_ENABLED_PLUGINS: {}", told.join("; "))))
    }

    /// Applies `RABBITMQ_LOGS`: `-` for standard output, `-stderr`, `syslog:`, `journald:`, or a file.
    fn log_to(&mut self, value: &str) -> Result<Option<String>, String> {
        self.log.only = Some(match value {
            "-" => LogPlace::Stdout,
            "-stderr" => LogPlace::Stderr,
            _ if value.starts_with("syslog:") => LogPlace::Syslog,
            _ if value.starts_with("journald:") => LogPlace::Journald,
            _ if value.starts_with("exchange:") => {
                return Ok(Some(format!("RABBITMQ_LOGS={value} isn't built yet and has no effect")));
            }
            file => LogPlace::File(file.to_owned()),
        });
        Ok(None)
    }

    /// Applies `RABBITMQ_LOG`: `level`, `category=level` and the switches `+color`, `+json` and `+single_line` (`-`
    /// for off).
    fn log_levels(&mut self, value: &str) -> Result<Option<String>, String> {
        for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (key, value) = match (word.split_once('='), word.strip_prefix('+'), word.strip_prefix('-')) {
                (Some((category, level)), _, _) => (format!("log.{category}.level"), level),
                (None, Some("color"), _) => ("log.console.use_colors".to_owned(), "on"),
                (None, _, Some("color")) => ("log.console.use_colors".to_owned(), "off"),
                (None, Some("json"), _) => ("log.console.formatter".to_owned(), "json"),
                (None, _, Some("json")) => ("log.console.formatter".to_owned(), "plaintext"),
                (None, Some("single_line"), _) => ("log.console.formatter.single_line".to_owned(), "on"),
                (None, _, Some("single_line")) => ("log.console.formatter.single_line".to_owned(), "off"),
                (None, None, None) => ("log.level".to_owned(), word),
                (None, _, _) => return Err(format!("RABBITMQ_LOG: '{word}' is no switch: color, json, single_line")),
            };
            for key in also_of_files(key) {
                self.assign(Assignment { key: &key, value }).map_err(|text| format!("RABBITMQ_LOG: {text}"))?;
            }
        }
        Ok(None)
    }

    /// Applies `RABBITMQ_DIST_PORT`, which as a port variable doesn't change a listener that is set by a file.
    fn take_dist_port(&mut self, value: &str) -> Result<Option<String>, String> {
        let port = integer(value, 1, 65_535).map_err(|text| format!("RABBITMQ_DIST_PORT: {text}"))?;
        if self.cluster.listener != ClusterListener::Unset {
            return Ok(Some(
                "RABBITMQ_DIST_PORT has no effect: the configuration has cluster.listeners.tcp".to_owned(),
            ));
        }
        self.cluster.port = Some(port as u16);
        Ok(None)
    }

    fn take_node_name(&mut self, value: &str) -> Result<Option<String>, String> {
        self.node_name = Some(node_name(value, false).map_err(|text| format!("RABBITMQ_NODENAME: {text}"))?);
        Ok(None)
    }
}

/// The keys that a switch of `RABBITMQ_LOG` sets: it applies to files too.
fn also_of_files(key: String) -> Vec<String> {
    let of_file = key.strip_prefix("log.console.formatter").map(|rest| format!("log.file.formatter{rest}"));
    std::iter::once(key).chain(of_file).collect()
}

/// The warning about a variable without effect. There is none for the addresses and ports that Kubernetes and Docker
/// set for a service called rabbitmq, since they aren't meant for us.
fn without_effect(variable: &Variable, name: &str) -> Option<String> {
    let full = &variable.name;
    if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
        return Some(format!("{full} has no effect: {why}"));
    }
    let is_of_service = is_address(&variable.value)
        || ["SERVICE_HOST", "SERVICE_PORT", "_TCP", "_UDP"].iter().any(|part| name.contains(part));
    if variable.line.is_none() && is_of_service {
        return None;
    }
    let known = KEYS.iter().chain(&WITHOUT_EFFECT).map(|(known, _)| *known);
    let all = known.chain(OF_THE_PROCESS).chain(BY_HAND);
    let hint = suggest::nearest(name, all).map(|near| format!("; did you mean {PREFIX}{near}?")).unwrap_or_default();
    Some(format!("{full} has no effect: there is no such variable{hint}"))
}

/// Whether a value is the address of a service, as Kubernetes and Docker write it.
fn is_address(value: &str) -> bool {
    value.starts_with("tcp://") || value.starts_with("udp://")
}

fn note(
    variable: &Variable,
    done: Result<Option<String>, String>,
    warnings: &mut Vec<Warning>,
    errors: &mut Vec<ConfigError>,
) {
    let (source_name, line) = (variable.source.clone(), variable.line);
    match done {
        Ok(told) => warnings.extend(told.map(|text| Warning { source_name, line, text })),
        Err(text) => errors.push(ConfigError { source_name, line, text }),
    }
}

/// The variables of a rabbitmq-env.conf, with their prefix; `source` names it in errors. In RabbitMQ the file is a
/// shell script. We read lines `NAME=value`, with quotes, `export` and comments, and run nothing. If a name is set
/// twice, the last value counts.
///
/// # Errors
/// Every line of another form.
pub fn environment_file(source: &str, text: &str) -> Result<Vec<Variable>, Vec<ConfigError>> {
    let (mut variables, mut errors) = (Vec::<Variable>::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match variable(line.strip_prefix("export ").unwrap_or(line)) {
            Some((name, value)) => {
                let prefix = if name.starts_with(PREFIX) { "" } else { PREFIX };
                let name = format!("{prefix}{name}");
                variables.retain(|before| before.name != name);
                let (source, value) = (source.to_owned(), value.to_owned());
                variables.push(Variable { source, line: Some(number), name, value });
            }
            None => errors.push(ConfigError {
                source_name: source.to_owned(),
                line: Some(number),
                text: format!("expected NAME=value, got '{line}': no shell is run, so nothing else can be taken"),
            }),
        }
    }
    if errors.is_empty() { Ok(variables) } else { Err(errors) }
}

fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let (inside, after) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split_once(quote)?,
        _ => value.split_once(" #").map_or((value, ""), |(value, _)| (value.trim_end(), "")),
    };
    let is_plain =
        !inside.contains(['$', '`']) && (value.starts_with(['"', '\'']) || !inside.contains([' ', ';', '&']));
    let after = after.trim_start();
    (is_plain && (after.is_empty() || after.starts_with('#'))).then_some((name, inside))
}
