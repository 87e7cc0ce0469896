//! Forming: what a blank node does to become a member of a cluster, or to seed one.
//!
//! A blank node asks all nodes that discovery names, round by round, until it joins or seeds. It joins the first of those that have
//! something, in RabbitMQ's order: larger cluster, earlier start, name. If all are blank, one of them seeds and the others wait for it.
//! [`SeedRule`] says which one, so that nodes which start at once, in any order and with any part of them unreachable, found one cluster.
//!
//! A node that has been told that a named node has a cluster never seeds because that node is unreachable now. A node that had answered
//! and becomes unreachable gets the retries once more. Where a majority decides, none is counted by two nodes ([`consent`]).
//!
//! This is a state machine without sockets and clocks: rounds go in, steps come out. A node that has been a member doesn't form: it
//! starts by itself.

mod consent;
mod node_names;
mod reverse;
mod texts;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use node_names::{NodeNameError, host_of, pods, resolved_name};
pub use reverse::{ReverseError, hosts_name, nameservers, reverse_answer, reverse_question};

use consent::Consents;
pub use texts::with_data;
use texts::{Listed, hex};

/// Interval of log lines while nothing changes.
const LOG_INTERVAL_MS: u64 = 10_000;

/// Number of marks, so that the states of small worlds are few.
const MARKS: u8 = if cfg!(test) { 3 } else { 251 };

/// The node that may seed a cluster when all are blank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SeedRule {
    /// The first name of a fixed list: as soon as a majority of the list is blank, or after the retries.
    FirstListed,
    /// This node, at once: those that it names start one after the other.
    Named(String),
    /// The first in the order of start and name. It waits for unreachable nodes while retries are left, and for a majority of the
    /// [target size](FormingOptions::target_size) that sees it as the first, too.
    FirstOfOrder,
}

/// The facts that a node forms a cluster by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FormingOptions {
    /// Its own name.
    pub name: String,
    /// Wall time of its start, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Whether it has no data of its own and has never been a member.
    pub is_blank: bool,
    /// Whether no process has run with its directory before.
    pub is_first_start: bool,
    /// The node that may seed.
    pub rule: SeedRule,
    /// Number of retries after the first round; `None` for no limit.
    pub retry_limit: Option<u32>,
    /// The number of nodes that the operator wants; 1 if that isn't said.
    pub target_size: u32,
}

/// One round of questions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FormingRound {
    /// Time since forming began, in milliseconds.
    pub elapsed_ms: u64,
    /// The nodes that discovery names, in its order and with the own name, if it is among them; or the reason why it names none. A node
    /// that has answered has the name that it gives itself, since all have to sort by the same names.
    pub names: Result<Vec<String>, String>,
    /// The answers of the others by their names. A named node without one counts as unreachable.
    pub answers: BTreeMap<String, PeerAnswer>,
}

/// The answer of a named node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAnswer {
    /// None, for this reason.
    Unreachable(String),
    /// It is the asking node itself, which discovery knows by another name.
    Itself,
    /// It is blank.
    Blank {
        /// Wall time of its start.
        started_at_ms: u64,
        /// Its mark, as [`Forming::mark`] says it.
        mark: u8,
        /// The node that it takes for the first, as [`Forming::follows`] says it; empty for none. `None` if its answer can't say: it
        /// then counts for everybody.
        follows: Option<String>,
    },
    /// It is a member of a cluster.
    InCluster {
        /// The cluster's id.
        cluster_id: [u8; 16],
        /// Number of the cluster's members.
        size: u32,
        /// Wall time of its start.
        started_at_ms: u64,
    },
    /// It is alone, with data of its own. It can become the first node of a cluster.
    HasData {
        /// Wall time of its start.
        started_at_ms: u64,
    },
}

/// The next step of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormingStep {
    /// It seeds a cluster.
    Seed {
        /// The reason.
        text: String,
        /// Whether no other node has answered: to be said at every start until there is a second member.
        is_unanswered: bool,
    },
    /// It asks this node for its membership. If that fails, the next round follows after the interval.
    Join {
        /// The node to ask.
        node: String,
        /// The reason.
        text: String,
        /// Whether to log it, and also a failure.
        log_now: bool,
    },
    /// It asks again after the interval.
    Wait {
        /// The reason.
        text: String,
        /// Whether to log it.
        log_now: bool,
    },
    /// It starts alone, without a cluster.
    GoOnAlone(String),
}

/// A node that forms a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forming {
    options: FormingOptions,
    /// Number of rounds that count, up to one more than there are retries.
    tried: u32,
    /// Named nodes that have answered in the last round.
    answered: BTreeSet<String>,
    /// Named nodes that had answered before they became unreachable. Each gives new retries once.
    lost: BTreeSet<String>,
    /// Named nodes whose last answer was that they have a cluster, with its id.
    clusters: BTreeMap<String, [u8; 16]>,
    /// The node that this one takes for the first; empty for none.
    follows: String,
    mark: u8,
    consents: Consents,
    /// Number of joins that were tried.
    joins: usize,
    /// The kind of the last logged text, and the time when it was logged.
    logged: Option<(&'static str, u64)>,
}

/// The named nodes of a round by their answers.
#[derive(Default)]
struct Sighted<'a> {
    names: Vec<&'a str>,
    /// With size, start and cluster.
    in_cluster: Vec<(&'a str, u32, u64, [u8; 16])>,
    has_data: Vec<(u64, &'a str)>,
    blank: Vec<(u64, &'a str, Option<&'a str>)>,
    unreachable: Vec<(&'a str, &'a str)>,
    /// The error of discovery.
    error: Option<&'a str>,
}

impl Forming {
    /// A node that begins.
    #[must_use]
    pub fn new(options: FormingOptions) -> Self {
        Self {
            mark: 0,
            consents: Consents::new(options.is_first_start),
            options,
            tried: 0,
            answered: BTreeSet::new(),
            lost: BTreeSet::new(),
            clusters: BTreeMap::new(),
            follows: String::new(),
            joins: 0,
            logged: None,
        }
    }

    /// The node that this one takes for the first while it waits, for its answers to others; empty for none.
    #[must_use]
    pub fn follows(&self) -> &str {
        &self.follows
    }

    /// Something that changes with each judged round in which others may be counted, for its answers to others.
    #[must_use]
    pub fn mark(&self) -> u8 {
        self.mark
    }

    /// The step after a round.
    pub fn round(&mut self, round: &FormingRound) -> FormingStep {
        let own = self.options.name.clone();
        if !self.options.is_blank {
            return FormingStep::GoOnAlone(texts::with_data(&own, &round.names));
        }
        let sighted = self.sight(round, &own);
        self.follows.clear();
        let is_fixed = self.options.rule == SeedRule::FirstListed;
        if is_fixed && sighted.error.is_none() && sighted.names.iter().all(|name| *name == own) {
            return FormingStep::GoOnAlone(texts::NO_OTHERS.to_owned());
        }
        let retries_left = self.options.retry_limit.is_none_or(|limit| self.tried < limit);
        self.tried =
            self.tried.saturating_add(1).min(self.options.retry_limit.map_or(0, |limit| limit.saturating_add(1)));
        let step = self.step(&sighted, &own, retries_left);
        self.paced(step, round.elapsed_ms)
    }

    /// Sorts the answers of a round, and remembers what later rounds depend on.
    fn sight<'a>(&mut self, round: &'a FormingRound, own: &'a str) -> Sighted<'a> {
        let mut sighted = Sighted::default();
        match &round.names {
            Ok(names) => {
                let is_own = |name: &str| round.answers.get(name) == Some(&PeerAnswer::Itself);
                for name in names.iter().map(|name| if is_own(name) { own } else { name.as_str() }) {
                    if !sighted.names.contains(&name) {
                        sighted.names.push(name);
                    }
                }
                self.clusters.retain(|name, _| names.contains(name));
                self.consents.named(&sighted.names, own);
            }
            Err(text) => sighted.error = Some(text),
        }
        for &name in sighted.names.iter().filter(|name| **name != own) {
            let answer = round.answers.get(name);
            match answer {
                None => sighted.unreachable.push((name, "it wasn't asked")),
                // Such names have become the own one.
                Some(PeerAnswer::Itself) => {}
                Some(PeerAnswer::Unreachable(text)) => sighted.unreachable.push((name, text)),
                Some(PeerAnswer::Blank { started_at_ms, mark, follows }) => {
                    self.consents.blank(name, (*started_at_ms, *mark), &self.follows);
                    sighted.blank.push((*started_at_ms, name, follows.as_deref()));
                }
                Some(PeerAnswer::InCluster { cluster_id, size, started_at_ms }) => {
                    sighted.in_cluster.push((name, *size, *started_at_ms, *cluster_id));
                }
                Some(PeerAnswer::HasData { started_at_ms }) => sighted.has_data.push((*started_at_ms, name)),
            }
            match answer {
                Some(PeerAnswer::InCluster { cluster_id, .. }) => {
                    self.clusters.insert(name.to_owned(), *cluster_id);
                }
                Some(PeerAnswer::Blank { .. } | PeerAnswer::HasData { .. }) => {
                    self.clusters.remove(name);
                }
                Some(PeerAnswer::Itself) => {}
                Some(PeerAnswer::Unreachable(_)) | None => {
                    if self.answered.remove(name) && self.lost.insert(name.to_owned()) {
                        self.tried = 0;
                    }
                    continue;
                }
            }
            self.answered.insert(name.to_owned());
        }
        sighted.in_cluster.sort_by_key(|(name, size, started, _)| (Reverse(*size), *started, *name));
        sighted.has_data.sort_unstable();
        sighted.blank.sort_unstable();
        sighted
    }

    fn step(&mut self, sighted: &Sighted<'_>, own: &str, retries_left: bool) -> Draft {
        if let Some((first, size, _, cluster)) = sighted.in_cluster.first().copied() {
            // Any member can help, so the next attempt asks the next one.
            let members: Vec<&str> =
                sighted.in_cluster.iter().filter(|(.., id)| *id == cluster).map(|(name, ..)| *name).collect();
            let node = members.get(self.joins % members.len()).copied().unwrap_or(first);
            self.joins = self.joins.wrapping_add(1);
            let other = sighted.in_cluster.iter().find(|(.., id)| *id != cluster);
            let other = other.map(|(name, .., id)| (*name, *id));
            return Draft::Join(node.to_owned(), texts::joins(node, cluster, size, other));
        }
        if let Some((_, first)) = sighted.has_data.first().copied() {
            let seed = match &self.options.rule {
                SeedRule::FirstListed => sighted.names.first().copied(),
                SeedRule::Named(seed) => Some(seed.as_str()),
                SeedRule::FirstOfOrder => None,
            };
            let seed = seed.filter(|seed| sighted.has_data.iter().any(|(_, name)| name == seed));
            if seed.is_some() || !retries_left || sighted.unreachable.is_empty() {
                let node = seed.unwrap_or(first);
                return Draft::Join(node.to_owned(), texts::joins_alone(node));
            }
            let text = format!(
                "{first} is alone with data of its own; before joining it, this node waits for those that might have a cluster: {}",
                Listed(&sighted.unreachable)
            );
            return Draft::Wait("has data", text);
        }
        if let Some((name, cluster)) = self.clusters.iter().next() {
            let text = format!(
                "{name} has said that it is in the cluster {}, and is unreachable now. No other cluster is made: {}",
                hex(*cluster),
                Listed(&sighted.unreachable)
            );
            return Draft::Wait("lost cluster", text);
        }
        let is_unanswered = sighted.blank.is_empty();
        match self.options.rule.clone() {
            SeedRule::FirstListed => first_listed(sighted, own, retries_left),
            SeedRule::Named(seed) if seed == own => {
                Draft::Seed("this node is the one that seeds the cluster".to_owned(), is_unanswered)
            }
            SeedRule::Named(seed) => Draft::Wait("seed", texts::waits(&seed, sighted)),
            SeedRule::FirstOfOrder => self.first_of_order(sighted, own, retries_left),
        }
    }

    fn first_of_order(&mut self, sighted: &Sighted<'_>, own: &str, retries_left: bool) -> Draft {
        let is_named_alone = sighted.names.iter().all(|name| *name == own);
        let is_before = |(started, name): (u64, &str)| (started, name) < (self.options.started_at_ms, own);
        let other = sighted.blank.first().map(|(started, name, _)| (*started, *name)).filter(|other| is_before(*other));
        let first = other.map_or(own, |(_, name)| name);
        if self.options.target_size > 1 {
            self.mark = (self.mark + 1) % MARKS;
            if let Some(may_have_seeded) = self.consents.other_than(first)
                && !planted!(SeedWithoutMajority)
            {
                return Draft::Wait("consent", texts::may_have_seeded(may_have_seeded, sighted));
            }
            if first != own {
                self.consents.give(first);
            }
        }
        first.clone_into(&mut self.follows);
        if first != own {
            return Draft::Wait("seed", texts::waits(first, sighted));
        }
        if retries_left && (is_named_alone || !sighted.unreachable.is_empty()) {
            return Draft::Wait("retries", texts::incomplete(sighted));
        }
        // This node, and those that take it for the first.
        let followers =
            1 + sighted.blank.iter().filter(|(.., follows)| follows.is_none_or(|follows| follows == own)).count();
        let needed = match self.options.target_size {
            0 | 1 if retries_left => 1 + sighted.blank.len(),
            0 | 1 => 1,
            size => size as usize / 2 + 1,
        };
        if followers < needed && !planted!(SeedWithoutMajority) {
            return Draft::Wait("majority", texts::too_few(followers, needed, self.options.target_size, sighted));
        }
        let text = format!("{followers} of the nodes that discovery names take this node for the first one");
        Draft::Seed(text, sighted.blank.is_empty())
    }

    /// Decides which texts are logged: a new kind at once, and the same again after a while.
    fn paced(&mut self, draft: Draft, elapsed_ms: u64) -> FormingStep {
        let mut is_due = |kind: &'static str| {
            let is_new = |(before, at): (&str, u64)| before != kind || elapsed_ms.saturating_sub(at) >= LOG_INTERVAL_MS;
            let is_due = self.logged.is_none_or(is_new);
            if is_due {
                self.logged = Some((kind, elapsed_ms));
            }
            is_due
        };
        match draft {
            Draft::Seed(text, is_unanswered) => FormingStep::Seed { text, is_unanswered },
            Draft::Join(node, text) => FormingStep::Join { node, text, log_now: is_due("join") },
            Draft::Wait(kind, text) => FormingStep::Wait { text, log_now: is_due(kind) },
        }
    }
}

/// A step before it is known whether it is logged. Waits have a kind.
enum Draft {
    Seed(String, bool),
    Join(String, String),
    Wait(&'static str, String),
}

fn first_listed(sighted: &Sighted<'_>, own: &str, retries_left: bool) -> Draft {
    if !sighted.names.contains(&own) {
        return Draft::Wait("not listed", texts::not_listed(own, sighted));
    }
    let first = sighted.names.first().copied().unwrap_or(own);
    if first != own {
        return Draft::Wait("seed", texts::waits(first, sighted));
    }
    let (blank, listed) = (1 + sighted.blank.len(), sighted.names.len());
    if blank > listed / 2 {
        return Draft::Seed(
            format!("{blank} of the {listed} listed nodes are blank, and this one is the first"),
            blank == 1,
        );
    }
    if retries_left {
        let text = format!(
            "this node is the first of the list. It seeds the cluster when a majority has answered, or after the retries: {}",
            Listed(&sighted.unreachable)
        );
        return Draft::Wait("retries", text);
    }
    let text = format!(
        "this node is the first of the list, and after all retries still waits for {}. If they have a cluster, stop this node, remove its \
         data directory and start it again when they can be reached",
        Listed(&sighted.unreachable)
    );
    Draft::Seed(text, blank == 1)
}
