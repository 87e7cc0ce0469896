//! What users may touch.

use serde_json::json;

use super::{CTL, Command, Group, LOOK, listed, users, vhosts};
use crate::answer::Answer;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_permissions", Group::Access, "<username> <conf> <write> <read>", "Sets user permissions for a vhost", set).in_vhost(),
    Command::new(CTL, "set_permissions_globally", Group::Access, "<username> <conf> <write> <read>", "Sets user permissions for all virtual hosts", set_globally),
    Command::new(CTL, "clear_permissions", Group::Access, "<username>", "Revokes user permissions for a vhost", clear).in_vhost(),
    Command::new(LOOK, "list_permissions", Group::Access, "", "Lists user permissions in a virtual host", list).in_vhost(),
    Command::new(LOOK, "list_user_permissions", Group::Access, "<username>", "Lists permissions of a user across all virtual hosts", list_of_user),
];

fn path(vhost: &str, user: &str) -> String {
    format!("/api/permissions/{}/{}", word(vhost), word(user))
}

fn patterns(call: &Call<'_>) -> serde_json::Value {
    json!({"configure": call.word("conf"), "write": call.word("write"), "read": call.word("read")})
}

fn set(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let (vhost, user) = (call.vhost(), call.word("username").to_owned());
    let node = call.node()?;
    call.say(&format!("Setting permissions for user \"{user}\" in vhost \"{vhost}\" ..."));
    users::find(&node, &user)?;
    vhosts::check(&node, &vhost)?;
    put(call, &node, &vhost, &user)?;
    Ok(Answer::Done)
}

fn put(call: &Call<'_>, node: &crate::client::Client, vhost: &str, user: &str) -> Result<(), Failure> {
    // A pattern that can't be is RabbitMQ's 69.
    let response = node.request("PUT", &path(vhost, user), Some(&patterns(call)))?;
    match response.status {
        200..=299 => Ok(()),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn set_globally(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let user = call.word("username").to_owned();
    let node = call.node()?;
    call.say(&format!("Setting permissions for user \"{user}\" in all virtual hosts ..."));
    users::find(&node, &user)?;
    for vhost in node.list("/api/vhosts?columns=name")? {
        put(call, &node, vhost["name"].as_str().unwrap_or_default(), &user)?;
    }
    Ok(Answer::Done)
}

fn clear(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let (vhost, user) = (call.vhost(), call.word("username").to_owned());
    let node = call.node()?;
    call.say(&format!("Clearing permissions for user \"{user}\" in vhost \"{vhost}\" ..."));
    users::find(&node, &user)?;
    vhosts::check(&node, &vhost)?;
    if node.find(&path(&vhost, &user))?.is_some() {
        node.delete(&path(&vhost, &user))?;
    }
    Ok(Answer::Done)
}

fn list(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Listing permissions for vhost \"{vhost}\" ..."));
    vhosts::check(&node, &vhost)?;
    let found = node.list(&format!("/api/vhosts/{}/permissions", word(&vhost)))?;
    let columns = ["user", "configure", "write", "read"].map(str::to_owned);
    Ok(listed::rows(&columns, found, |_| {}))
}

fn list_of_user(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let user = call.word("username").to_owned();
    let node = call.node()?;
    call.say(&format!("Listing permissions for user \"{user}\" ..."));
    users::find(&node, &user)?;
    let found = node.list(&format!("{}/permissions", users::path(&user)))?;
    let columns = ["vhost", "configure", "write", "read"].map(str::to_owned);
    Ok(listed::rows(&columns, found, |_| {}))
}
