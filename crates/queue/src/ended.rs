//! Many consumers whose queue is gone, to be told so a few at a time.

use std::collections::hash_map;

use rustc_hash::FxHashMap;

use crate::consumer::{Consumer, ConsumerId};
use crate::effects::Signal;

/// With more consumers than this, whoever ended the queue doesn't tell them all: that would take milliseconds.
pub(crate) const TOLD_AT_ONCE_MAX: usize = 1000;

/// See the module.
#[derive(Default)]
pub struct Ended {
    left: Option<hash_map::IntoIter<ConsumerId, Box<Consumer>>>,
}

impl Ended {
    pub(crate) fn new(consumers: FxHashMap<ConsumerId, Box<Consumer>>) -> Self {
        Self { left: Some(consumers.into_iter()) }
    }

    /// All have been told.
    pub fn is_empty(&self) -> bool {
        self.left.as_ref().is_none_or(|left| left.len() == 0)
    }

    /// Tells some of them that they are cancelled. Call it without any queue lock.
    pub fn tell(&mut self) {
        for (_, consumer) in self.left.iter_mut().flatten().take(TOLD_AT_ONCE_MAX) {
            consumer.options.link.signal(Signal::Cancelled(consumer.options.key));
        }
    }
}
