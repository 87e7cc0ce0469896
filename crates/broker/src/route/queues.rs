//! The queues of a route.

use std::iter::FusedIterator;
use std::sync::Arc;

use imbl::OrdMap;
use leveret_model::QueueId;
use smallvec::SmallVec;

use crate::queue_handle::QueueRef;
use crate::registry::{MANY_QUEUES, Snapshot};
use crate::shared_messages::Logs;

/// The queues of a route, in the order of their ids.
#[derive(Clone)]
pub struct RouteQueues(Found);

#[derive(Clone)]
enum Found {
    Few(SmallVec<[QueueRef; 2]>),
    Many(Arc<Many>),
}

/// Very many queues. Their references stay in the map of the snapshot, whose nodes are shared with other snapshots.
struct Many {
    ids: Vec<QueueId>,
    queues: OrdMap<QueueId, QueueRef>,
    logs: Logs,
    number_publishers: bool,
}

impl RouteQueues {
    /// The queues with these ids, in ascending order, that exist.
    pub(crate) fn find(snapshot: &Snapshot, ids: &[QueueId]) -> Self {
        if ids.len() < MANY_QUEUES {
            return Self(Found::Few(ids.iter().filter_map(|id| snapshot.queues.get(id).cloned()).collect()));
        }
        let (ids_there, queues) = (Vec::with_capacity(ids.len()), snapshot.queues.clone());
        let mut many = Many { ids: ids_there, queues, logs: Logs::default(), number_publishers: false };
        snapshot.each_queue(ids, |id, queue| {
            many.ids.push(id);
            many.logs.add(queue.kept());
            many.number_publishers |= queue.info().options.numbers_publishers;
        });
        Self(Found::Many(Arc::new(many)))
    }

    /// One queue.
    pub fn only(queue: QueueRef) -> Self {
        Self(Found::Few(SmallVec::from_iter([queue])))
    }

    /// Their number.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Found::Few(queues) => queues.len(),
            Found::Many(many) => many.ids.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queue at this index.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&QueueRef> {
        match &self.0 {
            Found::Few(queues) => queues.get(at),
            Found::Many(many) => many.get(at),
        }
    }

    /// The last one.
    #[inline]
    pub fn last(&self) -> Option<&QueueRef> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All of them.
    pub fn iter(&self) -> impl FusedIterator<Item = &QueueRef> {
        (0..self.len()).map_while(|at| self.get(at)).fuse()
    }

    /// How they keep messages.
    pub fn logs(&self) -> Logs {
        match &self.0 {
            Found::Few(queues) => {
                let mut logs = Logs::default();
                queues.iter().for_each(|queue| logs.add(queue.kept()));
                logs
            }
            Found::Many(many) => many.logs,
        }
    }

    /// Whether any of them drops what publishers send again that number their messages.
    pub(crate) fn number_publishers(&self) -> bool {
        match &self.0 {
            Found::Few(queues) => queues.iter().any(|queue| queue.info().options.numbers_publishers),
            Found::Many(many) => many.number_publishers,
        }
    }

    /// These queues without those that aren't `wanted`.
    pub(crate) fn filter(self, wanted: impl Fn(&QueueRef) -> bool) -> Self {
        if self.iter().all(&wanted) {
            return self;
        }
        match self.0 {
            Found::Few(mut queues) => {
                queues.retain(|queue| wanted(queue));
                Self(Found::Few(queues))
            }
            Found::Many(all) => {
                let (queues, number_publishers) = (all.queues.clone(), all.number_publishers);
                let mut many = Many { ids: Vec::new(), queues, logs: Logs::default(), number_publishers };
                for (at, queue) in (0..all.ids.len()).filter_map(|at| Some((at, all.get(at)?))) {
                    if wanted(queue) {
                        many.ids.push(all.ids[at]);
                        many.logs.add(queue.kept());
                    }
                }
                Self(Found::Many(Arc::new(many)))
            }
        }
    }

    /// Whether both are the same queues.
    pub(crate) fn are_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Found::Few(one), Found::Few(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
            }
            // An id is given once.
            (Found::Many(one), Found::Many(other)) => Arc::ptr_eq(one, other) || one.ids == other.ids,
            _ => false,
        }
    }
}

impl Many {
    fn get(&self, at: usize) -> Option<&QueueRef> {
        self.queues.get(self.ids.get(at)?)
    }
}

impl Default for RouteQueues {
    fn default() -> Self {
        Self(Found::Few(SmallVec::new()))
    }
}
