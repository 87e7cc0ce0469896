//! Definitions in: planned, tried on a copy of everything, and only then done.

use leveret_model::{Command, Outcome, Permit};
use serde_json::{Map, Value};

use super::document::Scope;
use super::plan::Plan;
use crate::api::Api;
use crate::error::Error;

/// So many commands are one change: one step of the snapshot, and at most a few hundred KiB of the log.
const CHUNK: usize = 1000;

/// Imports a document, all of it that isn't there. With `skip_unsupported` it is all that is built.
///
/// # Errors
/// Nothing was done: an entry makes no sense, or objects aren't built yet; they are all named.
pub(super) async fn import(
    api: &Api,
    permit: &Permit,
    document: &Map<String, Value>,
    scope: &Scope,
    skip_unsupported: bool,
) -> Result<(), Error> {
    let registry = &api.broker().registry;
    let plan = Plan::of(document, scope, &registry.staged_topology(), api.node().vhost_defaults())?;
    if !plan.unsupported.is_empty() {
        let named: Vec<String> = plan.unsupported.iter().map(ToString::to_string).collect();
        if !skip_unsupported {
            return Err(Error::NotImplemented(format!(
                "{} objects of these definitions aren't built yet, and nothing was imported: {}. With \
                 skip_unsupported=true all others are",
                named.len(),
                named.join(", ")
            )));
        }
        tracing::warn!(skipped = named.join(", "), "definitions are imported without what isn't built yet");
    }
    let commands = tried(api, permit, plan.commands)?;
    let mut commands = commands.into_iter();
    let mut position = 0;
    loop {
        let chunk: Vec<Command> = commands.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        let submitted = registry.submit_all(permit, chunk, api.node().clock().monotonic());
        // It was tried a moment ago: only somebody who changed the same objects meanwhile is in the way.
        (_, position) = submitted.map_err(|(_, refused)| Error::from(refused))?;
        if !api.broker().commit.has_room() {
            api.durable(position).await?;
        }
    }
    api.durable(position).await
}

/// The commands that change something, if none of all is refused.
fn tried(api: &Api, permit: &Permit, commands: Vec<Command>) -> Result<Vec<Command>, Error> {
    let mut trial = api.broker().registry.trial();
    let mut useful = Vec::new();
    for command in commands {
        let submitted = trial.submit(permit.clone(), command.clone());
        let submitted = submitted.map_err(|refused| {
            Error::BadRequest(format!("{}: {}", refused.kind.name().to_lowercase(), refused.text))
        })?;
        if !matches!(submitted.outcome, Outcome::Exists | Outcome::Absent) {
            useful.push(command);
        }
    }
    Ok(useful)
}
