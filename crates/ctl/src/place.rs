//! Finds the local socket of the node that a command is for.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Path of the socket in a data directory.
const SOCKET: &str = "control/socket";

/// The file that `rabbitmq-server` reads variables from.
const ENV_FILE: &str = "/etc/rabbitmq/rabbitmq-env.conf";

/// The directory in which RabbitMQ keeps the data of nodes, each in a directory with its name.
const BASE: &str = "/var/lib/rabbitmq/mnesia";

/// Longest path in an address of a Unix socket (unix(7)), without the terminating zero.
const PATH_BYTES_MAX: usize = 107;

/// The options that select a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodePlace {
    /// `--data-dir`.
    pub(crate) data_dir: Option<PathBuf>,
    /// `-n`.
    pub(crate) node: Option<String>,
}

impl NodePlace {
    /// Data directories that may belong to the node, the most likely one first.
    fn directories(&self, variable: impl Fn(&str) -> Option<OsString>, node: Option<&str>) -> Vec<PathBuf> {
        if let Some(given) = &self.data_dir {
            return vec![given.clone()];
        }
        if let Some(given) = variable("LEVERET_DATA_DIR").filter(|given| !given.is_empty()) {
            return vec![given.into()];
        }
        let mut found = vec![PathBuf::from("data"), PathBuf::from("/var/lib/leveret")];
        let base = variable("RABBITMQ_MNESIA_BASE").map(PathBuf::from);
        // Without a given name, the node's directory has the default name.
        let named = base.as_ref().map(|base| base.join(node.unwrap_or("leveret")));
        found.extend(variable("RABBITMQ_MNESIA_DIR").map(PathBuf::from).into_iter().chain(named));
        let of_image = variable("RABBITMQ_DATA_DIR").map(|home| Path::new(&home).join("mnesia"));
        let base = base.or(of_image).unwrap_or_else(|| BASE.into());
        found.extend(node.map(|node| base.join(node)));
        // In the image the directory has the default name, or the one that an earlier start gave it.
        found.push(base.join("leveret"));
        found.extend(nodes_below(&base));
        // Default directory of the packages.
        found.push("/var/lib/rabbitmq/leveret".into());
        found.push("/var/lib/rabbitmq".into());
        let mut seen = HashSet::new();
        found.retain(|directory| seen.insert(directory.clone()));
        found
    }

    /// The name that the node must have; `None` for any.
    pub(crate) fn node(&self) -> Option<String> {
        let given = || variable("RABBITMQ_NODENAME").and_then(|name| name.into_string().ok());
        self.node.clone().or_else(given)
    }

    /// The existing sockets.
    ///
    /// # Errors
    /// No socket exists, or the path of one is too long.
    pub(crate) fn sockets(&self) -> Result<Vec<PathBuf>, Failure> {
        let directories = self.directories(variable, self.node().as_deref());
        let found: Vec<PathBuf> =
            directories.iter().map(|directory| directory.join(SOCKET)).filter(|socket| socket.exists()).collect();
        if found.is_empty() {
            return Err(unreachable(&directories, self.node().as_deref()));
        }
        found.into_iter().map(checked).collect()
    }
}

/// The directories in a directory that have a socket.
fn nodes_below(base: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.join(SOCKET).exists()).collect();
    found.sort();
    found
}

/// A variable from the environment, or else from the node's rabbitmq-env.conf, where its prefix `RABBITMQ_` is left
/// out.
fn variable(name: &str) -> Option<OsString> {
    let of_environment = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let of_file = || {
        let file = of_environment("RABBITMQ_CONF_ENV_FILE").unwrap_or_else(|| ENV_FILE.into());
        assigned(&std::fs::read_to_string(file).ok()?, name.strip_prefix("RABBITMQ_")?).map(OsString::from)
    };
    of_environment(name).or_else(of_file)
}

/// The value of a variable in a rabbitmq-env.conf, as the node reads it. `None` if the file doesn't set it, or if only
/// a shell could tell the value.
fn assigned(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (found, value) = line.strip_prefix("RABBITMQ_").unwrap_or(line).split_once('=')?;
        let value = value.split(" #").next().unwrap_or("").trim().trim_matches(['"', '\'']);
        (found == name && !value.is_empty() && !value.contains(['$', '`'])).then(|| value.to_owned())
    };
    text.lines().filter_map(value).next_back()
}

/// Checks the length of a path.
///
/// # Errors
/// The path is too long for the system.
fn checked(socket: PathBuf) -> Result<PathBuf, Failure> {
    let bytes = socket.as_os_str().len();
    if bytes <= PATH_BYTES_MAX {
        return Ok(socket);
    }
    Err(Failure::Unavailable(format!(
        "Error: unable to perform an operation on node. The path of its socket has {bytes} bytes, and the system takes \
         {PATH_BYTES_MAX}: {}. Give a shorter --data-dir, such as a relative one",
        socket.display()
    )))
}

/// The error for a node that wasn't found in these directories.
pub(crate) fn unreachable(directories: &[impl AsRef<Path>], node: Option<&str>) -> Failure {
    let names: Vec<String> = directories.iter().map(|path| path.as_ref().display().to_string()).collect();
    let node = node.map(|node| format!(" '{node}'")).unwrap_or_default();
    Failure::Unavailable(format!(
        "Error: unable to perform an operation on node{node}. Please see diagnostics information and suggestions below.\n\n\
         No node runs in {}, or this user has no access to its directory.\n\
         Name the data directory with --data-dir or LEVERET_DATA_DIR.",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_given_by_option_then_variable_then_name() {
        let variables = |name: &str| match name {
            "LEVERET_DATA_DIR" => Some("/from/variable".into()),
            _ => None,
        };
        let given = NodePlace { data_dir: Some("/given".into()), node: None };
        assert_eq!(given.directories(variables, None), [PathBuf::from("/given")]);
        let place = NodePlace::default();
        assert_eq!(place.directories(variables, None), [PathBuf::from("/from/variable")]);
        let found = place.directories(|_| None, Some("rabbit@host"));
        assert!(found.contains(&"/var/lib/rabbitmq/mnesia/rabbit@host".into()), "{found:?}");
        assert_eq!(found[0], PathBuf::from("data"));
    }

    #[test]
    fn a_directory_of_an_earlier_name_is_found_by_its_socket() {
        let base = env::temp_dir().join(format!("leveret-place-{}", std::process::id()));
        let earlier = base.join("rabbit@old");
        std::fs::create_dir_all(earlier.join("control")).expect("is made");
        std::fs::create_dir_all(base.join("other")).expect("is made");
        std::fs::write(earlier.join(SOCKET), "").expect("is written");
        let variables = |name: &str| (name == "RABBITMQ_MNESIA_BASE").then(|| base.clone().into_os_string());
        let found = NodePlace::default().directories(variables, Some("rabbit@new"));
        let below: Vec<&PathBuf> = found.iter().filter(|path| path.starts_with(&base)).collect();
        assert_eq!(below, [&base.join("rabbit@new"), &base.join("leveret"), &earlier]);
        std::fs::remove_dir_all(&base).expect("is removed");
    }

    #[test]
    fn variables_of_the_nodes_file_are_found_without_their_prefix() {
        let text = "# NODENAME=no\nNODENAME=rabbit@a\nexport RABBITMQ_MNESIA_DIR=\"/d\" # there\nNODENAME='rabbit@b'\nMNESIA_BASE=$X\n";
        let of = |name| assigned(text, name);
        assert_eq!((of("NODENAME").as_deref(), of("MNESIA_DIR").as_deref()), (Some("rabbit@b"), Some("/d")));
        assert_eq!((of("MNESIA_BASE"), of("NODE")), (None, None));
    }

    #[test]
    fn a_path_too_long_for_the_system_is_an_error() {
        assert!(checked("/data/control/socket".into()).is_ok());
        let long = PathBuf::from(format!("/{}", "a".repeat(PATH_BYTES_MAX)));
        let failure = checked(long).expect_err("too long");
        assert!(failure.text().contains("has 108 bytes, and the system takes 107"), "{}", failure.text());
    }
}
