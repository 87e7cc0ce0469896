//! Exchanges that give each message to one of their bindings, all of which are alike: by chance, or by a hash of the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::Vector;
use leveret_model::Binding;

use super::member::Member;
use crate::hash;
use crate::targets::RouteTarget;

/// All bindings in the order of their destinations, which is the same after a restart. A destination that is bound twice is
/// there twice, and gets twice as much, as in RabbitMQ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    members: Vector<Member>,
}

impl Pool {
    pub(crate) fn bind(&mut self, binding: &Binding) {
        let member = Member::of(binding);
        let at = self.members.binary_search(&member).unwrap_or_else(|at| at);
        self.members.insert(at, member);
    }

    pub(crate) fn unbind(&mut self, binding: &Binding) {
        if let Ok(at) = self.members.binary_search(&Member::of(binding)) {
            self.members.remove(at);
        }
    }

    /// Removes all bindings to the destination of this one.
    pub(crate) fn forget(&mut self, binding: &Binding) {
        let member = Member::of(binding);
        let Ok(found) = self.members.binary_search(&member) else { return };
        let at = |is_before: &dyn Fn(&Member) -> bool| partition_point(&self.members, found, is_before);
        let (first, end) = (at(&|other| *other < member), at(&|other| *other <= member));
        let _gone = self.members.slice(first..end);
    }

    /// The destination at which evenly distributed bits point.
    pub(crate) fn pick(&self, bits: u64) -> Option<&RouteTarget> {
        self.members.get(hash::below(self.members.len(), bits)).map(|member| &member.target)
    }

    /// The destination of a key.
    pub(crate) fn of_key(&self, key: &[u8]) -> Option<&RouteTarget> {
        let hash = hash::of(key);
        let at = hash.checked_rem(self.members.len() as u64)?;
        self.members.get(at as usize).map(|member| &member.target)
    }
}

/// The first index whose member isn't before others, near `found`.
fn partition_point(members: &Vector<Member>, found: usize, is_before: &dyn Fn(&Member) -> bool) -> usize {
    let (mut low, mut high) = match is_before(&members[found]) {
        true => (found + 1, members.len()),
        false => (0, found),
    };
    while low < high {
        let middle = low + (high - low) / 2;
        match is_before(&members[middle]) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// A sequence of numbers by chance, shared by all snapshots of an exchange. It begins anew when the exchange is declared or the
/// node starts, so that a simulation can be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Draws(Arc<AtomicU64>);

impl Draws {
    /// Another sequence for each exchange: exchanges bound to one another have to draw independently.
    pub(crate) fn new(vhost: &str, exchange: &str) -> Self {
        let seed = hash::of(exchange.as_bytes()) ^ hash::of(vhost.as_bytes()).rotate_left(32);
        Self(Arc::new(AtomicU64::new(seed)))
    }

    pub(crate) fn next(&self) -> u64 {
        hash::mixed(self.0.fetch_add(hash::STEP, Ordering::Relaxed))
    }
}
