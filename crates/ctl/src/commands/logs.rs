//! The node's log and its level.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CHECK, CTL, Command, CommandGroup};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::NodeClient;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_log_level", CommandGroup::Configuration, "<log_level>", "Sets the log level until the node stops: debug, info, warning, error or none", set_level),
    Command::new(CTL, "rotate_logs", CommandGroup::Configuration, "", "Rotates the log file if log.file.rotation.count keeps old ones, and reopens files that another program moved", rotate),
    Command::new(CHECK, "log_tail", CommandGroup::Monitoring, "[--number <number>]", "Prints the last lines of the log file, 50 without --number", tail),
    Command::new(CHECK, "log_tail_stream", CommandGroup::Monitoring, "[--duration <seconds>]", "Prints new lines of the log file as they are written", stream),
];

/// RabbitMQ's levels. Leveret has six: none, critical, error, warning, info and debug. The node maps each other level
/// to the next less verbose one.
const LEVELS: &[&str] = &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none"];

/// Interval of polling for new lines.
const LOOK_EVERY: Duration = Duration::from_millis(200);

fn set_level(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let level = call.word("log_level").to_owned();
    if !LEVELS.contains(&level.as_str()) {
        return Err(Failure::check(&format!(
            "level {level} is not supported. Try one of debug, info, warning, error, none"
        )));
    }
    let node = call.node()?;
    call.say(&format!("Setting log level to \"{level}\" ..."));
    node.change("PUT", "/local/log-level", json!({"level": level}))?;
    Ok(CommandOutput::Done)
}

/// Rotates the log. RabbitMQ's command only reports that it was removed, but scripts that call it expect a rotation.
fn rotate(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Rotating logs on node {} ...", node.name()));
    node.change("POST", "/local/log/rotate", json!({}))?;
    Ok(CommandOutput::Done)
}

fn number(call: &Call<'_>, name: &str) -> Result<Option<u64>, Failure> {
    let Some(text) = call.given(name) else { return Ok(None) };
    let wrong = || Failure::Usage(format!("Error (argument validation): --{name} must be a number, got '{text}'"));
    text.parse().map(Some).map_err(|_| wrong())
}

fn tail(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let count = number(call, "number")?.unwrap_or(50);
    let node = call.node()?;
    call.say(&format!("Last {count} log lines on node {} ...", node.name()));
    let (lines, _) = lines(&node, &format!("lines={count}"))?;
    if call.options.formatter.is_for_programs() {
        let rows = lines.into_iter().map(|line| vec![Value::from(line)]).collect();
        return Ok(CommandOutput::Rows(Rows { columns: vec!["message".to_owned()], rows }));
    }
    Ok(CommandOutput::Text(lines.join("\n")))
}

/// Prints new lines as they are written, not only when the command ends.
fn stream(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let duration = number(call, "duration")?.map(Duration::from_secs);
    let node = call.node()?;
    let for_how_long = duration.map_or("indefinitely".to_owned(), |length| format!("for {} seconds", length.as_secs()));
    call.say(&format!("Streaming logs from node {} {for_how_long} ...", node.name()));
    let end = duration.map(|duration| Instant::now() + duration);
    let (_, mut position) = lines(&node, "lines=0")?;
    let mut out = io::stdout();
    let mut told = call.take_output();
    loop {
        // A closed pipe means that its reader has read enough.
        if out.write_all(told.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(CommandOutput::Done);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(CommandOutput::Done);
        }
        std::thread::sleep(end.map_or(LOOK_EVERY, |end| LOOK_EVERY.min(end.saturating_duration_since(Instant::now()))));
        let (lines, next) = lines(&node, &format!("position={position}"))?;
        position = next;
        told = lines.iter().map(|line| format!("{line}\n")).collect();
    }
}

/// Log lines, and the position to continue from.
fn lines(node: &NodeClient, query: &str) -> Result<(Vec<String>, u64), Failure> {
    let body = node.get(&format!("/local/log/tail?{query}"))?;
    let lines = body["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Ok((lines, body["position"].as_u64().unwrap_or_default()))
}
