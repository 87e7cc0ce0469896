//! Users of the internal database.

use serde_json::{Value, json};

use super::listed;
use super::{CTL, Command, CommandGroup, LOOK};
use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "add_user", CommandGroup::Users, "<username> [<password>] [--pre-hashed-password]", "Creates a new user without permissions", add),
    Command::new(CTL, "delete_user", CommandGroup::Users, "<username>", "Removes a user and closes its connections", delete),
    Command::new(CTL, "change_password", CommandGroup::Users, "<username> [<password>] [--pre-hashed-password]", "Changes the user's password", change_password),
    Command::new(CTL, "clear_password", CommandGroup::Users, "<username>", "Removes the user's password, so that the user can't log in with one", clear_password),
    Command::new(CTL, "authenticate_user", CommandGroup::Users, "<username> [<password>]", "Attempts to authenticate a user; exits with a non-zero code if that fails", authenticate),
    Command::new(CTL, "clear_auth_backend_cache", CommandGroup::Users, "", "Forgets the answers of backends of logins that the node keeps (auth_cache)", clear_cache),
    Command::new(CTL, "set_user_tags", CommandGroup::Users, "<username> [<tag>...]", "Sets user tags", set_tags),
    Command::new(LOOK, "list_users", CommandGroup::Users, "", "Lists user names and tags", list),
    Command::new(CTL, "hash_password", CommandGroup::Users, "[<plaintext>]", "Hashes a plaintext password", hash),
];

/// Path of a user in the HTTP API.
pub(super) fn path(name: &str) -> String {
    format!("/api/users/{}", word(name))
}

/// Finds a user.
///
/// # Errors
/// The user doesn't exist.
pub(super) fn find(node: &NodeClient, name: &str) -> Result<Value, Failure> {
    node.find(&path(name))?.ok_or_else(|| Failure::no_user(name))
}

/// Whether there is such a user.
///
/// # Errors
/// The node doesn't say.
pub(super) fn exists(node: &NodeClient, name: &str) -> Result<bool, Failure> {
    Ok(node.find(&path(name))?.is_some())
}

/// As [`find`], with the error of RabbitMQ's commands that look a user up: exit code 69.
///
/// # Errors
/// The user doesn't exist.
pub(super) fn look_up(node: &NodeClient, name: &str) -> Result<Value, Failure> {
    node.find(&path(name))?.ok_or_else(|| Failure::no_such_user(name))
}

fn add(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.word("username").to_owned();
    let password = call.secret("password")?;
    let node = call.node()?;
    call.say(&format!("Adding user \"{name}\" ..."));
    if node.find(&path(&name))?.is_some() {
        return Err(Failure::refused(&format!("User \"{name}\" already exists")));
    }
    let mut user = credential(call, &password);
    user["tags"] = json!([]);
    put(&node, &name, &user)?;
    call.say(
        "Done. Don't forget to grant the user permissions to some virtual hosts! See 'rabbitmqctl help set_permissions' \
         to learn more.",
    );
    Ok(CommandOutput::Done)
}

/// Sets a user with a password, which the node may refuse.
fn put(node: &NodeClient, name: &str, user: &Value) -> Result<(), Failure> {
    let response = node.request("PUT", &path(name), Some(user))?;
    match response.status {
        200..=299 => Ok(()),
        _ => Err(Failure::check(&response.reason())),
    }
}

fn credential(call: &Call<'_>, password: &str) -> Value {
    match call.has("pre-hashed-password") {
        true => json!({"password_hash": password}),
        false => json!({"password": password}),
    }
}

fn delete(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.word("username").to_owned();
    let node = call.node()?;
    call.say(&format!("Deleting user \"{name}\" ..."));
    // As in RabbitMQ, it is no error if the user doesn't exist.
    if node.find(&path(&name))?.is_some() {
        node.delete(&path(&name))?;
    }
    Ok(CommandOutput::Done)
}

fn change_password(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.word("username").to_owned();
    let password = call.secret("password")?;
    let node = call.node()?;
    call.say(&format!("Changing password for user \"{name}\" ..."));
    let mut user = credential(call, &password);
    user["tags"] = find(&node, &name)?["tags"].take();
    put(&node, &name, &user)?;
    Ok(CommandOutput::Done)
}

fn clear_password(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.word("username").to_owned();
    let node = call.node()?;
    call.say(&format!("Clearing password for user \"{name}\" ..."));
    let tags = look_up(&node, &name)?["tags"].take();
    node.change("PUT", &path(&name), json!({"password_hash": "", "tags": tags}))?;
    Ok(CommandOutput::Done)
}

fn authenticate(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let user = call.word("username").to_owned();
    let password = call.secret("password")?;
    let node = call.node()?;
    call.say(&format!("Authenticating user \"{user}\" ..."));
    let answer = node.request("POST", "/local/authenticate", Some(&json!({"user": user, "password": password})))?;
    match answer.json()["authenticated"].as_bool() {
        Some(true) => Ok(CommandOutput::Text("Success".to_owned())),
        _ => Err(Failure::Data(format!(
            "Error:\nError: failed to authenticate user \"{user}\"\nuser '{user}' - invalid credentials"
        ))),
    }
}

fn clear_cache(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Will clear rabbitmq_auth_backend_cache plugin's cache on the target node...");
    let cleared = node.request("DELETE", "/local/login-cache", None)?;
    match cleared.json()["cleared"].as_bool() {
        Some(true) => Ok(CommandOutput::Done),
        _ => Err(Failure::refused("no cache is set up on the node: auth_backends.N names no backend 'cache'")),
    }
}

fn set_tags(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (name, tags) = (call.word("username").to_owned(), call.words("tag"));
    let node = call.node()?;
    call.say(&format!("Setting tags for user \"{name}\" to [{}] ...", tags.join(", ")));
    let mut user = find(&node, &name)?;
    let (hash, algorithm) = (user["password_hash"].take(), user["hashing_algorithm"].take());
    let user = json!({"password_hash": hash, "hashing_algorithm": algorithm, "tags": tags});
    node.change("PUT", &path(&name), user)?;
    Ok(CommandOutput::Done)
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Listing users ...");
    let columns = ["user", "tags"].map(str::to_owned);
    Ok(listed::rows(&columns, node.list("/api/users")?, |user| listed::copy(user, "/name", "user")))
}

fn hash(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let password = call.secret("plaintext")?;
    let node = call.node()?;
    let mut hashed = node.get(&format!("/api/auth/hash_password/{}", word(&password)))?;
    let rows = Rows { columns: vec!["hash".to_owned()], rows: vec![vec![hashed["ok"].take()]] };
    call.options.silent = true;
    Ok(rows.into())
}
