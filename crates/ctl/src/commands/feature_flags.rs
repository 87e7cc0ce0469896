//! Feature flags and deprecated features.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

const COLUMNS: &[&str] = &["name", "state", "stability", "provided_by", "desc", "doc_url"];
const DEPRECATED: &[&str] = &["name", "deprecation_phase", "state", "provided_by", "desc", "doc_url"];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "enable_feature_flag", CommandGroup::FeatureFlags, "<feature_flag> [--experimental] [--opt-in]", "Enables a feature flag, or all; all are", enable),
    Command::new(LOOK, "list_feature_flags", CommandGroup::FeatureFlags, "[<column>...]", "Lists feature flags", list).columns(COLUMNS),
    Command::new(LOOK, "list_deprecated_features", CommandGroup::FeatureFlags, "[<column>...] [--used]", "Lists deprecated features", list_deprecated).columns(DEPRECATED),
    Command::new(LOOK, "check_if_any_deprecated_features_are_used", CommandGroup::Monitoring, "", "Exits with a non-zero code if a deprecated feature is used", check),
];

fn enable(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let flag = call.word("feature_flag").to_owned();
    let node = call.node()?;
    if flag == "all" {
        call.say("Enabling all feature flags ...");
        return Ok(CommandOutput::Done);
    }
    call.say(&format!("Enabling feature flag \"{flag}\" ..."));
    let response = node.request("PUT", &format!("/api/feature-flags/{}/enable", word(&flag)), Some(&json!({})))?;
    match response.status {
        200..=299 => Ok(CommandOutput::Done),
        _ => Err(Failure::Usage(format!("Error:\nThis feature flag is not supported by node {}", node.name()))),
    }
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["name", "state"])?;
    let node = call.node()?;
    call.say("Listing feature flags ...");
    Ok(listed::rows(&columns, node.list("/api/feature-flags")?, |_| {}))
}

fn list_deprecated(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, DEPRECATED, &["name", "deprecation_phase", "state"])?;
    let node = call.node()?;
    let path = if call.has("used") { "/api/deprecated-features/used" } else { "/api/deprecated-features" };
    call.say("Listing deprecated features ...");
    Ok(listed::rows(&columns, node.list(path)?, |_| {}))
}

fn check(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Checking if any deprecated features are used ...");
    let used = node.list("/api/deprecated-features/used")?;
    let names: Vec<&str> = used.iter().filter_map(|feature| feature["name"].as_str()).collect();
    match names.is_empty() {
        true => Ok(CommandOutput::Report {
            text: "Cluster reported no deprecated features in use".to_owned(),
            value: json!({"result": "ok", "deprecated_features": Value::Array(Vec::new())}),
        }),
        false => Err(Failure::Unavailable(names.join("\n"))),
    }
}
