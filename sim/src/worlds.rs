//! Several brokers in one simulation: each has a world with a disk, clients and virtual cores of its own. They share the
//! time, and one seed chooses which of them moves. Links carry bytes between them.

use leveret_broker::Nanos;

use crate::event_hash::EventHash;
use crate::failure::Failure;
use crate::net::Links;
use crate::random::Random;
use crate::world::World;

/// A world, and the common time at zero of its clock.
struct Member {
    world: World,
    begun: Nanos,
}

/// Worlds that share the time.
pub struct Worlds {
    members: Vec<Member>,
    now: Nanos,
    random: Random,
    /// The links between them. The number of a node is the index of its world.
    pub links: Links,
    /// The hash of all choices between worlds.
    pub hash: EventHash,
}

impl Worlds {
    /// These worlds. The present of each is the common present.
    #[must_use]
    pub fn new(worlds: Vec<World>, seed: u64) -> Self {
        let now = worlds.iter().map(|world| world.clock.nanos()).max().unwrap_or(0);
        let members = worlds.into_iter().map(|world| Member { begun: now - world.clock.nanos(), world }).collect();
        Self { members, now, random: Random::new(seed), links: Links::new(seed), hash: EventHash::default() }
    }

    /// The world with this index.
    ///
    /// # Panics
    /// If there is none.
    pub fn world(&mut self, at: usize) -> &mut World {
        &mut self.members[at].world
    }

    /// The common time in nanoseconds.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Puts another world in the place of this one: the same node after a restart, whose clock begins anew. Its links are over. The time
    /// that its start took has passed for the others, too.
    ///
    /// # Panics
    /// If there is no world with this index.
    pub fn restart(&mut self, at: usize, world: World) -> World {
        self.links.crash(at as u64);
        let begun = self.now;
        self.now += world.clock.nanos();
        std::mem::replace(&mut self.members[at], Member { world, begun }).world
    }

    /// Makes one step of one world, or lets time pass for all of them up to the next event. False if nothing can move in any
    /// of them, even later.
    ///
    /// # Errors
    /// A rule broken in one of them.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.now += self.random.below(4_000);
        self.links.pass(self.now);
        if let Some(at) = self.choose() {
            self.hash.note(at as u64);
            self.members[at].world.act_once()?;
            return Ok(true);
        }
        let next = self.members.iter().filter(|member| member.world.stopped.is_none());
        let next = next.filter_map(|member| Some(member.begun + member.world.next_time()?));
        let next = next.chain(self.links.next_time()).min();
        let Some(next) = next else { return Ok(false) };
        self.now = self.now.max(next);
        self.links.pass(self.now);
        Ok(true)
    }

    /// A world that can do something at the present time.
    fn choose(&mut self) -> Option<usize> {
        let mut able = Vec::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            member.world.pass_time(self.now - member.begun);
            if member.world.can_act() {
                able.push(at);
            }
        }
        let choice = self.random.below(able.len().max(1) as u64) as usize;
        able.get(choice).copied()
    }
}
