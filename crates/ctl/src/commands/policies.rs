//! Policies, which aren't supported yet: lists are empty, and no policy matches.

use super::{Command, CommandGroup, LOOK, listed};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command::new(LOOK, "list_policies", CommandGroup::Policies, "", "Lists all policies of a virtual host", list).in_vhost(),
    Command::new(LOOK, "list_operator_policies", CommandGroup::Policies, "", "Lists operator policies of a virtual host", list_operator).in_vhost(),
    Command::new(LOOK, "list_policies_that_match", CommandGroup::Policies, "<object> [--object-type <type>]", "Lists policies that match a queue", matching).in_vhost(),
];

fn find(call: &Call<'_>, node: &NodeClient, kind: &str) -> Result<CommandOutput, Failure> {
    let found = node.list(&format!("/api/{kind}/{}", word(&call.vhost())))?;
    let columns = ["vhost", "name", "pattern", "apply-to", "definition", "priority"].map(str::to_owned);
    Ok(listed::rows(&columns, found, |_| {}))
}

fn list(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Listing policies for vhost \"{}\" ...", call.vhost()));
    find(call, &node, "policies")
}

fn list_operator(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let node = call.node()?;
    call.say(&format!("Listing operator policy overrides for vhost \"{}\" ...", call.vhost()));
    find(call, &node, "operator-policies")
}

fn matching(call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
    let (vhost, queue) = (call.vhost(), call.word("object").to_owned());
    let node = call.node()?;
    call.say(&format!("Listing policies that match queue '{queue}' in vhost '{vhost}' ..."));
    match node.find(&format!("/api/queues/{}/{}", word(&vhost), word(&queue)))? {
        Some(_) => find(call, &node, "policies"),
        None => Err(Failure::Data("Object (queue, stream, exchange, etc) was not found".to_owned())),
    }
}
