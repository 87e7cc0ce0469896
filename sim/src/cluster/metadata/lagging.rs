//! A node that hasn't heard of the last change of permissions.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use leveret_broker::registry::ChangeRequest;
use leveret_model::{
    Action, Arguments, Command, CommandOutcome, DeclareQueue, Identity, PutUser, Refused, SetPermissions, authorize,
};

use super::objects::asked;
use super::{World, become_even, carry_out, form, in_world, run_for, run_until};
use crate::cluster::executor;

/// A user's permissions are taken away while a node is cut off from what the others say, and that node forwards a declaration of the user.
/// Returns its outcome.
///
/// # Errors
/// There was none, or the node had heard of the change.
pub fn run_lagging_node(seed: u64) -> Result<Result<CommandOutcome, Refused>, String> {
    in_world(seed, happen)
}

fn happen(world: &Rc<World>) -> Result<Result<CommandOutcome, Refused>, String> {
    form(world)?;
    let (user, vhost) = (Arc::<str>::from("ann"), Arc::<str>::from("/"));
    let put = PutUser { name: user.clone(), password_hash: None, hashing_algorithm: "none".into(), tags: Vec::new() };
    carry_out(world, 1, Command::PutUser(put))?;
    let all = || ".*".to_owned();
    carry_out(
        world,
        1,
        Command::SetPermissions(SetPermissions {
            user: user.clone(),
            vhost: vhost.clone(),
            configure: all(),
            write: all(),
            read: all(),
        }),
    )?;
    become_even(world)?;
    let leads = |id: &u64| {
        let node = world.node(*id);
        let metadata = node.metadata.borrow().clone();
        metadata.is_some_and(|metadata| metadata.leader().1 == node.member.get())
    };
    let ids = world.alive();
    let leader = ids.iter().copied().find(leads).ok_or("nobody leads")?;
    let lagging = ids.iter().copied().find(|id| *id != leader).ok_or("there is no other node")?;
    world.shared.links.borrow_mut().cut(leader, lagging);
    carry_out(world, leader, Command::ClearPermissions { user: user.clone(), vhost: vhost.clone() })?;
    let broker = world.node(lagging).broker.borrow().clone().ok_or("it runs")?;
    let topology = broker.registry.snapshot().topology.clone();
    let action = Action::DeclareQueue { queue: "q", dead_letter_exchange: None };
    let permit = authorize(&topology, &Identity::of_model(user), &vhost, action)
        .map_err(|refused| format!("the node has heard of the change: {refused:?}"))?;
    let declare = DeclareQueue::durable(vhost, "q".into(), Arguments::default());
    let request = ChangeRequest::new(permit, Command::DeclareQueue(declare));
    let outcome = Rc::new(RefCell::new(None));
    let told = outcome.clone();
    executor::spawn_in(0, async move { *told.borrow_mut() = asked(&broker, request).await });
    run_for(100);
    world.shared.links.borrow_mut().heal();
    run_until(10, "the declaration is answered", || outcome.borrow().is_some())?;
    let outcome = outcome.borrow_mut().take();
    outcome.ok_or_else(|| "there is no answer".to_owned())
}
