//! What the node logs.

use serde_json::json;

use super::{CTL, Command, Group};
use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_log_level", Group::Configuration, "<log_level>", "Sets the log level until the node stops: debug, info, warning, error or none", set_level),
];

/// RabbitMQ's; Leveret has five of them and takes the others for the next that says less.
const LEVELS: &[&str] = &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none"];

fn set_level(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let level = call.word("log_level").to_owned();
    if !LEVELS.contains(&level.as_str()) {
        return Err(Failure::check(&format!(
            "level {level} is not supported. Try one of debug, info, warning, error, none"
        )));
    }
    let node = call.node()?;
    call.say(&format!("Setting log level to \"{level}\" ..."));
    node.change("PUT", "/local/log-level", json!({"level": level}))?;
    Ok(Answer::Done)
}
