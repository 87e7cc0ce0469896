//! Consent: the nodes that may have seeded a cluster because this one took them for the first.
//!
//! Where a majority has to take a node for the first before it seeds, no node may be counted by two of them. A node that answers that it
//! follows another one is counted in that one's round, whose outcome it may not see. So it follows nobody else, itself included, until the
//! other one has said that it is still blank after that round.
//!
//! Each node has a mark that changes with each round that it judges. The last round that this node can be counted in is the one that runs
//! when the other node is first heard after it isn't followed any more: a later answer with another mark, or of another start, ends it.

use std::collections::{BTreeMap, BTreeSet};

/// Consent that a node may still be counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Given {
    /// It may still be given anew.
    Now,
    /// It isn't any more, and this was heard first since: the start of the other node and its mark.
    Before(Option<(u64, u8)>),
}

/// The nodes that this one has followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Consents {
    given: BTreeMap<String, Given>,
    /// Nodes that are known to have none; `None` unless an earlier process with the same directory may have given it to any.
    free_of_earlier: Option<BTreeSet<String>>,
}

impl Consents {
    /// The consents of a node that begins. An earlier process of it may have followed any.
    pub(super) fn new(is_first_start: bool) -> Self {
        Self { given: BTreeMap::new(), free_of_earlier: (!is_first_start).then(BTreeSet::new) }
    }

    /// Forgets nodes that discovery doesn't name any more, and knows those that it does.
    pub(super) fn named(&mut self, names: &[&str], own: &str) {
        self.given.retain(|name, _| names.contains(&name.as_str()));
        if let Some(free) = &self.free_of_earlier {
            for name in names.iter().filter(|name| **name != own && !free.contains(**name)) {
                self.given.entry((*name).to_owned()).or_insert(Given::Before(None));
            }
        }
    }

    /// Notes that a node is blank. `follows` is the node that this one said it followed when the other one answered.
    pub(super) fn blank(&mut self, name: &str, heard: (u64, u8), follows: &str) {
        let Some(given) = self.given.get_mut(name).filter(|_| follows != name) else { return };
        match given {
            Given::Before(Some(first)) if *first != heard => {
                self.given.remove(name);
                if let Some(free) = &mut self.free_of_earlier {
                    free.insert(name.to_owned());
                }
            }
            Given::Before(Some(_)) => {}
            Given::Now | Given::Before(None) => *given = Given::Before(Some(heard)),
        }
    }

    /// Follows a node from now on.
    pub(super) fn give(&mut self, name: &str) {
        self.given.insert(name.to_owned(), Given::Now);
    }

    /// A node other than this one that may have seeded by consent.
    pub(super) fn other_than(&self, name: &str) -> Option<&str> {
        self.given.keys().map(String::as_str).find(|given| *given != name)
    }
}
