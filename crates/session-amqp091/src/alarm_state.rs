//! An alarm of the node as a connection knows it.

/// Whether publishing is blocked on the whole node, and whether the client knows.
#[derive(Default)]
pub(crate) struct AlarmState {
    is_raised: bool,
    /// `connection.blocked` was sent, and `connection.unblocked` wasn't since.
    is_told: bool,
}

impl AlarmState {
    /// The state of a connection that begins while an alarm is raised, or none is.
    pub(crate) fn new(is_raised: bool) -> Self {
        Self { is_raised, is_told: false }
    }

    /// Publishing is blocked on the whole node, or no longer.
    pub(crate) fn note(&mut self, is_raised: bool) {
        self.is_raised = is_raised;
    }

    /// Whether publishing is blocked on the whole node.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised
    }

    /// Whether the client doesn't know of an alarm that is raised.
    #[inline]
    pub(crate) fn has_to_be_told(&self) -> bool {
        self.is_raised && !self.is_told
    }

    /// The client is told that publishing is blocked. False if it knows.
    pub(crate) fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.is_told, true)
    }

    /// The client is told that publishing goes on. False if it doesn't know of an alarm.
    pub(crate) fn tell_end(&mut self) -> bool {
        std::mem::take(&mut self.is_told)
    }
}
