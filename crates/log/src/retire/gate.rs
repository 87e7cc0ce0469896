//! The gate of a retirement: the position that has to be durable before anything is removed that the states of the
//! logs report as dead.

use crate::group::{GroupId, Groups};
use crate::types::Position;

/// The position, and the groups it depends on.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The states reflect records up to here.
    position: Position,
    /// Groups that were open when a state was taken. It may reflect their settles, so their commit records have to be
    /// durable too.
    open_groups: Vec<GroupId>,
}

impl Gate {
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Notes that states were taken when `appended` was the last position.
    pub(crate) fn note_states(&mut self, appended: Position, groups: &Groups) {
        self.position = appended;
        for group in groups.open() {
            if !self.open_groups.contains(&group) {
                self.open_groups.push(group);
            }
        }
    }

    /// Raises the gate to this record, which the removal depends on too.
    pub(crate) fn raise(&mut self, position: Position) {
        self.position = self.position.max(position);
    }

    /// Whether everything reflected is durable.
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
