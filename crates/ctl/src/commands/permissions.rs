//! Permissions of users.

use serde_json::json;

use super::granted::Granted;
use super::{CTL, Command, CommandGroup, LOOK, users};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::NodeClient;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_permissions", CommandGroup::Access, "<username> <conf> <write> <read>", "Sets user permissions for a vhost", set).in_vhost(),
    Command::new(CTL, "set_permissions_globally", CommandGroup::Access, "<username> <conf> <write> <read>", "Sets user permissions for all virtual hosts", set_globally),
    Command::new(CTL, "clear_permissions", CommandGroup::Access, "<username>", "Revokes user permissions for a vhost", clear).in_vhost(),
    Command::new(LOOK, "list_permissions", CommandGroup::Access, "", "Lists user permissions in a virtual host", list).in_vhost(),
    Command::new(LOOK, "list_user_permissions", CommandGroup::Access, "<username>", "Lists permissions of a user across all virtual hosts", list_of_user),
];

const PERMISSIONS: Granted =
    Granted { path: "permissions", called: "permissions", columns: ["configure", "write", "read"] };

fn set(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (node, path) = PERMISSIONS.begin(call, "Setting {called} for user \"{user}\" in vhost \"{vhost}\" ...")?;
    put(call, &node, &path)?;
    Ok(CommandOutput::Done)
}

fn put(call: &Call<'_>, node: &NodeClient, path: &str) -> Result<(), Failure> {
    let patterns = json!({"configure": call.word("conf"), "write": call.word("write"), "read": call.word("read")});
    // RabbitMQ exits with 69 for an invalid pattern.
    let response = node.request("PUT", path, Some(&patterns))?;
    match response.status {
        200..=299 => Ok(()),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn set_globally(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let user = call.word("username").to_owned();
    let node = call.node()?;
    call.say(&format!("Setting permissions for user \"{user}\" in all virtual hosts ..."));
    if !users::exists(&node, &user)? {
        return Err(Failure::no_user_for_permissions(&user));
    }
    for vhost in node.list("/api/vhosts?columns=name")? {
        put(call, &node, &PERMISSIONS.of(vhost["name"].as_str().unwrap_or_default(), &user))?;
    }
    Ok(CommandOutput::Done)
}

fn clear(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (node, path) = PERMISSIONS.announce(call, "Clearing {called} for user \"{user}\" in vhost \"{vhost}\" ...")?;
    if node.find(&path)?.is_some() {
        node.delete(&path)?;
    }
    Ok(CommandOutput::Done)
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    PERMISSIONS.list(call)
}

fn list_of_user(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    PERMISSIONS.list_of_user(call)
}
