use std::sync::Arc;

use imbl::HashMap;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::targets::{RouteTarget, Targets};

/// Binding keys as a trie of words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topic {
    root: Arc<Node>,
}

/// A node of the trie: what may follow some words of a binding key.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Targets of the bindings whose key ends here.
    targets: Targets,
    words: Words,
    star: Option<Arc<Node>>,
    hash: Option<Arc<Node>>,
}

/// Children by the next literal word. Most nodes have one, for which a map would be too much.
#[derive(Clone, Debug, Default)]
enum Words {
    #[default]
    None,
    One(Arc<[u8]>, Arc<Node>),
    Many(HashMap<Arc<[u8]>, Arc<Node>>),
}

impl Topic {
    pub(crate) fn bind(&mut self, key: &[u8], target: RouteTarget) {
        let mut node = Arc::make_mut(&mut self.root);
        for word in words(key) {
            node = match word {
                b"*" => Arc::make_mut(node.star.get_or_insert_default()),
                b"#" => Arc::make_mut(node.hash.get_or_insert_default()),
                word => node.words.get_or_insert(word),
            };
        }
        node.targets.add(target);
    }

    pub(crate) fn unbind(&mut self, key: &[u8], target: &RouteTarget) {
        Arc::make_mut(&mut self.root).unbind(words(key), target);
    }

    /// Matches all keys at once, word by word, by the set of nodes that the words so far lead to. So the time is
    /// linear in the number of words, however many `#` the keys have.
    pub(crate) fn matches<'a>(&'a self, key: &[u8], visit: &mut dyn FnMut(&'a RouteTarget)) {
        // Once reached, the node after a `#` is reached by every longer prefix too.
        let mut hashes = NodeSet::default();
        let mut here: SmallVec<[&Node; 16]> = SmallVec::new();
        let mut next: SmallVec<[&Node; 16]> = SmallVec::new();
        reach(&self.root, &mut here, &mut hashes);
        for word in words(key) {
            next.clear();
            // Nodes after a `#` that are reached in this round see the next word first.
            let reached = hashes.list.len();
            for at in 0..reached {
                step(hashes.list[at], word, &mut next, &mut hashes);
            }
            for node in &here {
                step(node, word, &mut next, &mut hashes);
            }
            std::mem::swap(&mut here, &mut next);
        }
        for node in here.iter().chain(&hashes.list) {
            node.targets.for_each(visit);
        }
    }
}

fn step<'a>(node: &'a Node, word: &[u8], next: &mut SmallVec<[&'a Node; 16]>, hashes: &mut NodeSet<'a>) {
    if let Some(node) = node.words.get(word) {
        reach(node, next, hashes);
    }
    if let Some(node) = &node.star {
        reach(node, next, hashes);
    }
}

/// Adds a node, and the nodes after it that follow a `#` matching no word. A node that doesn't follow a `#` has one
/// parent, so it is reached at most once a round.
fn reach<'a>(node: &'a Node, next: &mut SmallVec<[&'a Node; 16]>, hashes: &mut NodeSet<'a>) {
    next.push(node);
    let mut node = node;
    while let Some(hash) = &node.hash {
        if !hashes.insert(hash) {
            return;
        }
        node = hash;
    }
}

/// Nodes in the order in which they were reached, without duplicates.
#[derive(Default)]
struct NodeSet<'a> {
    list: SmallVec<[&'a Node; 16]>,
    /// Filled when the list is too long to be searched.
    index: FxHashSet<*const Node>,
}

impl<'a> NodeSet<'a> {
    fn insert(&mut self, node: &'a Node) -> bool {
        const SEARCHED_MAX: usize = 16;
        let new = if self.list.len() < SEARCHED_MAX {
            !self.list.iter().any(|have| std::ptr::eq(*have, node))
        } else {
            if self.index.is_empty() {
                self.index.extend(self.list.iter().map(|have| *have as *const Node));
            }
            self.index.insert(node)
        };
        if new {
            self.list.push(node);
        }
        new
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.star.is_none() && self.hash.is_none() && matches!(self.words, Words::None)
    }

    fn unbind<'k>(&mut self, mut rest: impl Iterator<Item = &'k [u8]>, target: &RouteTarget) {
        // Recursion is as deep as a key has words, at most 128 in 255 bytes.
        let Some(word) = rest.next() else {
            self.targets.remove(target);
            return;
        };
        let rest: &mut dyn Iterator<Item = &'k [u8]> = &mut rest;
        match word {
            b"*" => unbind_child(&mut self.star, rest, target),
            b"#" => unbind_child(&mut self.hash, rest, target),
            word => {
                let Some(node) = self.words.get_mut(word) else {
                    return;
                };
                let node = Arc::make_mut(node);
                node.unbind(rest, target);
                if node.is_empty() {
                    self.words.remove(word);
                }
            }
        }
    }
}

fn unbind_child(child: &mut Option<Arc<Node>>, rest: &mut dyn Iterator<Item = &[u8]>, target: &RouteTarget) {
    let Some(node) = child else { return };
    let node = Arc::make_mut(node);
    node.unbind(rest, target);
    if node.is_empty() {
        *child = None;
    }
}

impl Words {
    fn get(&self, word: &[u8]) -> Option<&Node> {
        match self {
            Words::One(have, node) if **have == *word => Some(node),
            Words::None | Words::One(..) => None,
            Words::Many(map) => map.get(word).map(|node| &**node),
        }
    }

    fn get_mut(&mut self, word: &[u8]) -> Option<&mut Arc<Node>> {
        match self {
            Words::One(have, node) if **have == *word => Some(node),
            Words::None | Words::One(..) => None,
            Words::Many(map) => map.get_mut(word),
        }
    }

    fn get_or_insert(&mut self, word: &[u8]) -> &mut Node {
        match self {
            Words::None => *self = Words::One(Arc::from(word), Arc::default()),
            Words::One(have, node) if **have != *word => {
                let other = (Arc::from(word), Arc::default());
                *self = Words::Many(HashMap::from_iter([(have.clone(), node.clone()), other]));
            }
            Words::One(..) | Words::Many(_) => {}
        }
        match self {
            Words::One(_, node) => Arc::make_mut(node),
            Words::Many(map) => Arc::make_mut(map.entry(Arc::from(word)).or_default()),
            Words::None => unreachable!("a node was put here above"),
        }
    }

    fn remove(&mut self, word: &[u8]) {
        match self {
            Words::None => {}
            Words::One(have, _) if **have == *word => *self = Words::None,
            Words::One(..) => {}
            Words::Many(map) => {
                map.remove(word);
                let left = map.iter().next().map(|(word, node)| (word.clone(), node.clone()));
                if let (1, Some((word, node))) = (map.len(), left) {
                    *self = Words::One(word, node);
                }
            }
        }
    }
}

/// The words of a key: none for the empty key, else one more than there are dots.
fn words(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    key.split(|byte| *byte == b'.').filter(move |_| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use leveret_model::QueueId;
    use proptest::prelude::*;

    use super::*;

    fn matched(keys: &[&str], routing_key: &str) -> Vec<u64> {
        let mut topic = Topic::default();
        for (id, key) in keys.iter().enumerate() {
            topic.bind(key.as_bytes(), RouteTarget::Queue(QueueId(id as u64)));
        }
        targets(&topic, routing_key)
    }

    fn targets(topic: &Topic, routing_key: &str) -> Vec<u64> {
        let mut ids = Vec::new();
        topic.matches(routing_key.as_bytes(), &mut |target| match target {
            RouteTarget::Queue(id) => ids.push(id.0),
            RouteTarget::Exchange(_) => panic!("no exchange was bound"),
        });
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The definition of matching, word by word.
    fn naive(key: &[&str], routing_key: &[&str]) -> bool {
        match key {
            [] => routing_key.is_empty(),
            ["#", rest @ ..] => (0..=routing_key.len()).any(|at| naive(rest, &routing_key[at..])),
            [word, rest @ ..] => match routing_key {
                [have, more @ ..] => (*word == "*" || word == have) && naive(rest, more),
                [] => false,
            },
        }
    }

    fn split(key: &str) -> Vec<&str> {
        if key.is_empty() { Vec::new() } else { key.split('.').collect() }
    }

    #[test]
    fn words_stars_and_hashes() {
        let keys = ["a.b", "a.*", "#", "a.#", "*.b", "#.b", "a.#.b", "b", ""];
        assert_eq!(matched(&keys, "a.b"), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(matched(&keys, "a.x.b"), [2, 3, 5, 6]);
        assert_eq!(matched(&keys, ""), [2, 8]);
        assert_eq!(matched(&keys, "a"), [2, 3]);
        assert_eq!(matched(&["*", "*.*"], "."), [1]);
    }

    #[test]
    fn unbinding_the_last_key_leaves_nothing() {
        let mut topic = Topic::default();
        let keys = ["a.b.c", "a.*.#", "#.x", "a.b"];
        for key in keys {
            topic.bind(key.as_bytes(), RouteTarget::Queue(QueueId(1)));
        }
        for key in keys {
            topic.unbind(key.as_bytes(), &RouteTarget::Queue(QueueId(1)));
        }
        assert!(topic.root.is_empty());
    }

    fn key() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "", "*", "#"]), 0..6)
            .prop_map(|words| words.join("."))
    }

    proptest! {
        #[test]
        fn matching_follows_the_definition(
            keys in prop::collection::vec(key(), 1..40),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            routing_key in prop::collection::vec(prop::sample::select(vec!["a", "b", "", "*", "#"]), 0..8),
        ) {
            let routing_key = routing_key.join(".");
            let mut topic = Topic::default();
            for (id, key) in keys.iter().enumerate() {
                topic.bind(key.as_bytes(), RouteTarget::Queue(QueueId(id as u64)));
            }
            let snapshot = topic.clone();
            let mut live: std::collections::BTreeMap<u64, &str> =
                keys.iter().enumerate().map(|(id, key)| (id as u64, &**key)).collect();
            let expected = |live: &std::collections::BTreeMap<u64, &str>| -> Vec<u64> {
                live.iter().filter(|(_, key)| naive(&split(key), &split(&routing_key))).map(|(id, _)| *id).collect()
            };
            let before = expected(&live);
            for index in removed {
                let id = index.index(keys.len()) as u64;
                if let Some(key) = live.remove(&id) {
                    topic.unbind(key.as_bytes(), &RouteTarget::Queue(QueueId(id)));
                }
            }
            prop_assert_eq!(targets(&topic, &routing_key), expected(&live));
            prop_assert_eq!(targets(&snapshot, &routing_key), before);
        }
    }
}
