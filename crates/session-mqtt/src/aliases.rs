//! Topic aliases of a client (MQTT 5, 3.3.2.3.4).

use std::collections::BTreeMap;
use std::sync::Arc;

/// The topics that the client's aliases stand for. Nothing is allocated before the first.
#[derive(Debug, Default)]
pub(crate) struct Aliases(BTreeMap<u16, Arc<str>>);

impl Aliases {
    /// An alias stands for this topic from now on.
    pub(crate) fn set(&mut self, alias: u16, topic: &str) {
        self.0.insert(alias, topic.into());
    }

    /// The topic of an alias.
    pub(crate) fn get(&self, alias: u16) -> Option<Arc<str>> {
        self.0.get(&alias).cloned()
    }
}
