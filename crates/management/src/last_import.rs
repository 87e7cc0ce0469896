//! The last import of definitions, so that the same once more costs no more than its digest.

use leveret_broker::Broker;
use parking_lot::Mutex;

use crate::document_digest::DocumentDigest;

/// A state of all objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation {
    /// Increases with each command that changes something.
    commands: u64,
    /// Increases with each change, which may be of many commands.
    changes: u64,
}

impl Generation {
    /// That of the objects now.
    pub(crate) fn published(broker: &Broker) -> Self {
        let snapshot = broker.registry.snapshot_full();
        Generation { commands: snapshot.topology.generation(), changes: snapshot.generation }
    }

    /// Whether one change of this many commands, all of which changed something, made it of `before`.
    pub(crate) fn is_after_one(self, before: Self, commands: usize) -> bool {
        let made = Generation { commands: before.commands + commands as u64, changes: before.changes + 1 };
        self == made
    }
}

/// The last import of which nothing was left out.
#[derive(Debug, Default)]
pub(crate) struct LastImport(Mutex<Option<(DocumentDigest, Generation)>>);

impl LastImport {
    /// Whether an import of this would change nothing.
    pub(crate) fn is(&self, digest: &DocumentDigest, generation: Generation) -> bool {
        self.0.lock().as_ref().is_some_and(|(last, at)| last == digest && *at == generation)
    }

    pub(crate) fn set(&self, digest: DocumentDigest, generation: Generation) {
        *self.0.lock() = Some((digest, generation));
    }
}
