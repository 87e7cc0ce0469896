//! Policies and operator policies.

use serde_json::{Value, json};

use super::{CTL, Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, quoted, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(CTL, "set_policy", CommandGroup::Policies, "<name> <pattern> <definition> [--priority <priority>] [--apply-to <apply-to>]", "Sets or updates a policy", set).in_vhost(),
    Command::new(CTL, "clear_policy", CommandGroup::Policies, "<name>", "Clears (removes) a policy", clear).in_vhost(),
    Command::new(LOOK, "list_policies", CommandGroup::Policies, "", "Lists all policies of a virtual host", list).in_vhost(),
    Command::new(CTL, "set_operator_policy", CommandGroup::Policies, "<name> <pattern> <definition> [--priority <priority>] [--apply-to <apply-to>]", "Sets an operator policy, whose limits hold whatever policies say", set_operator).in_vhost(),
    Command::new(CTL, "clear_operator_policy", CommandGroup::Policies, "<name>", "Clears an operator policy", clear_operator).in_vhost(),
    Command::new(LOOK, "list_operator_policies", CommandGroup::Policies, "", "Lists operator policies of a virtual host", list_operator).in_vhost(),
    Command::new(LOOK, "list_policies_that_match", CommandGroup::Policies, "<object> [--object-type <type>]", "Lists policies that match a queue or exchange; the first one applies", matching).in_vhost(),
];

/// A kind of policies.
struct Kind {
    /// The path of the HTTP API.
    path: &'static str,
    /// The name in the texts of changes.
    set: &'static str,
    cleared: &'static str,
}

const POLICIES: Kind = Kind { path: "policies", set: "policy", cleared: "policy" };
const OPERATOR_POLICIES: Kind =
    Kind { path: "operator-policies", set: "operator policy override", cleared: "operator policy" };

impl Kind {
    fn path(&self, vhost: &str, name: &str) -> String {
        format!("/api/{}/{}/{}", self.path, word(vhost), word(name))
    }

    fn set(&self, call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
        let [name, pattern, text] = ["name", "pattern", "definition"].map(|part| call.word(part).to_owned());
        let vhost = call.vhost();
        let priority = call.given("priority").unwrap_or("0").to_owned();
        let apply_to = call.given("apply-to").unwrap_or("all").to_owned();
        let number: i64 = priority.parse().map_err(|_| {
            Failure::Usage(format!(
                "Error (argument validation): Invalid options for this command:\n--priority : {priority}, which is no whole number"
            ))
        })?;
        let node = call.node()?;
        call.say(&format!(
            "Setting {} \"{name}\" for pattern \"{pattern}\" to \"{text}\" with priority \"{priority}\" for vhost \
             \"{vhost}\" ...",
            self.set
        ));
        let definition: Value = serde_json::from_str(&text).map_err(|_| {
            Failure::check(&format!(
                "Could not parse JSON document: {{error,{{failed_to_decode_json,<<\"{text}\">>}}}}"
            ))
        })?;
        let body = json!({"pattern": pattern, "definition": definition, "priority": number, "apply-to": apply_to});
        let response = node.request("PUT", &self.path(&vhost, &name), Some(&body))?;
        match response.status {
            200..=299 => Ok(CommandOutput::Done),
            404 => Err(Failure::no_vhost(&vhost)),
            _ => Err(Failure::check(response.reason().trim_end())),
        }
    }

    fn clear(&self, call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
        let (vhost, name) = (call.vhost(), call.word("name").to_owned());
        let node = call.node()?;
        call.say(&format!("Clearing {} \"{name}\" on vhost \"{vhost}\" ...", self.cleared));
        let response = node.request("DELETE", &self.path(&vhost, &name), Some(&json!({})))?;
        match response.status {
            200..=299 => Ok(CommandOutput::Done),
            404 => Err(Failure::check("Parameter does not exist")),
            _ => Err(Failure::refused(&response.reason())),
        }
    }

    fn list(&self, call: &Call<'_>, node: &NodeClient, query: &str) -> Result<CommandOutput, Failure> {
        if node.find(&format!("/api/vhosts/{}", word(&call.vhost())))?.is_none() {
            return Err(Failure::no_vhost(&call.vhost()));
        }
        let found = node.list(&format!("/api/{}/{}{query}", self.path, word(&call.vhost())))?;
        let columns = ["vhost", "name", "pattern", "apply-to", "definition", "priority"].map(str::to_owned);
        // As JSON text, as it was given when it was set.
        Ok(listed::rows(&columns, found, |policy| policy["definition"] = json!(policy["definition"].to_string())))
    }
}

fn set(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    POLICIES.set(call)
}

fn set_operator(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    OPERATOR_POLICIES.set(call)
}

fn clear(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    POLICIES.clear(call)
}

fn clear_operator(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    OPERATOR_POLICIES.clear(call)
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Listing policies for vhost \"{}\" ...", call.vhost()));
    POLICIES.list(call, &node, "")
}

fn list_operator(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Listing operator policy overrides for vhost \"{}\" ...", call.vhost()));
    OPERATOR_POLICIES.list(call, &node, "")
}

fn matching(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, object) = (call.vhost(), call.word("object").to_owned());
    let kind = call.given("object-type").unwrap_or("queue").to_owned();
    let (objects, query) = match kind.as_str() {
        "queue" => ("queues", "queue"),
        "exchange" => ("exchanges", "exchange"),
        other => return Err(Failure::bad_argument(&format!("'{other}' is no type of objects: queue or exchange"))),
    };
    let node = call.node()?;
    call.say(&format!("Listing policies that match {kind} '{object}' in vhost '{vhost}' ..."));
    match node.find(&format!("/api/{objects}/{}/{}", word(&vhost), word(&object)))? {
        Some(_) => POLICIES.list(call, &node, &format!("?{query}={}", quoted(&object))),
        None => Err(Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned())),
    }
}
