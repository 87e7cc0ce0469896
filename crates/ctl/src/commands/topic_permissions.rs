//! Which routing keys users may use at topic exchanges.

use serde_json::json;

use super::{CTL, Command, Group, LOOK, listed, users, vhosts};
use crate::answer::Answer;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_topic_permissions", Group::Access, "<username> <exchange> <write> <read>", "Sets user topic permissions for an exchange", set).in_vhost(),
    Command::new(CTL, "clear_topic_permissions", Group::Access, "<username> [<exchange>]", "Clears user topic permissions for a vhost or exchange", clear).in_vhost(),
    Command::new(LOOK, "list_topic_permissions", Group::Access, "", "Lists topic permissions in a virtual host", list).in_vhost(),
    Command::new(LOOK, "list_user_topic_permissions", Group::Access, "<username>", "Lists user topic permissions", list_of_user),
];

fn path(vhost: &str, user: &str) -> String {
    format!("/api/topic-permissions/{}/{}", word(vhost), word(user))
}

fn set(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let (vhost, user) = (call.vhost(), call.word("username").to_owned());
    let exchange = call.word("exchange").to_owned();
    let node = call.node()?;
    call.say(&format!("Setting topic permissions on \"{exchange}\" for user \"{user}\" in vhost \"{vhost}\" ..."));
    users::find(&node, &user)?;
    vhosts::check(&node, &vhost)?;
    let body = json!({"exchange": exchange, "write": call.word("write"), "read": call.word("read")});
    node.change("PUT", &path(&vhost, &user), body)?;
    Ok(Answer::Done)
}

fn clear(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let (vhost, user) = (call.vhost(), call.word("username").to_owned());
    let exchange = call.given("exchange").map(str::to_owned);
    let node = call.node()?;
    let at = exchange.as_ref().map(|exchange| format!(" on \"{exchange}\"")).unwrap_or_default();
    call.say(&format!("Clearing topic permissions{at} for user \"{user}\" in vhost \"{vhost}\" ..."));
    users::find(&node, &user)?;
    vhosts::check(&node, &vhost)?;
    if node.find(&path(&vhost, &user))?.is_some() {
        let at = exchange.map(|exchange| format!("/{}", word(&exchange))).unwrap_or_default();
        node.delete(&format!("{}{at}", path(&vhost, &user)))?;
    }
    Ok(Answer::Done)
}

fn list(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Listing topic permissions for vhost \"{vhost}\" ..."));
    vhosts::check(&node, &vhost)?;
    let found = node.list(&format!("/api/vhosts/{}/topic-permissions", word(&vhost)))?;
    let columns = ["user", "exchange", "write", "read"].map(str::to_owned);
    Ok(listed::rows(&columns, found, |_| {}))
}

fn list_of_user(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let user = call.word("username").to_owned();
    let node = call.node()?;
    call.say(&format!("Listing topic permissions for user \"{user}\" ..."));
    users::find(&node, &user)?;
    let found = node.list(&format!("{}/topic-permissions", users::path(&user)))?;
    let columns = ["vhost", "exchange", "write", "read"].map(str::to_owned);
    // RabbitMQ's has no names of columns here.
    call.options.no_table_headers = true;
    Ok(listed::rows(&columns, found, |_| {}))
}
