use std::sync::Arc;

use super::Model;
use crate::{Arguments, Queue, QueueId, QueueOptions, QueueType, Value};

/// The vhost of adopted queues.
const VHOST: &str = "/";
/// Beginning of their names.
const PREFIX: &str = "recovered-";

impl Queue {
    /// Whether it was made by [`Model::adopt`], as far as its name tells.
    pub fn is_adopted(&self) -> bool {
        &*self.vhost == VHOST && self.name.starts_with(PREFIX) && self.declared_by.is_empty()
    }
}

impl Model {
    /// Makes a durable queue that owns the log `id`, whose own queue isn't known any more: `recovered-ID` in the vhost `/`.
    /// Returns its name. Its record isn't logged; it is in the next snapshot.
    pub fn adopt(&mut self, id: QueueId, queue_type: QueueType) -> Arc<str> {
        if self.topology.vhost(VHOST).is_none() {
            self.create_vhost(VHOST.into()).expect("there is no vhost that it could collide with");
        }
        let names = std::iter::once(format!("{PREFIX}{}", id.0));
        let mut names = names.chain((2..).map(|count| format!("{PREFIX}{}-{count}", id.0)));
        let name = names.find(|name| self.topology.queue(VHOST, name).is_none()).expect("there are enough names");
        let name: Arc<str> = name.into();
        let arguments = Arguments::from_iter([("x-queue-type", Value::from(queue_type.name()))]);
        let options = QueueOptions::effective(&arguments);
        self.topology_mut().insert_queue(Arc::new(Queue::durable(id, VHOST.into(), name.clone(), arguments, options)));
        self.next_queue = self.next_queue.max(id.0 + 1);
        self.topology_mut().generation += 1;
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adopted_queue_is_in_the_snapshot_and_keeps_its_id() {
        let mut model = Model::empty();
        assert_eq!(&*model.adopt(QueueId(7), QueueType::Classic), "recovered-7");
        assert_eq!(&*model.adopt(QueueId(3), QueueType::Stream), "recovered-3");
        let model = Model::restore(&model.snapshot()).expect("it can be read");
        let found = |name| model.topology().queue(VHOST, name).map(|queue| (queue.id, queue.queue_type()));
        assert_eq!(found("recovered-7"), Some((QueueId(7), QueueType::Classic)));
        assert_eq!(found("recovered-3"), Some((QueueId(3), QueueType::Stream)));
        assert!(model.has_given(QueueId(7)) && !model.has_given(QueueId(8)));
    }
}
