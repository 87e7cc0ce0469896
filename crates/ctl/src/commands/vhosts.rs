//! Virtual hosts.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

const COLUMNS: &[&str] =
    &["name", "tracing", "cluster_state", "description", "tags", "default_queue_type", "protected_from_deletion"];

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "add_vhost", CommandGroup::Vhosts, "<vhost> [--description <description>] [--tags <tags>] [--default-queue-type <type>]", "Creates a virtual host", add),
    Command::new(CTL, "update_vhost_metadata", CommandGroup::Vhosts, "<vhost> [--description <description>] [--tags <tags>] [--default-queue-type <type>] [--protected-from-deletion <protected>] [--redeclare-mismatch <rule>]", "Updates a virtual host's description, tags, default queue type, protection, or what is done with declarations that differ from a queue (accept, warn or reject)", update),
    Command::new(CTL, "set_vhost_tags", CommandGroup::Vhosts, "<vhost> [<tag>...]", "Sets virtual host tags", set_tags),
    Command::new(CTL, "delete_vhost", CommandGroup::Vhosts, "<vhost>", "Deletes a virtual host and everything in it", delete),
    Command::new(CTL, "enable_vhost_deletion_protection", CommandGroup::Vhosts, "<vhost>", "Protects a virtual host from deletion", protect),
    Command::new(CTL, "disable_vhost_deletion_protection", CommandGroup::Vhosts, "<vhost>", "Removes deletion protection from a virtual host", unprotect),
    Command::new(CTL, "restart_vhost", CommandGroup::Vhosts, "", "Restarts a failed virtual host; none fails here as a whole", restart).in_vhost(),
    Command::new(CTL, "reconcile_vhosts", CommandGroup::Vhosts, "", "Makes sure all virtual hosts are up on all nodes; they are", reconcile),
    Command::new(CTL, "trace_on", CommandGroup::Vhosts, "", "Publishes copies of a virtual host's messages to amq.rabbitmq.trace", trace_on).in_vhost(),
    Command::new(CTL, "trace_off", CommandGroup::Vhosts, "", "Stops publishing copies of a virtual host's messages", trace_off).in_vhost(),
    Command::new(LOOK, "list_vhosts", CommandGroup::Access, "[<column>...]", "Lists virtual hosts", list).columns(COLUMNS),
];

fn path(vhost: &str) -> String {
    format!("/api/vhosts/{}", word(vhost))
}

/// Finds a virtual host.
///
/// # Errors
/// The virtual host doesn't exist.
pub(super) fn check(node: &NodeClient, vhost: &str) -> Result<Value, Failure> {
    node.find(&path(vhost))?.ok_or_else(|| Failure::no_vhost(vhost))
}

/// Whether there is such a virtual host.
///
/// # Errors
/// The node doesn't say.
pub(super) fn exists(node: &NodeClient, vhost: &str) -> Result<bool, Failure> {
    Ok(node.find(&path(vhost))?.is_some())
}

/// The metadata given by options.
fn metadata(call: &Call<'_>) -> Result<Value, Failure> {
    let mut body = json!({});
    if let Some(kind) = call.given("default-queue-type") {
        if !["quorum", "stream", "classic"].contains(&kind) {
            return Err(Failure::bad_argument(&format!(
                "Bad argument: Default queue type must be one of: quorum, stream, classic. Provided: {kind}"
            )));
        }
        body["default_queue_type"] = json!(kind);
    }
    if let Some(description) = call.given("description") {
        body["description"] = json!(description);
    }
    if let Some(tags) = call.given("tags") {
        body["tags"] = json!(tags);
    }
    Ok(body)
}

fn add(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.word("vhost").to_owned();
    let body = metadata(call)?;
    let node = call.node()?;
    call.say(&format!("Adding vhost \"{vhost}\" ..."));
    node.change("PUT", &path(&vhost), body)?;
    Ok(CommandOutput::Done)
}

fn update(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.word("vhost").to_owned();
    let mut body = metadata(call)?;
    if let Some(protected) = call.given("protected-from-deletion") {
        let parsed = protected.parse::<bool>();
        body["protected_from_deletion"] = json!(
            parsed.map_err(|_| Failure::bad_argument("Bad argument: --protected-from-deletion is true or false"))?
        );
    }
    if let Some(rule) = call.given("redeclare-mismatch") {
        body["redeclare_mismatch"] = json!(rule);
    }
    let node = call.node()?;
    call.say(&format!("Updating metadata of vhost \"{vhost}\" ..."));
    check(&node, &vhost)?;
    node.change("PUT", &path(&vhost), body)?;
    Ok(CommandOutput::Done)
}

fn set_tags(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, tags) = (call.word("vhost").to_owned(), call.words("tag"));
    let node = call.node()?;
    call.say(&format!("Setting tags for virtual host \"{vhost}\" to [{}] ...", tags.join(", ")));
    check(&node, &vhost)?;
    node.change("PUT", &path(&vhost), json!({"tags": tags}))?;
    Ok(CommandOutput::Done)
}

fn delete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.word("vhost").to_owned();
    let node = call.node()?;
    call.say(&format!("Deleting vhost \"{vhost}\" ..."));
    if check(&node, &vhost)?["protected_from_deletion"] == json!(true) {
        return Err(Failure::Data(
            "Error:\nCannot delete this virtual host: it is protected from deletion. To lift the protection, inspect and \
             update its metadata"
                .to_owned(),
        ));
    }
    node.delete(&path(&vhost))?;
    Ok(CommandOutput::Done)
}

fn protect(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.word("vhost").to_owned();
    let node = call.node()?;
    call.say(&format!("Protecting virtual host \"{vhost}\" from removal by updating its metadata..."));
    check(&node, &vhost)?;
    node.change("POST", &format!("{}/deletion/protection", path(&vhost)), json!({}))?;
    Ok(CommandOutput::Done)
}

fn unprotect(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.word("vhost").to_owned();
    let node = call.node()?;
    call.say(&format!("Removing deletion protection from virtual host \"{vhost}\" by updating its metadata..."));
    check(&node, &vhost)?;
    node.delete(&format!("{}/deletion/protection", path(&vhost)))?;
    Ok(CommandOutput::Done)
}

fn restart(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    let name = node.name();
    call.say(&format!("Trying to restart vhost '{vhost}' on node '{name}' ..."));
    check(&node, &vhost)?;
    Ok(CommandOutput::Text(format!("Vhost '{vhost}' is already running on node '{name}'")))
}

fn reconcile(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    call.node()?;
    call.say("Will try to initiate virtual host reconciliation on all reachable cluster nodes...");
    Ok(CommandOutput::Done)
}

fn trace_on(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Starting tracing for vhost \"{vhost}\" ..."));
    set_tracing(&node, &vhost, true)?;
    Ok(CommandOutput::Text(format!("Trace enabled for vhost {vhost}")))
}

fn trace_off(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Stopping tracing for vhost \"{vhost}\" ..."));
    set_tracing(&node, &vhost, false)?;
    Ok(CommandOutput::Text(format!("Trace disabled for vhost {vhost}")))
}

fn set_tracing(node: &NodeClient, vhost: &str, traced: bool) -> Result<(), Failure> {
    check(node, vhost)?;
    node.change("PUT", &path(vhost), json!({"tracing": traced}))
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let columns = listed::columns(call, COLUMNS, &["name"])?;
    let node = call.node()?;
    call.say("Listing vhosts ...");
    Ok(listed::rows(&columns, node.list("/api/vhosts")?, |_| {}))
}
