//! Faults of a cluster with one metadata.

use std::cell::Cell;
use std::rc::Rc;

use leveret_model::Command;

use super::objects::change;
use super::{MS, MetadataNodeInSim, World, become_even, join, run_until};
use crate::cluster::executor::{self, Sleep, below};
use crate::net::LinkFaults;

pub(super) fn mend(world: &Rc<World>) {
    world.shared.links.borrow_mut().heal();
    let down = |node: &&Rc<MetadataNodeInSim>| node.member.get().is_some() && !node.is_alive();
    let down: Vec<u64> = world.nodes.borrow().values().filter(down).map(|node| node.sim.id).collect();
    for id in down {
        // A start that hasn't come far ends.
        world.node(id).die();
        world.start(id);
    }
}

fn cut_power(node: &MetadataNodeInSim) {
    node.die();
    let crashed = node.sim.disk.borrow().crash(below(u64::MAX));
    *node.sim.disk.borrow_mut() = Rc::new(crashed);
}

/// Forgets a node that is lost, and has another one join. Its number is the highest one, so that giving it again would be seen.
fn replace(world: &Rc<World>, next: &mut u64) -> Result<(), String> {
    mend(world);
    become_even(world)?;
    let members: Vec<_> =
        world.nodes.borrow().values().filter_map(|node| Some((node.member.get()?, node.sim.id))).collect();
    let &(_, lost) = members.iter().max().expect("there are members");
    let &(_, other) = members.iter().min().expect("there are members");
    let node = world.node(lost);
    node.die();
    let broker = world.node(other).broker.borrow().clone().expect("it runs");
    let (name, forgotten) = (node.name(), Rc::new(Cell::new(false)));
    let done = forgotten.clone();
    executor::spawn_in(0, async move {
        while change(&broker, Command::ForgetMember { name: name.clone() }).await != Some(true) {
            Sleep::after(50 * MS).await;
        }
        done.set(true);
    });
    world.histories.borrow_mut().lose_queues();
    run_until(30, "a node is forgotten", || forgotten.get())?;
    node.member.set(None);
    let id = *next;
    *next += 1;
    join(world, id, other)
}

pub(super) fn strike(world: &Rc<World>, next: &mut u64) -> Result<&'static str, String> {
    let ids: Vec<u64> =
        world.nodes.borrow().values().filter(|node| node.member.get().is_some()).map(|node| node.sim.id).collect();
    let any = || ids[usize::try_from(below(ids.len() as u64)).expect("it is small")];
    let (id, other) = (any(), any());
    let node = world.node(id);
    let is_calm = world.alive().len() == ids.len();
    let links = |change: &dyn Fn(&mut LinkFaults)| change(&mut world.shared.links.borrow_mut());
    Ok(match below(14) {
        0 | 1 if is_calm => {
            node.die();
            "kill"
        }
        2 | 3 if is_calm => {
            cut_power(&node);
            "power cut"
        }
        4 => {
            world.alive().into_iter().for_each(|id| cut_power(&world.node(id)));
            "power cut of all"
        }
        5 => {
            executor::pause(node.sim.life.get(), executor::now() + (100 + below(2500)) * MS);
            "pause"
        }
        6 | 7 => {
            links(&|links| links.isolate(id, ids.iter().copied()));
            "isolation"
        }
        8 if id != other => {
            links(&|links| links.cut(id, other));
            "cut one way"
        }
        9 => {
            links(&|links| (links.loss, links.delay) = (below(200), below(20 * MS)));
            "loss and delay"
        }
        10 => {
            node.sim.clock_step.set(i64::try_from(below(7_200_000)).expect("it is small") - 3_600_000);
            "clock step"
        }
        11 | 12 => {
            transfer(world);
            "transfer"
        }
        13 => {
            replace(world, next)?;
            "replaced"
        }
        _ => {
            mend(world);
            "mending"
        }
    })
}

/// Has the leader hand the leadership over.
fn transfer(world: &Rc<World>) {
    for node in world.nodes.borrow().values() {
        let Some(metadata) = node.metadata.borrow().clone() else { continue };
        executor::spawn_in(node.sim.life.get(), async move { metadata.transfer().await });
    }
}
