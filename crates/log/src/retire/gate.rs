//! Up to where records have to be durable before anything may go that the states of the logs say is dead.

use crate::group::{GroupId, Groups};
use crate::types::Position;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Everything that the states reflect has positions up to here.
    position: Position,
    /// Groups that were open when a state was taken: it may reflect their settles, so their commit records have to be
    /// behind the gate, too.
    open_groups: Vec<GroupId>,
}

impl Gate {
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// States were taken when so much was appended.
    pub(crate) fn note_states(&mut self, appended: Position, groups: &Groups) {
        self.position = appended;
        for group in groups.open() {
            if !self.open_groups.contains(&group) {
                self.open_groups.push(group);
            }
        }
    }

    /// What goes depends on this record, too.
    pub(crate) fn raise(&mut self, position: Position) {
        self.position = self.position.max(position);
    }

    /// Whether all that was reflected is durable.
    pub(crate) fn is_passed(&mut self, appended: Position, durable: Position, groups: &Groups) -> bool {
        if !self.open_groups.is_empty() {
            self.open_groups.retain(|group| groups.is_open(*group));
            if !self.open_groups.is_empty() {
                return false;
            }
            self.position = appended;
        }
        self.position <= durable
    }
}
