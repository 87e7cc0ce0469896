//! The objects of the workload by their names: whose they are, and where dead letters go.

use crate::ledger::{Ledger, Object, Presence};
use crate::world::World;

/// Queues of each owner that are bound to its exchange. The first one keeps its backlog, what is rejected from the
/// second one goes to another queue, and some readers of the third one don't acknowledge.
pub const QUEUES: u64 = 3;

/// A bound queue of an owner.
#[must_use]
pub fn queue(owner: usize, at: u64) -> String {
    format!("q{owner}-{at}")
}

/// The queue of an owner that only dead letters come to.
#[must_use]
pub fn dead_queue(owner: usize) -> String {
    format!("q{owner}-dead")
}

/// The queue of an owner whose messages are confirmed when they are written (`x-durability`).
#[must_use]
pub fn written_queue(owner: usize) -> String {
    format!("q{owner}-os")
}

/// Whether a power cut may take confirmed messages out of this queue.
#[must_use]
pub fn is_written_only(queue: &str) -> bool {
    queue.ends_with("-os")
}

/// The fanout exchange of an owner.
#[must_use]
pub fn exchange(owner: usize) -> String {
    format!("x{owner}")
}

/// Where messages go that are rejected from this queue: to a queue, by its name.
#[must_use]
pub fn dead_letters_of(queue: &str) -> Option<String> {
    queue.strip_suffix("-1").map(|owner| format!("{owner}-dead"))
}

/// Whether a reader of this queue gives everything back.
#[must_use]
pub fn keeps_backlog(queue: &str) -> bool {
    queue.ends_with("-0")
}

/// Whether readers of this queue may take without acknowledging.
#[must_use]
pub fn may_be_drained(queue: &str) -> bool {
    queue.ends_with("-2")
}

/// The first of an owner's objects that isn't there, and isn't asked for.
#[must_use]
pub fn missing(owner: usize, ledger: &Ledger) -> Option<Object> {
    let mut wanted = vec![Object::Exchange(exchange(owner)), Object::Queue(dead_queue(owner))];
    wanted.push(Object::Queue(written_queue(owner)));
    for at in 0..QUEUES {
        wanted.push(Object::Queue(queue(owner, at)));
        wanted.push(Object::Binding(exchange(owner), queue(owner, at), String::new()));
    }
    wanted.into_iter().find(|object| ledger.presence_now(object) != Presence::Present)
}

fn one_of<T>(mut all: Vec<T>, world: &mut World) -> Option<T> {
    if all.is_empty() {
        return None;
    }
    let choice = world.random.below(all.len() as u64) as usize;
    Some(all.swap_remove(choice))
}

fn present<'l>(ledger: &'l Ledger, wanted: impl Fn(&str) -> bool + 'l) -> impl Iterator<Item = String> + 'l {
    let is_there = |name: &&str| ledger.presence_now(&Object::Queue((*name).to_owned())) == Presence::Present;
    ledger.queues().filter(move |name| wanted(name)).filter(is_there).map(str::to_owned)
}

/// A queue of anybody that is there and that publishers may name.
pub fn some_target(world: &mut World, ledger: &Ledger) -> Option<String> {
    one_of(present(ledger, |name| !name.ends_with("-dead")).collect(), world)
}

/// A queue of anybody that is there and that consumers may take from.
pub fn some_source(world: &mut World, ledger: &Ledger) -> Option<String> {
    one_of(present(ledger, |name| !keeps_backlog(name)).collect(), world)
}

/// Any queue of anybody that is there.
pub fn some_queue(world: &mut World, ledger: &Ledger) -> Option<String> {
    one_of(present(ledger, |_| true).collect(), world)
}

/// Exchange and routing key: an exchange of anybody that is there, or a queue by its name.
pub fn some_route(world: &mut World, ledger: &Ledger) -> Option<(String, String)> {
    let exchanges = ledger.objects().filter_map(|object| match object {
        Object::Exchange(name) if ledger.presence_now(object) == Presence::Present => Some(name.clone()),
        _ => None,
    });
    let exchanges: Vec<String> = exchanges.collect();
    if world.is_rarely_synced
        && world.random.below(32) > 0
        && let Some(queue) = one_of(present(ledger, is_written_only).collect(), world)
    {
        return Some((String::new(), queue));
    }
    if !exchanges.is_empty() && world.random.below(3) > 0 {
        world.tally.hit("fan-outs");
        return Some((one_of(exchanges, world)?, String::from("any")));
    }
    Some((String::new(), some_target(world, ledger)?))
}
