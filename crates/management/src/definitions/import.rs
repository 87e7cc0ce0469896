//! Import of definitions, planned first and then executed as one change.

use std::collections::HashSet;
use std::sync::Arc;

use leveret_broker::registry::ChangeRequests;
use leveret_model::{Bind, Command, DestinationName, LimitOwner, Permit, Refused, RefusedKind};
use serde_json::{Value, json};

use super::Manner;
use super::document::{Document, Scope};
use super::plan::Plan;
use super::shape::Ignored;
use crate::api::Api;
use crate::error::Error;

/// Attempts to import what isn't refused, while others change objects at the same time.
const TRIES: usize = 3;

/// Imports all objects of a document that don't exist, and changes those that differ. `manner` determines the treatment of objects that
/// can't be imported.
///
/// # Errors
/// Nothing was imported: an entry is invalid or refused, or objects aren't supported yet; all of these are named.
pub(super) async fn import(
    api: &Api,
    permit: Permit,
    document: &Document<'_>,
    scope: &Scope,
    manner: Manner,
) -> Result<(), Error> {
    let registry = &api.broker().registry;
    if !manner.is_start {
        // Objects of which other nodes of a cluster have been told are known here, too.
        api.catches_up().await;
    }
    let mut plan = plan(api, document, scope)?;
    if !plan.unsupported.is_empty() && !manner.skips_unsupported {
        let named: Vec<String> = plan.unsupported.iter().map(ToString::to_string).collect();
        return Err(Error::NotImplemented(format!(
            "{} objects of these definitions aren't built yet, and nothing was imported: {}. {}",
            named.len(),
            named.join(", "),
            manner.advice()
        )));
    }
    let mut skipped: Vec<String> = plan.unsupported.iter().map(ToString::to_string).collect();
    if plan.commands.is_empty() {
        tell(&plan, &skipped);
        return Ok(());
    }
    // A document with many objects waits until earlier writes of others have reached the disk.
    if !api.broker().streams.local().has_room() {
        api.durable(registry.unpublished()).await?;
    }
    let mut tries = 0;
    let mut commands: Arc<[Command]> = std::mem::take(&mut plan.commands).into();
    loop {
        let requests = ChangeRequests { permit: permit.clone(), commands: commands.clone(), is_new: false };
        match api.change_all(requests).await? {
            Ok(_) => break,
            Err((at, refused)) if concerns_all(api, &permit, &commands[at], &refused) => return Err(refused.into()),
            Err((at, refused)) if tries == TRIES => return Err(wrong(&commands[at], &refused)),
            Err(_) => tries += 1,
        }
        let refusals = api.answer(registry.refusals(permit.clone(), commands.clone())).await?;
        let of_all = refusals.iter().find(|(at, refused)| concerns_all(api, &permit, &commands[*at], refused));
        if let Some((_, refused)) = of_all {
            return Err(refused.clone().into());
        }
        let fatal = refusals
            .iter()
            .find(|(at, refused)| !manner.skips_unsupported && !is_without_queue(&commands[*at], refused));
        if let Some((at, refused)) = fatal {
            return Err(wrong(&commands[*at], refused));
        }
        skipped.extend(refusals.iter().map(|(at, refused)| left_out(&commands[*at], refused)));
        let refused: HashSet<usize> = refusals.into_iter().map(|(at, _)| at).collect();
        let left = commands.iter().enumerate().filter(|(at, _)| !refused.contains(at));
        commands = left.map(|(_, command)| command.clone()).collect();
    }
    tell(&plan, &skipped);
    // Before the node serves anybody, nobody waits for it.
    let has_policies = commands.iter().any(|command| matches!(command, Command::SetPolicy(_)));
    if has_policies && !manner.is_start {
        api.policies_apply().await?;
    }
    Ok(())
}

/// The effects of an import of the document, without doing it.
///
/// # Errors
/// An entry is invalid.
pub(super) async fn preview(
    api: &Api,
    permit: Permit,
    document: &Document<'_>,
    scope: &Scope,
    ignored: &Ignored,
) -> Result<Value, Error> {
    let plan = plan(api, document, scope)?;
    let commands: Arc<[Command]> = plan.commands.into();
    let refusals = api.answer(api.broker().registry.refusals(permit, commands.clone())).await?;
    let (without_queue, refused): (Vec<_>, Vec<_>) =
        refusals.iter().partition(|(at, refused)| is_without_queue(&commands[*at], refused));
    let named = |refusals: &[&(usize, Refused)]| -> Vec<String> {
        refusals.iter().map(|(at, refused)| left_out(&commands[*at], refused)).collect()
    };
    let unsupported: Vec<String> = plan.unsupported.iter().map(ToString::to_string).collect();
    Ok(json!({
        "dry_run": true,
        "would_be_imported": unsupported.is_empty() && refused.is_empty(),
        "changes": commands.len() - refusals.len(),
        "unsupported": unsupported,
        "refused": named(&refused),
        "left_out": named(&without_queue),
        "without_effect": plan.obsolete.lines(),
        "ignored": ignored,
    }))
}

fn plan(api: &Api, document: &Document<'_>, scope: &Scope) -> Result<Plan, Error> {
    let topology = api.topology();
    Plan::of(document, scope, &topology, api.node().vhost_defaults(), api.password_rule())
}

fn tell(plan: &Plan, skipped: &[String]) {
    if !skipped.is_empty() {
        tracing::warn!(skipped = skipped.join(", "), "definitions are imported without these objects");
    }
    for line in plan.obsolete.lines() {
        tracing::warn!("definitions have parts that are kept without an effect: {line}");
    }
}

/// Whether it is a binding of a queue that neither exists nor is in the document. RabbitMQ exports bindings of exclusive queues without
/// these, and refuses such a document itself.
fn is_without_queue(command: &Command, refused: &Refused) -> bool {
    let to_queue = matches!(command, Command::Bind(Bind { destination: DestinationName::Queue(_), .. }));
    to_queue && refused.kind == RefusedKind::NotFound && refused.text.starts_with("no queue ")
}

/// Whether a refusal isn't about its object: nobody has decided, or the asker may not import any more. Nothing is left out for that. What the
/// leader of a cluster has judged by is in this node's metadata when its answer is here.
fn concerns_all(api: &Api, permit: &Permit, command: &Command, refused: &Refused) -> bool {
    refused.kind == RefusedKind::Undecided || permit.judge_again(&api.topology(), command).is_err()
}

fn wrong(command: &Command, refused: &Refused) -> Error {
    Error::BadRequest(match command {
        Command::SetPolicy(policy) => {
            format!("{} (vhost: \"{}\" key: \"{}\")", refused.text.trim_end(), policy.vhost, policy.name)
        }
        _ => format!("{}: {}", refused.kind.name().to_lowercase(), refused.text),
    })
}

/// A refused object, with the reason on the same line.
fn left_out(command: &Command, refused: &Refused) -> String {
    let reason = refused.text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}, because of: {reason}", name_of(command))
}

/// The object that a command is for.
fn name_of(command: &Command) -> String {
    match command {
        Command::DeclareQueue(queue) => format!("queue '{}' in vhost '{}'", queue.name, queue.vhost),
        Command::DeclareExchange(exchange) => format!("exchange '{}' in vhost '{}'", exchange.name, exchange.vhost),
        Command::Bind(bind) => {
            let (DestinationName::Queue(to) | DestinationName::Exchange(to)) = &bind.destination;
            format!("binding from '{}' to '{to}' in vhost '{}'", bind.source, bind.vhost)
        }
        Command::SetPolicy(policy) => format!("{} '{}' in vhost '{}'", policy.kind.name(), policy.name, policy.vhost),
        Command::SetPermissions(given) => format!("permissions of user '{}' in vhost '{}'", given.user, given.vhost),
        Command::SetTopicPermissions(given) => {
            format!("topic permissions of user '{}' in vhost '{}'", given.user, given.vhost)
        }
        Command::PutUser(user) => format!("user '{}'", user.name),
        Command::CreateVhost { name } | Command::SetVhost { name, .. } => format!("vhost '{name}'"),
        Command::SetLimit { owner: LimitOwner::Vhost(owner), name, .. } => format!("limit '{name}' of vhost '{owner}'"),
        Command::SetLimit { owner: LimitOwner::User(owner), name, .. } => format!("limit '{name}' of user '{owner}'"),
        Command::PutGlobalParameter { name, .. } => format!("global parameter '{name}'"),
        // An import has no other ones.
        other => format!("{other:?}"),
    }
}
