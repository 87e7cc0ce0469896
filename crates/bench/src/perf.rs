//! Counts a broker's system calls by `perf stat`, for brokers that don't count their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::BenchError;

/// Timeout for `perf`, which responds at once, except that it first has to find all threads.
const PATIENCE_S: i64 = 10;
/// System calls that read. Calls for sockets, pipes and files are the same, which the kernel's counters don't tell
/// apart.
const READS: [&str; 4] = ["read", "readv", "recvfrom", "recvmsg"];
const WRITES: [&str; 4] = ["write", "writev", "sendto", "sendmsg"];
const SYNCS: [&str; 2] = ["fsync", "fdatasync"];

/// Prefix of these names for `perf`.
const EVENT: &str = "syscalls:sys_enter_";

/// System calls of a process and all its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Calls {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) syncs: u64,
}

/// A running `perf stat`.
#[derive(Debug)]
pub(crate) struct Counting {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Counting {
    /// Starts counting those of processes, whose numbers are separated by commas.
    ///
    /// # Errors
    /// `perf` isn't installed, or isn't permitted to observe these processes.
    pub(crate) fn start(pids: &str) -> Result<Self, BenchError> {
        let events: Vec<String> = names().map(|name| format!("{EVENT}{name}")).collect();
        let mut child = Command::new("perf")
            // It starts counting on command and confirms that: the time for finding all threads isn't part of the
            // round.
            .args(["stat", "--field-separator", ",", "--delay=-1", "--control", "fd:0,1", "--event", &events.join(",")])
            .args(["--pid", pids])
            // For numbers in C's format.
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| unusable(&format!("can't be started: {error}")))?;
        let commands = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut counting = Self { child, commands, answers };
        match counting.tell("enable") {
            Ok(()) => Ok(counting),
            Err(error) => Err(counting.failed(&error)),
        }
    }

    /// Stops and returns the counts since the start.
    ///
    /// # Errors
    /// `perf` ended before, with its output.
    pub(crate) fn stop(mut self) -> Result<Calls, BenchError> {
        let ended = self.tell("disable").and_then(|()| {
            // No command ends `perf stat`: it continues for as long as the process lives.
            let perf = Pid::from_child(&self.child);
            Ok(kill_process(perf, Signal::INT)?)
        });
        if let Err(error) = ended {
            return Err(self.failed(&error));
        }
        let said = self.reason();
        parse(&said).ok_or_else(|| unusable(&said))
    }

    /// Sends a command and waits for its confirmation.
    fn tell(&mut self, command: &str) -> std::io::Result<()> {
        // In one write: perf takes half a command for the whole.
        self.commands.write_all(format!("{command}\n").as_bytes())?;
        let patience = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
        if poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&patience))? == 0 {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let mut answer = Vec::new();
        self.answers.read_until(b'\n', &mut answer)?;
        // A zero byte follows each response, and so precedes the next.
        match answer.strip_suffix(b"\n") {
            Some(answer) if answer.ends_with(b"ack") => Ok(()),
            _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn failed(&mut self, error: &std::io::Error) -> BenchError {
        // A hanging process would stay forever. Killing fails only if it has ended.
        let _ = self.child.kill();
        match self.reason() {
            said if said.is_empty() => unusable(&error.to_string()),
            said => unusable(&said),
        }
    }

    /// All of its output, once it has ended or stopped responding.
    fn reason(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // The output until then is enough.
            let _ = stderr.read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    READS.into_iter().chain(WRITES).chain(SYNCS)
}

fn unusable(why: &str) -> BenchError {
    BenchError::Usage(format!(
        "--perf counts a broker's system calls by perf stat, which says: {why}; leave --perf out to run without"
    ))
}

/// Parses lines of `perf stat --field-separator ,`: the count, an empty unit, the event; `None` if one is missing.
fn parse(text: &str) -> Option<Calls> {
    let count = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| {
            let mut fields = line.split(',');
            let count = fields.next()?;
            let event = fields.nth(1)?;
            (event.strip_prefix(EVENT)? == name).then(|| count.parse().ok())?
        })
    };
    let sum = |names: &[&str]| names.iter().map(|name| count(name)).sum::<Option<u64>>();
    Some(Calls { reads: sum(&READS)?, writes: sum(&WRITES)?, syncs: sum(&SYNCS)? })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Calls, Counting, EVENT, names, parse};

    #[test]
    fn calls_are_summed_up_by_what_they_do() {
        let lines = |count: &dyn Fn(usize) -> String| {
            let lines = names().enumerate().map(|(at, name)| format!("{},,{EVENT}{name},1000,100.00,,\n", count(at)));
            format!("Events enabled\nEvents disabled\n{}", lines.collect::<String>())
        };
        let text = lines(&|at| (at + 1).to_string());
        assert_eq!(parse(&text), Some(Calls { reads: 1 + 2 + 3 + 4, writes: 5 + 6 + 7 + 8, syncs: 9 + 10 }));
        let text = lines(&|at| if at == 8 { "<not counted>".into() } else { "1".into() });
        assert_eq!(parse(&text), None);
        assert_eq!(parse("Error:\nNo permission\n"), None);
    }

    #[test]
    fn calls_of_a_process_are_counted_from_start_to_stop() {
        // If perf isn't installed or permitted, there is nothing to test.
        let Ok(counting) = Counting::start(&std::process::id().to_string()) else { return };
        for _ in 0..100 {
            fs::read("/proc/self/comm").expect("it is there");
        }
        let calls = counting.stop().expect("it counted");
        assert!(calls.reads >= 100, "{calls:?}");
    }

    #[test]
    fn a_process_that_cannot_be_counted_gives_an_error() {
        // No process has this id: it is above the kernel's maximum.
        let error = Counting::start(&(u32::MAX >> 1).to_string()).expect_err("there is no such process").to_string();
        assert!(error.starts_with("--perf counts"), "{error}");
    }
}
