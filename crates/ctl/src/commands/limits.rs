//! Limits of virtual hosts and users.

use serde_json::{Map, Value, json};

use super::{CTL, Command, CommandGroup, LOOK, users, vhosts};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_vhost_limits", CommandGroup::Vhosts, "<definition>", "Sets virtual host limits, such as {\"max-connections\": 50}", set_of_vhost).in_vhost(),
    Command::new(CTL, "clear_vhost_limits", CommandGroup::Vhosts, "", "Clears virtual host limits", clear_of_vhost).in_vhost(),
    Command::new(LOOK, "list_vhost_limits", CommandGroup::Vhosts, "[--global]", "Displays configured virtual host limits", list_of_vhost).in_vhost(),
    Command::new(CTL, "set_user_limits", CommandGroup::Users, "<username> <definition>", "Sets user limits, such as {\"max-channels\": 50}", set_of_user),
    Command::new(CTL, "clear_user_limits", CommandGroup::Users, "<username> <limit>", "Clears a limit of a user, or all", clear_of_user),
    Command::new(LOOK, "list_user_limits", CommandGroup::Users, "[--user <username>] [--global]", "Displays configured user limits", list_of_user),
];

fn parse(text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|_| {
        Failure::check(&format!("Could not parse JSON document: {{error,{{failed_to_decode_json,<<\"{text}\">>}}}}"))
    })
}

/// Sets each limit of an object at a path.
fn put(node: &NodeClient, path: &str, limits: Map<String, Value>) -> Result<(), Failure> {
    for (name, value) in limits {
        let response = node.request("PUT", &format!("{path}/{}", word(&name)), Some(&json!({"value": value})))?;
        if response.status >= 300 {
            return Err(Failure::check(&response.reason()));
        }
    }
    Ok(())
}

fn set_of_vhost(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, text) = (call.vhost(), call.word("definition").to_owned());
    let node = call.node()?;
    call.say(&format!("Setting vhost limits to \"{text}\" for vhost \"{vhost}\" ..."));
    vhosts::check(&node, &vhost)?;
    put(&node, &format!("/api/vhost-limits/{}", word(&vhost)), parse(&text)?)?;
    Ok(CommandOutput::Done)
}

fn clear_of_vhost(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Clearing vhost \"{vhost}\" limits ..."));
    if !vhosts::exists(&node, &vhost)? {
        return Err(Failure::check("Parameter does not exist"));
    }
    for name in ["max-connections", "max-queues"] {
        node.delete(&format!("/api/vhost-limits/{}/{name}", word(&vhost)))?;
    }
    Ok(CommandOutput::Done)
}

fn list_of_vhost(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    if call.has("global") {
        call.say("Listing limits for all vhosts ...");
        let of_all = node.list("/api/vhost-limits")?;
        return Ok(super::listed::rows(&["vhost", "limits"].map(str::to_owned), of_all, |row| {
            row["limits"] = json!(row["value"].to_string());
        }));
    }
    call.say(&format!("Listing limits for vhost \"{vhost}\" ..."));
    vhosts::check(&node, &vhost)?;
    let found = node.list(&format!("/api/vhost-limits/{}", word(&vhost)))?;
    let text = text(&found);
    let value = json!({"node": node.name(), "value": text, "result": "ok"});
    Ok(CommandOutput::Report { text: format!("{text}\n"), value })
}

/// Formats the limits of one object; empty if it has none.
fn text(found: &[Value]) -> String {
    found.first().map(|limits| limits["value"].to_string()).unwrap_or_default()
}

fn set_of_user(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (user, text) = (call.word("username").to_owned(), call.word("definition").to_owned());
    let node = call.node()?;
    call.say(&format!("Setting user limits to \"{text}\" for user \"{user}\" ..."));
    users::look_up(&node, &user)?;
    put(&node, &format!("/api/user-limits/{}", word(&user)), parse(&text)?)?;
    Ok(CommandOutput::Done)
}

fn clear_of_user(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (user, limit) = (call.word("username").to_owned(), call.word("limit").to_owned());
    let node = call.node()?;
    let all = limit == "all";
    call.say(&match all {
        true => format!("Clearing all limits for user \"{user}\" ..."),
        false => format!("Clearing \"{limit}\" limit for user \"{user}\" ..."),
    });
    users::look_up(&node, &user)?;
    let names = if all { vec!["max-connections", "max-channels"] } else { vec![limit.as_str()] };
    for name in names {
        node.delete(&format!("/api/user-limits/{}/{}", word(&user), word(name)))?;
    }
    Ok(CommandOutput::Done)
}

fn list_of_user(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    let Some(user) = call.given("user").map(str::to_owned).filter(|_| !call.has("global")) else {
        call.say("Listing limits for all users ...");
        let of_all = node.list("/api/user-limits")?;
        return Ok(super::listed::rows(&["user", "limits"].map(str::to_owned), of_all, |row| {
            row["limits"] = json!(row["value"].to_string());
        }));
    };
    call.say(&format!("Listing limits for user \"{user}\" ..."));
    users::look_up(&node, &user)?;
    let text = text(&node.list(&format!("/api/user-limits/{}", word(&user)))?);
    Ok(CommandOutput::Report { value: json!({"message": text}), text: format!("{text}\n") })
}
