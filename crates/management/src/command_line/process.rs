//! The command line and environment of the node.

use leveret_config::is_secret;
use serde_json::{Map, Value, json};

use crate::call::{Call, HandlerResult, json};

/// Replacement for secret values.
const HIDDEN: &str = "********";

/// Prefixes of variables that the node reads.
const PREFIXES: [&str; 2] = ["LEVERET_", "RABBITMQ_"];

/// GET.
pub(crate) async fn show(_: Call) -> HandlerResult {
    let arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let variables = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    json(json!({"arguments": shown(arguments), "environment": environment(variables)}))
}

/// GET: the enabled plugins, and the file that lists them.
pub(crate) async fn plugins(call: Call) -> HandlerResult {
    let plugins = call.api.plugins();
    json(json!({"file": plugins.file, "explicit": plugins.explicit, "running": plugins.running}))
}

/// The command line, without passwords after `--set`.
fn shown(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for word in words {
        let is_assignment = shown.last().is_some_and(|before| before == "--set") || word.starts_with("--set=");
        let (option, assignment) = match word.strip_prefix("--set=") {
            Some(assignment) => ("--set=", assignment),
            None => ("", &*word),
        };
        match assignment.split_once('=') {
            Some((key, _)) if is_assignment && is_secret(key) => shown.push(format!("{option}{key}={HIDDEN}")),
            _ => shown.push(word),
        }
    }
    shown
}

/// The variables that the node reads, without passwords.
fn environment(variables: impl Iterator<Item = (String, String)>) -> Map<String, Value> {
    let ours = variables.filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let of = |(name, value): (String, String)| {
        let lower = name.to_ascii_lowercase();
        let hidden = is_secret(&lower) || lower.contains("cookie");
        (name, json!(if hidden { HIDDEN } else { &value }))
    };
    ours.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let words =
            ["leveret", "server", "--set", "default_pass = x1", "--set=default_pass=x2", "--set", "heartbeat=5"];
        let shown = shown(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(shown[..3], ["leveret", "server", "--set"]);
        assert_eq!(shown[3..5], ["default_pass =********", "--set=default_pass=********"]);
        assert_eq!(shown[5..], ["--set", "heartbeat=5"]);
        let variables =
            [("RABBITMQ_DEFAULT_PASS", "x3"), ("RABBITMQ_NODENAME", "a"), ("HOME", "/root"), ("LEVERET_X", "y")];
        let shown = environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let expected = json!({"RABBITMQ_DEFAULT_PASS": HIDDEN, "RABBITMQ_NODENAME": "a", "LEVERET_X": "y"});
        assert_eq!(Value::Object(shown), expected);
    }
}
