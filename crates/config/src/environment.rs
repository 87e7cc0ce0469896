//! What environment variables say, under RabbitMQ's names: in the process's environment, or without their prefix in a
//! rabbitmq-env.conf.

use crate::config::Config;
use crate::error::{ConfigError, Warning};
use crate::grammar::Assignment;
use crate::logging::Place;

const PREFIX: &str = "RABBITMQ_";
/// Those that stand for a key, without their prefix.
const KEYS: [(&str, &str); 3] =
    [("DEFAULT_USER", "default_user"), ("DEFAULT_PASS", "default_pass"), ("DEFAULT_VHOST", "default_vhost")];
/// Those that tune what isn't here, and why.
const WITHOUT_EFFECT: [(&str, &str); 11] = [
    ("ADVANCED_CONFIG_FILES", "name one file by RABBITMQ_ADVANCED_CONFIG_FILE"),
    ("CTL_ERL_ARGS", ERLANG),
    ("DIST_PORT", ERLANG),
    ("ERLANG_COOKIE", "the command line's tools come by a socket that only the node's user may open"),
    ("IO_THREAD_POOL_SIZE", ERLANG),
    ("MAX_OPEN_FILES", "the node raises its limit to what the system allows"),
    ("PLUGINS_DIR", "plugins are built in"),
    ("PLUGINS_EXPAND_DIR", "plugins are built in"),
    ("SERVER_ADDITIONAL_ERL_ARGS", ERLANG),
    ("SERVER_ERL_ARGS", ERLANG),
    ("USE_LONGNAME", "a node's name may have dots without it"),
];
const ERLANG: &str = "it tunes the Erlang runtime";

impl Config {
    /// Takes in environment variables. They win over files that were read before; those of other programs are left alone.
    ///
    /// # Errors
    /// Every variable that can't be accepted.
    pub fn read_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        let (mut port, mut host) = (None, None);
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(PREFIX).filter(|_| !value.is_empty()) else { continue };
            let mut set = |key: &str| self.assign(Assignment { key, value: &value });
            let done = match name {
                "NODENAME" => self.take_node_name(&value),
                "NODE_PORT" => {
                    port = Some((variable, value));
                    continue;
                }
                "NODE_IP_ADDRESS" => {
                    host = Some(value).filter(|host| host != "auto");
                    continue;
                }
                "LOGS" => self.log_to(&value),
                "LOG" => self.log_levels(&value),
                "LOG_BASE" => set("log.dir"),
                _ => match KEYS.iter().find(|(known, _)| *known == name) {
                    Some((_, key)) => set(key),
                    None => {
                        let known = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name);
                        Ok(known.map(|(_, why)| format!("{variable} has no effect: {why}")))
                    }
                },
            };
            note(done, &mut warnings, &mut errors);
        }
        // A listener that a file names isn't moved.
        if let Some((variable, port)) = port.filter(|_| self.tcp_listeners.is_none()) {
            let value = match host {
                Some(host) if host.contains(':') => format!("[{host}]:{port}"),
                Some(host) => format!("{host}:{port}"),
                None => port,
            };
            let done = self.assign(Assignment { key: "listeners.tcp.default", value: &value });
            note(done.map_err(|text| format!("{variable}: {text}")), &mut warnings, &mut errors);
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// `RABBITMQ_LOGS`: `-` for standard output, `-stderr`, `syslog:`, `journald:`, or a file.
    fn log_to(&mut self, value: &str) -> Result<Option<String>, String> {
        self.log.only = Some(match value {
            "-" => Place::Stdout,
            "-stderr" => Place::Stderr,
            _ if value.starts_with("syslog:") => Place::Syslog,
            _ if value.starts_with("journald:") => Place::Journald,
            _ if value.starts_with("exchange:") => {
                return Ok(Some(format!("RABBITMQ_LOGS={value} isn't built yet and has no effect")));
            }
            file => Place::File(file.to_owned()),
        });
        Ok(None)
    }

    /// `RABBITMQ_LOG`: `level`, `category=level` and the switches `+color`, `+json` and `+single_line` (`-` for off).
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

    fn take_node_name(&mut self, value: &str) -> Result<Option<String>, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
        if !value.chars().all(allowed) || value.starts_with('@') || value.split('@').count() > 2 {
            return Err(format!("RABBITMQ_NODENAME: '{value}' is no name of a node: expected name or name@host"));
        }
        self.node_name = Some(value.to_owned());
        Ok(None)
    }
}

/// A switch of `RABBITMQ_LOG` is for files too.
fn also_of_files(key: String) -> Vec<String> {
    let of_file = key.strip_prefix("log.console.formatter").map(|rest| format!("log.file.formatter{rest}"));
    std::iter::once(key).chain(of_file).collect()
}

fn note(done: Result<Option<String>, String>, warnings: &mut Vec<Warning>, errors: &mut Vec<ConfigError>) {
    let source_name = || "environment".to_owned();
    match done {
        Ok(told) => warnings.extend(told.map(|text| Warning { source_name: source_name(), line: None, text })),
        Err(text) => errors.push(ConfigError { source_name: source_name(), line: None, text }),
    }
}

/// The variables of a rabbitmq-env.conf, with their prefix; `source` names it in errors. It is a script of a shell there:
/// here lines `NAME=value` are read, with quotes, `export` and comments, and nothing is run.
///
/// # Errors
/// Every other line.
pub fn environment_file(source: &str, text: &str) -> Result<Vec<(String, String)>, Vec<ConfigError>> {
    let (mut variables, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match variable(line.strip_prefix("export ").unwrap_or(line)) {
            Some((name, value)) => {
                let prefix = if name.starts_with(PREFIX) { "" } else { PREFIX };
                variables.push((format!("{prefix}{name}"), value.to_owned()));
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
