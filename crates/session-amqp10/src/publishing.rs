//! Publishers' links whose messages aren't all with their queues.

use std::collections::VecDeque;

use super::publisher::WideRun;

/// The publishers' links of a connection whose messages aren't all with their queues.
#[derive(Default)]
pub(crate) struct Publishing {
    /// Channel and handle of links that are collecting a run.
    collecting: Vec<(u16, u32)>,
    /// Runs that aren't handed to all of their many queues yet.
    wide: VecDeque<Box<WideRun>>,
    /// A message came on any link.
    has_begun: bool,
}

impl Publishing {
    /// A message came.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Whether a message ever came.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// A link begins to collect a run.
    #[inline]
    pub(super) fn collect(&mut self, channel: u16, handle: u32) {
        self.collecting.push((channel, handle));
    }

    /// Takes out the links that are collecting.
    #[inline]
    pub(super) fn take_collecting(&mut self) -> Vec<(u16, u32)> {
        std::mem::take(&mut self.collecting)
    }

    /// A link has ended.
    pub(super) fn forget(&mut self, channel: u16, handle: u32) {
        self.collecting.retain(|other| *other != (channel, handle));
    }

    /// Adds a run that its queues get in parts.
    pub(super) fn push_wide(&mut self, run: WideRun) {
        self.wide.push_back(Box::new(run));
    }

    /// The first of these runs.
    pub(super) fn first_wide(&mut self) -> Option<&mut WideRun> {
        self.wide.front_mut().map(|run| &mut **run)
    }

    /// Takes it out.
    pub(super) fn pop_wide(&mut self) -> Option<Box<WideRun>> {
        self.wide.pop_front()
    }

    /// Whether there are such runs.
    pub(super) fn has_wide(&self) -> bool {
        !self.wide.is_empty()
    }
}
