//! `rabbitmq-server -detached`: the node runs in the background. The command returns when the node has started, or with
//! the reason why it hasn't.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitCode, Stdio};

/// Set in the environment of the background process.
const VARIABLE: &str = "LEVERET_DETACHED";

/// The line by which a node reports that it has started.
const STARTED: &str = "Server startup complete";

/// The arguments without the ones that ask for it; none if it isn't asked for.
pub(crate) fn asked(words: &[OsString]) -> Option<Vec<OsString>> {
    let is_asked = |word: &OsString| word == "-detached" || word == "--detached";
    words.iter().any(is_asked).then(|| words.iter().filter(|word| !is_asked(word)).cloned().collect())
}

/// Starts the node with these arguments, of which the first is its name, and waits until it has started.
pub(crate) fn start(words: &[OsString]) -> ExitCode {
    let (Some(name), Ok(program)) = (words.first(), std::env::current_exe()) else {
        eprintln!("leveret: cannot find its own program");
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(program);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(&words[1..]).env(VARIABLE, "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(reason) => {
            eprintln!("leveret: cannot start in the background: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let has_started = child.stdout.take().is_some_and(|stdout| {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.any(|line| line.contains(STARTED))
    });
    if has_started {
        return ExitCode::SUCCESS;
    }
    // It has ended, or closed its output: nothing more will be printed.
    let mut told = Vec::new();
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_end(&mut told));
    let _ = std::io::stderr().write_all(&told);
    let _ = child.wait();
    ExitCode::FAILURE
}

/// In the background process: leaves the terminal of the command that started it.
pub(crate) fn begin() {
    if std::env::var_os(VARIABLE).is_some() {
        // It only fails for the leader of a group, which has no terminal to leave.
        let _ = rustix::process::setsid();
    }
}

/// In the background process, once started: closes its output, which isn't read any more.
pub(crate) fn let_go() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
