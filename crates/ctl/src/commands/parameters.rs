//! Global parameters of the cluster, and parameters of components.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::word;
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_global_parameter", CommandGroup::Parameters, "<name> <value>", "Sets a parameter of the cluster, as JSON", set),
    Command::new(CTL, "clear_global_parameter", CommandGroup::Parameters, "<name>", "Clears a parameter of the cluster", clear),
    Command::new(LOOK, "list_global_parameters", CommandGroup::Parameters, "", "Lists parameters of the cluster", list),
    Command::new(CTL, "set_parameter", CommandGroup::Parameters, "<component> <name> <value>", "Sets a parameter of a component, as JSON", set_of_component).in_vhost(),
    Command::new(CTL, "clear_parameter", CommandGroup::Parameters, "<component> <name>", "Clears a parameter of a component", clear_of_component).in_vhost(),
    Command::new(LOOK, "list_parameters", CommandGroup::Parameters, "", "Lists parameters of a virtual host", list_of_vhost).in_vhost(),
    Command::new(CTL, "set_cluster_name", CommandGroup::Configuration, "<name>", "Sets the cluster name", set_cluster_name),
];

fn set(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (name, text) = (call.word("name").to_owned(), call.word("value").to_owned());
    let node = call.node()?;
    call.say(&format!("Setting global runtime parameter \"{name}\" to \"{text}\" ..."));
    let value = parse(&text)?;
    node.change("PUT", &format!("/api/global-parameters/{}", word(&name)), json!({"name": name, "value": value}))?;
    Ok(CommandOutput::Done)
}

fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| {
        Failure::check(&format!("Could not parse JSON document: {{error,{{failed_to_decode_json,<<\"{text}\">>}}}}"))
    })
}

fn path(vhost: &str, component: &str, name: &str) -> String {
    format!("/api/parameters/{}/{}/{}", word(component), word(vhost), word(name))
}

fn set_of_component(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let [component, name, text] = ["component", "name", "value"].map(|part| call.word(part).to_owned());
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!(
        "Setting runtime parameter \"{name}\" for component \"{component}\" to \"{text}\" in vhost \"{vhost}\" ..."
    ));
    let body = json!({"component": component, "vhost": vhost, "name": name, "value": parse(&text)?});
    let response = node.request("PUT", &path(&vhost, &component, &name), Some(&body))?;
    match response.status {
        200..=299 => Ok(CommandOutput::Done),
        404 => Err(Failure::no_vhost(&vhost)),
        _ => Err(Failure::check(response.reason().trim_end())),
    }
}

fn clear_of_component(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let [component, name] = ["component", "name"].map(|part| call.word(part).to_owned());
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Clearing runtime parameter \"{name}\" for component \"{component}\" on vhost \"{vhost}\" ..."));
    let response = node.request("DELETE", &path(&vhost, &component, &name), Some(&json!({})))?;
    match response.status {
        200..=299 => Ok(CommandOutput::Done),
        404 => Err(Failure::check("Parameter does not exist")),
        _ => Err(Failure::check(response.reason().trim_end())),
    }
}

fn clear(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.word("name").to_owned();
    let node = call.node()?;
    call.say(&format!("Clearing global runtime parameter \"{name}\" ..."));
    let path = format!("/api/global-parameters/{}", word(&name));
    if node.find(&path)?.is_none() {
        return Err(Failure::check("Parameter does not exist"));
    }
    node.delete(&path)?;
    Ok(CommandOutput::Done)
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say("Listing global runtime parameters ...");
    let columns = ["name", "value"].map(str::to_owned);
    Ok(listed::rows(&columns, node.list("/api/global-parameters")?, |parameter| {
        // As JSON text, as it was given when it was set.
        parameter["value"] = json!(parameter["value"].to_string());
    }))
}

fn list_of_vhost(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let vhost = call.vhost();
    let node = call.node()?;
    call.say(&format!("Listing runtime parameters for vhost \"{vhost}\" ..."));
    if node.find(&format!("/api/vhosts/{}", word(&vhost)))?.is_none() {
        return Err(Failure::no_vhost(&vhost));
    }
    let mut found = node.list("/api/parameters")?;
    found.retain(|parameter| parameter["vhost"] == json!(vhost));
    let columns = ["component", "name", "value"].map(str::to_owned);
    Ok(listed::rows(&columns, found, |parameter| parameter["value"] = json!(parameter["value"].to_string())))
}

fn set_cluster_name(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let name = call.word("name").to_owned();
    let node = call.node()?;
    call.say(&format!("Setting cluster name to {name} ..."));
    node.change("PUT", "/api/cluster-name", json!({"name": name}))?;
    Ok(CommandOutput::Done)
}
