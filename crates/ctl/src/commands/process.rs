//! The node's process.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CHECK, Command, CommandGroup};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::bare;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CHECK, "os_env", CommandGroup::Configuration, "", "Lists the environment variables of the node that it reads, without passwords", environment),
    Command::new(CHECK, "command_line_arguments", CommandGroup::Configuration, "", "Lists the command-line arguments of the node, without passwords", arguments),
    Command::new(CHECK, "runtime_thread_stats", CommandGroup::Monitoring, "[--sample-interval <seconds>]", "Displays the processor time that each thread of the node takes", threads),
];

/// Default time for sampling threads, in seconds, as in RabbitMQ.
const SAMPLE_SECONDS: u64 = 5;
/// Longest time for sampling threads: a day.
const SAMPLE_SECONDS_MAX: u64 = 86_400;

fn environment(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Listing RabbitMQ-specific environment variables defined on node {name}..."));
    let variables = node.get("/local/process")?["environment"].take();
    let of = |(key, value): (&String, &Value)| format!("{key}={}", bare(value));
    let lines: Vec<String> = variables.as_object().into_iter().flatten().map(of).collect();
    Ok(CommandOutput::Report {
        text: lines.join("\n"),
        value: json!({"node": name, "result": "ok", "variables": variables}),
    })
}

fn arguments(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Command line arguments of node {} ...", node.name()));
    let arguments = node.get("/local/process")?["arguments"].take();
    let lines: Vec<String> = arguments.as_array().into_iter().flatten().map(bare).collect();
    Ok(CommandOutput::Report { text: lines.join("\n"), value: arguments })
}

fn threads(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let seconds = match call.given("sample-interval").map(str::parse::<u64>) {
        None => SAMPLE_SECONDS,
        Some(Ok(seconds)) if (1..=SAMPLE_SECONDS_MAX).contains(&seconds) => seconds,
        Some(_) => {
            return Err(Failure::bad_argument(
                "Bad argument: --sample-interval must be a number of seconds from 1 to 86400",
            ));
        }
    };
    let node = call.node()?;
    let pid = node.node["pid"].as_u64().unwrap_or_default();
    call.say(&format!("Will collect runtime thread stats on {} for {seconds} seconds...", node.name()));
    let (begin, before) = (Instant::now(), sample(pid)?);
    thread::sleep(Duration::from_secs(seconds));
    let after = sample(pid)?;
    let nanoseconds = begin.elapsed().as_nanos() as f64;
    let share = |taken: u64| json!((taken as f64 * 10_000.0 / nanoseconds).round() / 100.0);
    let of = |(id, thread): (&u64, &Thread)| {
        let earlier = before.get(id);
        let since = |now: u64, of: fn(&Thread) -> u64| share(now.saturating_sub(earlier.map_or(0, of)));
        json!({
            "thread": thread.name,
            "id": id,
            "running_percent": since(thread.ran, |thread| thread.ran),
            "waiting_for_a_processor_percent": since(thread.waited, |thread| thread.waited),
        })
    };
    let columns = ["thread", "id", "running_percent", "waiting_for_a_processor_percent"].map(str::to_owned);
    Ok(Rows::pick(&columns, after.iter().map(of).collect()).into())
}

/// The kernel's counters of a thread, in nanoseconds.
struct Thread {
    name: String,
    ran: u64,
    /// Time in which the thread was runnable but waited for a processor.
    waited: u64,
}

/// The threads of a process by id.
fn sample(pid: u64) -> Result<BTreeMap<u64, Thread>, Failure> {
    let directory = format!("/proc/{pid}/task");
    let unreadable = |reason| Failure::refused(&format!("the threads of process {pid} can't be seen: {reason}"));
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(unreadable)?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread may have ended meanwhile.
        let read = |file: &str| fs::read_to_string(entry.path().join(file));
        let (Ok(name), Ok(counted)) = (read("comm"), read("schedstat")) else { continue };
        let mut numbers = counted.split_ascii_whitespace().map_while(|number| number.parse().ok());
        let (ran, waited) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        threads.insert(id, Thread { name: name.trim_end().to_owned(), ran, waited });
    }
    Ok(threads)
}
