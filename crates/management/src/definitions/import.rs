//! Import of definitions, planned first and then executed as one change.

use leveret_model::{Command, Permit};

use super::Unsupported;
use super::document::{Document, Scope};
use super::plan::Plan;
use crate::api::Api;
use crate::error::Error;

/// Imports all objects of a document that don't exist. `unsupported` determines the treatment of unsupported objects.
///
/// # Errors
/// Nothing was imported: an entry is invalid, or objects aren't supported yet; all of these are named.
pub(super) async fn import(
    api: &Api,
    permit: &Permit,
    document: &Document<'_>,
    scope: &Scope,
    unsupported: Unsupported,
) -> Result<(), Error> {
    let registry = &api.broker().registry;
    let plan =
        Plan::of(document, scope, &registry.staged_topology(), api.node().vhost_defaults(), api.password_rule())?;
    if !plan.unsupported.is_empty() {
        let named: Vec<String> = plan.unsupported.iter().map(ToString::to_string).collect();
        let advice = match unsupported {
            Unsupported::Skipped => None,
            Unsupported::Refused => Some("With skip_unsupported=true all others are"),
            Unsupported::RefusedAtStart => Some("Take them out of the file"),
        };
        if let Some(advice) = advice {
            return Err(Error::NotImplemented(format!(
                "{} objects of these definitions aren't built yet, and nothing was imported: {}. {advice}",
                named.len(),
                named.join(", ")
            )));
        }
        tracing::warn!(skipped = named.join(", "), "definitions are imported without unsupported objects");
    }
    // A document with many objects waits until earlier writes of others have reached the disk.
    if !api.broker().streams.local().has_room() {
        api.durable(registry.staged().1).await?;
    }
    let submitted = registry.submit_all(permit, &plan.commands, api.node().clock().monotonic());
    let (_, ticket) = submitted.map_err(|(at, refused)| {
        Error::BadRequest(match &plan.commands[at] {
            Command::SetPolicy(policy) => {
                format!("{} (vhost: \"{}\" key: \"{}\")", refused.text.trim_end(), policy.vhost, policy.name)
            }
            _ => format!("{}: {}", refused.kind.name().to_lowercase(), refused.text),
        })
    })?;
    api.durable(ticket).await?;
    // Before the node serves anybody, nobody waits for it.
    let has_policies = plan.commands.iter().any(|command| matches!(command, Command::SetPolicy(_)));
    match has_policies && unsupported != Unsupported::RefusedAtStart {
        true => api.policies_apply().await,
        false => Ok(()),
    }
}
