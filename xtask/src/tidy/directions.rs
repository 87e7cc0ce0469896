use super::Repository;
use super::manifest::Dependencies;

/// The permitted dependencies of each crate on ours, in tests too unless the next table says more. It is the table of
/// ARCHITECTURE.md: a new crate needs a line here.
const MAY_USE: &[(&str, &[&str])] = &[
    ("amqp091", &[]),
    ("amqp10", &[]),
    ("message", &["amqp091", "amqp10", "mqtt"]),
    ("model", &[]),
    ("routing", &["model", "message"]),
    ("selector", &[]),
    ("queue", &["message", "metrics", "model", "selector"]),
    ("log", &[]),
    ("broker", &["message", "routing", "queue", "model", "log", "metrics"]),
    // For the engine, which doesn't name it as ours.
    ("base2histogram", &[]),
    ("cluster", &["broker", "log", "model"]),
    ("peer", &[]),
    ("session", &["broker", "message", "queue", "model", "log", "metrics"]),
    ("session-amqp091", &["session", "broker", "amqp091", "message", "routing", "queue", "model", "log", "metrics"]),
    (
        "session-amqp10",
        &["session", "broker", "amqp10", "message", "routing", "queue", "model", "selector", "log", "metrics"],
    ),
    (
        "session-stream",
        &["session", "broker", "stream-protocol", "message", "routing", "queue", "model", "log", "metrics"],
    ),
    ("session-mqtt", &["session", "broker", "mqtt", "message", "routing", "queue", "model", "log", "metrics"]),
    ("session-peer", &["broker", "peer", "message", "queue", "model", "log"]),
    ("auth", &["model"]),
    ("backends", &["auth", "broker", "config", "model"]),
    ("config", &[]),
    ("ctl", &[]),
    ("metrics", &[]),
    // `model` because the broker passes the topology with its users to the code that checks a password.
    ("node", &["backends", "broker", "cluster", "peer", "session-peer", "log", "auth", "metrics", "config", "model"]),
    ("management", &["node", "broker", "model", "metrics", "auth", "config"]),
    ("stream-protocol", &[]),
    ("mqtt", &[]),
    ("strict-client", &["amqp091", "amqp10", "stream-protocol"]),
    ("bench", &["strict-client", "amqp091", "amqp10", "stream-protocol", "metrics"]),
];
/// Additional dependencies permitted in a crate's tests.
const TESTS_MAY_USE: &[(&str, &[&str])] = &[
    // Sessions without sockets, of all protocols, and the headers of their messages in routing.
    ("session", &["session-amqp091", "session-amqp10", "amqp091", "amqp10", "strict-client", "routing"]),
    // Messages with fields, which filters look at.
    ("queue", &["amqp091", "amqp10"]),
    // Annotations.
    ("session-peer", &["amqp10"]),
    // For its power cuts: the files that a start writes before the log must survive them as well.
    ("node", &["strict-client", "sim", "session-amqp091", "session-amqp10"]),
    // A protocol of its own.
    ("leveret", &["broker", "message", "model", "queue", "session", "session-peer"]),
    (
        "management",
        &["amqp091", "log", "session-amqp091", "session-amqp10", "session-stream", "stream-protocol", "strict-client"],
    ),
];
/// Permitted dependencies of the binary, which puts the parts together.
const BINARY_MAY_USE: &[&str] = &[
    "management",
    "ctl",
    "bench",
    "node",
    "session-amqp091",
    "session-amqp10",
    "session-mqtt",
    "session-stream",
    "config",
    "log",
];
/// Packages without restrictions.
const FREE: &[&str] = &["benches", "sim", "tests", "xtask", "fuzz"];

/// Crates that may have threads, sockets and clocks.
const SHELL: &[&str] = &["node", "management", "auth", "backends", "ctl", "bench"];
/// The engine of placements, which one crate alone names: it is replaced, or checked anew, in one place.
const ENGINE: &str = "openraft";
/// The crate that names it.
const ENGINE_ONLY_IN: &str = "cluster";
/// Third-party crates for the shell only: threads, sockets, clocks.
const SHELL_ONLY: &[&str] = &["tokio", "socket2", "rustix", "axum", "hyper", "mio"];

/// Whether a crate may use threads, sockets, files and clocks.
pub(super) fn is_shell(folder: &str) -> bool {
    SHELL.contains(&folder) || folder == "leveret" || FREE.contains(&folder)
}

/// Checks that dependencies follow the directions of the design.
pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in repository.texts("Cargo.toml") {
        let Some(folder) = folder(path) else { continue };
        if FREE.contains(&folder) {
            complaints.extend(
                Dependencies::read(text).ok().and_then(|dependencies| names_engine(path, folder, &dependencies)),
            );
            continue;
        }
        match Dependencies::read(text) {
            Ok(dependencies) => complaints.extend(complain(path, folder, &dependencies)),
            Err(reason) => complaints.push(format!("{path} {reason}")),
        }
    }
    complaints
}

/// `node` for `crates/node/Cargo.toml`, `sim` for `sim/Cargo.toml`.
fn folder(manifest: &str) -> Option<&str> {
    let folder = manifest.strip_suffix("/Cargo.toml")?;
    let folder = folder.strip_prefix("crates/").unwrap_or(folder);
    Some(folder.split_once('/').map_or(folder, |(first, _)| first))
}

fn complain(path: &str, folder: &str, dependencies: &Dependencies) -> Vec<String> {
    let allowed = if folder == "leveret" { Some(BINARY_MAY_USE) } else { find(MAY_USE, folder) };
    let Some(allowed) = allowed else {
        return vec![format!("{path}: crate {folder} is not in the table of xtask/src/tidy/directions.rs")];
    };
    let in_tests = find(TESTS_MAY_USE, folder).unwrap_or_default();
    let ours = |name: &String| name.strip_prefix("leveret-").map(str::to_owned);
    let mut complaints = Vec::new();
    for used in dependencies.normal.iter().filter_map(ours).filter(|used| !allowed.contains(&used.as_str())) {
        complaints.push(format!("{path}: {folder} may not use {used}; it may use {allowed:?}"));
    }
    for used in dependencies.dev.iter().filter_map(ours) {
        if !allowed.contains(&used.as_str()) && !in_tests.contains(&used.as_str()) && used != folder {
            complaints.push(format!("{path}: tests of {folder} may not use {used}"));
        }
    }
    complaints.extend(names_engine(path, folder, dependencies));
    if !is_shell(folder) {
        for used in dependencies.normal.iter().filter(|used| SHELL_ONLY.contains(&used.as_str())) {
            complaints.push(format!("{path}: {folder} may not use {used}: it has no threads, sockets or clock"));
        }
    }
    complaints
}

fn names_engine(path: &str, folder: &str, dependencies: &Dependencies) -> Option<String> {
    let mut named = dependencies.normal.iter().chain(&dependencies.dev).filter(|used| used.starts_with(ENGINE));
    let used = named.next().filter(|_| folder != ENGINE_ONLY_IN)?;
    Some(format!("{path}: {folder} may not use {used}: only {ENGINE_ONLY_IN} names the engine of placements"))
}

fn find(table: &[(&str, &'static [&'static str])], folder: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(name, _)| *name == folder).map(|(_, allowed)| *allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&Repository::from([(path, text)]))
    }

    #[test]
    fn a_dependency_against_the_direction_is_named() {
        let found = complaints("crates/queue/Cargo.toml", "[dependencies]\nleveret-log.workspace = true");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("queue may not use log"), "{found:?}");
    }

    #[test]
    fn tests_follow_the_directions_too() {
        let text = "[dev-dependencies]\nleveret-broker.workspace = true";
        assert!(complaints("crates/log/Cargo.toml", text)[0].contains("tests of log may not use broker"));
        let text = "[dev-dependencies]\nleveret-strict-client.workspace = true";
        assert_eq!(complaints("crates/session/Cargo.toml", text), [""; 0]);
    }

    #[test]
    fn only_one_crate_names_the_engine() {
        let text = "[dependencies]\nopenraft.workspace = true";
        for path in ["crates/broker/Cargo.toml", "crates/node/Cargo.toml", "sim/Cargo.toml", "leveret/Cargo.toml"] {
            let found = complaints(path, text);
            assert!(found.iter().any(|text| text.contains("only cluster names the engine")), "{found:?}");
        }
        assert_eq!(complaints("crates/cluster/Cargo.toml", text), [""; 0]);
    }

    #[test]
    fn only_the_shell_has_a_runtime() {
        let text = "[dependencies]\ntokio.workspace = true";
        assert!(complaints("crates/broker/Cargo.toml", text)[0].contains("broker may not use tokio"));
        assert_eq!(complaints("crates/node/Cargo.toml", text), [""; 0]);
        assert_eq!(complaints("sim/Cargo.toml", text), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_line_in_the_table_is_refused() {
        assert!(complaints("crates/new/Cargo.toml", "")[0].contains("crate new is not in the table"));
    }
}
