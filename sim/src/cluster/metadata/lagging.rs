//! A node that hasn't heard of what the others have: of a change of permissions, or of its own request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use leveret_broker::registry::ChangeRequest;
use leveret_model::{
    Action, Arguments, Command, CommandOutcome, DeclareQueue, Identity, PutUser, Refused, SetPermissions, authorize,
};

use super::objects::{asked, change};
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
    let leader = leader(world).ok_or("nobody leads")?;
    let lagging = world.alive().into_iter().find(|id| *id != leader).ok_or("there is no other node")?;
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

/// A node asks for the deletion of a user, and hears nothing of the others from then on. They delete the user and restart, the user is
/// created again, and the node sends its request again. Returns whether the user is there in the end; `None` if another node leads then, so
/// that the request can't come back.
///
/// # Errors
/// Something else went wrong.
pub fn run_forgetful_leader(seed: u64) -> Result<Option<bool>, String> {
    in_world(seed, forget)
}

fn leader(world: &World) -> Option<u64> {
    let leads = |id: &u64| {
        let node = world.node(*id);
        let metadata = node.metadata.borrow().clone();
        metadata.is_some_and(|metadata| metadata.leader().1 == node.member.get())
    };
    world.alive().into_iter().find(leads)
}

fn has_user(world: &World, id: u64, name: &str) -> bool {
    let broker = world.node(id).broker.borrow().clone();
    broker.is_some_and(|broker| broker.registry.snapshot().topology.user(name).is_some())
}

fn forget(world: &Rc<World>) -> Result<Option<bool>, String> {
    form(world)?;
    let name = Arc::<str>::from("ann");
    let put = || {
        let (name, tags) = (name.clone(), Vec::new());
        Command::PutUser(PutUser { name, password_hash: None, hashing_algorithm: "none".into(), tags })
    };
    carry_out(world, 1, put())?;
    become_even(world)?;
    let first = leader(world).ok_or("nobody leads")?;
    let lagging = world.alive().into_iter().find(|id| *id != first).ok_or("there is no other node")?;
    let others: Vec<u64> = world.alive().into_iter().filter(|id| *id != lagging).collect();
    others.iter().for_each(|id| world.shared.links.borrow_mut().cut(*id, lagging));
    let broker = world.node(lagging).broker.borrow().clone().ok_or("it runs")?;
    let (delete, is_over) = (Command::DeleteUser { name: name.clone() }, Rc::new(Cell::new(false)));
    let over = is_over.clone();
    executor::spawn_in(0, async move {
        change(&broker, delete).await;
        over.set(true);
    });
    run_until(5, "the user is deleted", || others.iter().all(|id| !has_user(world, *id, &name)))?;
    // Their stores have it, so that they don't apply the entry again.
    run_for(150);
    others.iter().for_each(|id| world.node(*id).die());
    world.start(first);
    others.iter().filter(|id| **id != first).for_each(|id| world.start(*id));
    run_until(10, "there is a leader", || leader(world).is_some_and(|id| id != lagging))?;
    if leader(world) != Some(first) || is_over.get() {
        return Ok(None);
    }
    carry_out(world, first, put())?;
    run_until(10, "the request is over", || is_over.get())?;
    world.shared.links.borrow_mut().heal();
    run_for(500);
    become_even(world)?;
    Ok(Some(has_user(world, first, &name)))
}
