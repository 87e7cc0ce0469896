//! A destination as exchanges order and hash it: by its name, which outlives the queue.

use std::cmp::Ordering;
use std::sync::Arc;

use leveret_model::{Binding, Destination};

use crate::targets::RouteTarget;

/// A destination by name. A queue that is deleted and declared again takes the place that it had.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    is_exchange: bool,
    name: Arc<str>,
    pub(crate) target: RouteTarget,
}

impl Member {
    pub(crate) fn of(binding: &Binding) -> Self {
        let is_exchange = matches!(binding.destination, Destination::Exchange { .. });
        Self { is_exchange, name: binding.destination.name().clone(), target: RouteTarget::from(binding) }
    }

    /// Kind and name as bytes that no other destination has.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_exchange)];
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    fn identity(&self) -> (bool, &str) {
        (self.is_exchange, &self.name)
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Member {}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Member {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}
