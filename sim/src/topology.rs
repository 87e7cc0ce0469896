//! The objects of the workload by their names: their owners, and the targets of their dead letters.

use crate::ledger::{Ledger, Object, Presence};
use crate::streams::{self, StreamKind};
use crate::world::World;

/// Number of queues of each owner that are bound to its exchange. The first one keeps its backlog, messages rejected
/// from the second one go to another queue, and the third one has a single active consumer; some of its readers don't
/// acknowledge.
pub const QUEUES: u64 = 3;

/// A bound queue of an owner.
#[must_use]
pub fn queue(owner: usize, at: u64) -> String {
    format!("q{owner}-{at}")
}

/// The queue of an owner that only gets dead letters.
#[must_use]
pub fn dead_queue(owner: usize) -> String {
    format!("q{owner}-dead")
}

/// The queue of an owner whose messages are confirmed when they are written (`x-durability`).
#[must_use]
pub fn written_queue(owner: usize) -> String {
    format!("q{owner}-os")
}

/// The stream of an owner, which is bound to its exchange. Those of every second owner are of the kind that the seed chose.
#[must_use]
pub fn stream(owner: usize, kind: StreamKind) -> String {
    let kind = if owner % 2 == 1 { kind } else { StreamKind::Endless };
    format!("q{owner}-stream{}", kind.suffix())
}

/// All queues of an owner that are bound to its exchange.
#[must_use]
pub fn bound(owner: usize, ledger: &Ledger) -> Vec<String> {
    let stream = stream(owner, ledger.stream_kind);
    (0..QUEUES).map(|at| queue(owner, at)).chain([stream]).collect()
}

/// Whether a power cut may take confirmed messages out of this queue.
#[must_use]
pub fn is_written_only(queue: &str) -> bool {
    queue.ends_with("-os")
}

/// Whether this is a quorum queue: those of every second owner are, apart from the queues that keep their backlog.
#[must_use]
pub fn is_quorum(queue: &str) -> bool {
    let owner_and_number = queue.strip_prefix('q').and_then(|rest| rest.split_once('-'));
    owner_and_number.is_some_and(|(owner, number)| {
        owner.parse::<usize>().is_ok_and(|owner| owner % 2 == 1) && matches!(number, "1" | "2" | "dead")
    })
}

/// Whether only one consumer of this queue is active, of either type.
#[must_use]
pub fn is_single_active(queue: &str) -> bool {
    may_be_drained(queue)
}

/// The fanout exchange of an owner.
#[must_use]
pub fn exchange(owner: usize) -> String {
    format!("x{owner}")
}

/// The name of the queue that messages rejected from this queue go to.
#[must_use]
pub fn dead_letters_of(queue: &str) -> Option<String> {
    queue.strip_suffix("-1").map(|owner| format!("{owner}-dead"))
}

/// Whether readers of this queue return every message.
#[must_use]
pub fn keeps_backlog(queue: &str) -> bool {
    queue.ends_with("-0")
}

/// Whether readers of this queue may take messages without acknowledging.
#[must_use]
pub fn may_be_drained(queue: &str) -> bool {
    queue.ends_with("-2")
}

/// The first of an owner's objects that doesn't exist and isn't requested.
#[must_use]
pub fn missing(owner: usize, ledger: &Ledger) -> Option<Object> {
    let mut wanted = vec![Object::Exchange(exchange(owner)), Object::Queue(dead_queue(owner))];
    wanted.push(Object::Queue(written_queue(owner)));
    for queue in bound(owner, ledger) {
        wanted.push(Object::Queue(queue.clone()));
        wanted.push(Object::Binding(exchange(owner), queue, String::new()));
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

/// An existing queue of any owner that publishers may name.
pub fn some_target(world: &mut World, ledger: &Ledger) -> Option<String> {
    one_of(present(ledger, |name| !name.ends_with("-dead")).collect(), world)
}

/// An existing stream of any owner.
pub fn some_stream(world: &mut World, ledger: &Ledger) -> Option<String> {
    one_of(present(ledger, streams::is_stream).collect(), world)
}

/// An existing queue of any owner that consumers may take from.
pub fn some_source(world: &mut World, ledger: &Ledger) -> Option<String> {
    let only_streams = world.random.below(5) == 0;
    let may_read = |name: &str| !keeps_backlog(name) && (!only_streams || streams::is_stream(name));
    one_of(present(ledger, may_read).collect(), world)
}

/// An existing queue of any owner that messages can be got from.
pub fn some_queue(world: &mut World, ledger: &Ledger) -> Option<String> {
    let may_get = |name: &str| !(is_quorum(name) && is_single_active(name) || streams::is_stream(name));
    one_of(present(ledger, may_get).collect(), world)
}

/// Exchange and routing key: of an existing exchange of any owner, or of a queue by its name.
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
