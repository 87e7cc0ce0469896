//! A broker's system calls, counted by `perf stat`: for brokers that don't count their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::BenchError;

/// `perf` answers at once, but for the time that it takes to find all threads.
const PATIENCE_S: i64 = 10;
/// What reads, and what writes: of sockets, pipes and files alike, which the kernel's counters don't tell apart.
const READS: [&str; 4] = ["read", "readv", "recvfrom", "recvmsg"];
const WRITES: [&str; 4] = ["write", "writev", "sendto", "sendmsg"];
const SYNCS: [&str; 2] = ["fsync", "fdatasync"];

/// Before the names above, for `perf`.
const EVENT: &str = "syscalls:sys_enter_";

/// System calls of a process and all its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Calls {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) syncs: u64,
}

/// `perf stat` at work.
#[derive(Debug)]
pub(crate) struct Counting {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Counting {
    /// Counts from now on.
    ///
    /// # Errors
    /// `perf` isn't there, or may not look at that process.
    pub(crate) fn start(pid: u32) -> Result<Self, BenchError> {
        let events: Vec<String> = names().map(|name| format!("{EVENT}{name}")).collect();
        let mut child = Command::new("perf")
            // It counts once it is told to, and says so: what it takes to find all threads isn't the round's.
            .args(["stat", "--field-separator", ",", "--delay=-1", "--control", "fd:0,1", "--event", &events.join(",")])
            .args(["--pid", &pid.to_string()])
            // Numbers as they are in C.
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

    /// Stops and tells what was counted since the start.
    ///
    /// # Errors
    /// `perf` ended before, with what it said.
    pub(crate) fn stop(mut self) -> Result<Calls, BenchError> {
        let ended = self.tell("disable").and_then(|()| {
            // Of the commands none makes `perf stat` end: it goes on for as long as the process lives.
            let perf = Pid::from_child(&self.child);
            Ok(kill_process(perf, Signal::INT)?)
        });
        if let Err(error) = ended {
            return Err(self.failed(&error));
        }
        let said = self.reason();
        parse(&said).ok_or_else(|| unusable(&said))
    }

    /// Gives a command and waits until it was followed.
    fn tell(&mut self, command: &str) -> std::io::Result<()> {
        // In one write: of half a command perf takes what it has got for the whole.
        self.commands.write_all(format!("{command}\n").as_bytes())?;
        let patience = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
        if poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&patience))? == 0 {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let mut answer = Vec::new();
        self.answers.read_until(b'\n', &mut answer)?;
        // A zero byte follows each answer, and so comes before the next.
        match answer.strip_suffix(b"\n") {
            Some(answer) if answer.ends_with(b"ack") => Ok(()),
            _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn failed(&mut self, error: &std::io::Error) -> BenchError {
        // One that hangs would say nothing for ever. It fails if it has ended by itself.
        let _ = self.child.kill();
        match self.reason() {
            said if said.is_empty() => unusable(&error.to_string()),
            said => unusable(&said),
        }
    }

    /// All that it said, when it has ended or doesn't answer any more.
    fn reason(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What was said until then is enough.
            let _ = stderr.read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Both fail only if it ended by itself.
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

/// Lines of `perf stat --field-separator ,`: the count, an empty unit, the event; `None` if one is missing.
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
        // Where perf isn't installed or allowed, there is nothing to count with.
        let Ok(counting) = Counting::start(std::process::id()) else { return };
        for _ in 0..100 {
            fs::read("/proc/self/comm").expect("it is there");
        }
        let calls = counting.stop().expect("it counted");
        assert!(calls.reads >= 100, "{calls:?}");
    }

    #[test]
    fn who_can_not_be_counted_is_an_error_with_the_reason() {
        // No process has this number: it is above the kernel's largest.
        let error = Counting::start(u32::MAX >> 1).expect_err("there is no such process").to_string();
        assert!(error.starts_with("--perf counts"), "{error}");
    }
}
