//! The entry point of the image, `docker-entrypoint.sh` as in the image "rabbitmq". It is the binary itself, so that a
//! start runs no shell.
//!
//! RabbitMQ's programs run as the user `rabbitmq` if the container runs as root, and other programs as they are. As any
//! other user, everything just runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use leveret_node::harmless;

use super::{HOME, cookie, deprecated, ownership};
use crate::arguments::ServerArguments;

/// The names under which the binary is the entry point.
const NAMES: [&str; 2] = ["docker-entrypoint.sh", "docker-entrypoint"];

const SERVER: &str = "rabbitmq-server";

/// The exit code of a shell for a program that can't be run.
const NOT_RUN: u8 = 126;

/// Whether the binary was called as the entry point.
pub(crate) fn is_called(program: &Path) -> bool {
    program.file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// Becomes the program that the words name, `rabbitmq-server` without any.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.is_empty() {
        words.push(SERVER.into());
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(complaint) = deprecated::complaint(is_set) {
        eprint!("{complaint}");
        return ExitCode::FAILURE;
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_of_broker(&words[0]) && is_root {
        if words[0] == SERVER {
            hand_over(&words);
        }
        let reason = command(&words).uid(ownership::USER).gid(ownership::GROUP).exec();
        if reason.kind() != std::io::ErrorKind::PermissionDenied {
            return not_run(&words[0], &reason);
        }
        // A container without capabilities.
        eprintln!("warning: cannot become the user rabbitmq ({reason}): going on as root");
    }
    let reason = command(&words).exec();
    not_run(&words[0], &reason)
}

/// Whether a program is one of RabbitMQ's.
fn is_of_broker(program: &OsStr) -> bool {
    program.as_encoded_bytes().starts_with(b"rabbitmq")
}

fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn not_run(program: &OsStr, reason: &std::io::Error) -> ExitCode {
    eprintln!("error: cannot run {}: {reason}", harmless(&program.to_string_lossy()));
    ExitCode::from(NOT_RUN)
}

/// Gives the folders that the node writes to the node's user. What can't be given is named: the node may still be able to
/// write there, and says so if it isn't.
fn hand_over(words: &[OsString]) {
    for folder in written_folders(words) {
        // A new folder in one of root's is made here, since the node's user couldn't.
        let handed_over = std::fs::create_dir_all(&folder).and_then(|()| ownership::hand_over(&folder));
        if let Err(reason) = handed_over {
            eprintln!("warning: cannot give all of {} to the user rabbitmq: {reason}", folder.display());
        }
    }
}

/// The home, and the data folder if it is elsewhere. Mistakes of the configuration are reported by the node.
fn written_folders(words: &[OsString]) -> Vec<PathBuf> {
    let data = ServerArguments::installed(words.iter().cloned()).look_up().map(|start| start.data_dir).ok();
    let elsewhere = data.filter(|folder| !folder.starts_with(HOME));
    [Some(PathBuf::from(HOME)), elsewhere].into_iter().flatten().collect()
}

/// In the image, writes the secret of the cluster before the node starts, if the environment has one. Elsewhere the file in the home
/// is somebody's own. Returns a warning if it can't be written.
pub(crate) fn keep_cookie() -> Option<String> {
    if !super::is_image() {
        return None;
    }
    let secret = std::env::var("RABBITMQ_ERLANG_COOKIE").ok().filter(|secret| !secret.is_empty())?;
    let home = std::env::var_os("HOME").map_or_else(|| HOME.into(), PathBuf::from);
    let reason = cookie::write(&home, &secret).err()?;
    Some(format!("RABBITMQ_ERLANG_COOKIE isn't written to {}: {reason}", home.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_link_selects_the_entry_point() {
        assert!(is_called(Path::new("/usr/local/bin/docker-entrypoint.sh")));
        assert!(!is_called(Path::new("/usr/sbin/rabbitmq-server")));
    }

    #[test]
    fn programs_of_rabbitmq_are_told_from_others() {
        for (program, is) in
            [("rabbitmq-server", true), ("rabbitmqctl", true), ("bash", false), ("/bin/rabbitmqctl", false)]
        {
            assert_eq!(is_of_broker(OsStr::new(program)), is, "{program}");
        }
    }
}
