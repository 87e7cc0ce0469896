//! Definitions in: planned, and carried out as one change.

use leveret_model::Permit;

use super::Unsupported;
use super::document::{Document, Scope};
use super::plan::Plan;
use crate::api::Api;
use crate::error::Error;

/// Imports a document, all of it that isn't there. What becomes of objects that aren't built is up to `unsupported`.
///
/// # Errors
/// Nothing was done: an entry makes no sense, or objects aren't built yet; they are all named.
pub(super) async fn import(
    api: &Api,
    permit: &Permit,
    document: &Document<'_>,
    scope: &Scope,
    unsupported: Unsupported,
) -> Result<(), Error> {
    let registry = &api.broker().registry;
    let plan = Plan::of(document, scope, &registry.staged_topology(), api.node().vhost_defaults())?;
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
        tracing::warn!(skipped = named.join(", "), "definitions are imported without what isn't built yet");
    }
    // A document of many objects goes in after what others have on its way to the disk.
    if !api.broker().streams.local().has_room() {
        api.durable(registry.staged().1).await?;
    }
    let submitted = registry.submit_all(permit, &plan.commands, api.node().clock().monotonic());
    let (_, ticket) = submitted.map_err(|(_, refused)| {
        Error::BadRequest(format!("{}: {}", refused.kind.name().to_lowercase(), refused.text))
    })?;
    api.durable(ticket).await
}
