//! Super streams: a direct exchange with streams bound to it, its partitions, in an order.

use std::sync::Arc;

use crate::arguments::Arguments;
use crate::authorize::{Action, Resource};
use crate::binding::{Binding, Destination};
use crate::command::{Bind, Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, DestinationName};
use crate::exchange::Exchange;
use crate::id::ConnectionId;
use crate::queue_type::QueueType;
use crate::topology::Topology;
use crate::value::Value;

/// Argument of the exchange.
const SUPER_STREAM: &str = "x-super-stream";
/// Argument of a partition's binding: its index.
const ORDER: &str = "x-stream-partition-order";
/// Largest number of partitions.
pub const PARTITIONS_MAX: usize = 1000;

/// Arguments of streams by their names in commands and requests, which have no `x-` before them, and whether they are numbers.
pub const STREAM_ARGUMENTS: [(&str, bool); 6] = [
    ("max-length-bytes", true),
    ("max-age", false),
    ("stream-max-segment-size-bytes", true),
    ("stream-filter-size-bytes", true),
    ("initial-cluster-size", true),
    ("queue-leader-locator", false),
];

/// Whether an exchange is the one of a super stream.
pub fn is_super_stream(exchange: &Exchange) -> bool {
    exchange.arguments.get(SUPER_STREAM) == Some(&Value::Bool(true))
}

/// Bindings of a super stream's exchange to its partitions, in their order. Those without one come last, by name.
pub fn partitions<'a>(topology: &'a Topology, exchange: &Exchange) -> Vec<&'a Arc<Binding>> {
    let is_stream =
        |name: &str| topology.queue(&exchange.vhost, name).is_some_and(|queue| queue.queue_type() == QueueType::Stream);
    let bindings = topology.bindings_of_source(&exchange.vhost, &exchange.name);
    let mut found: Vec<_> = bindings
        .filter(|binding| matches!(&binding.destination, Destination::Queue { name, .. } if is_stream(name)))
        .collect();
    found.sort_by_key(|binding| (partition_order(binding).unwrap_or(i64::MAX), binding.destination.name().to_owned()));
    found
}

/// The commands that delete a super stream as one change, its exchange first, and the names of its partitions.
pub fn deletion(
    topology: &Topology,
    exchange: &Exchange,
    connection: Option<ConnectionId>,
) -> (Vec<Command>, Vec<Arc<str>>) {
    let (vhost, name) = (exchange.vhost.clone(), exchange.name.clone());
    let mut commands = vec![Command::DeleteExchange(DeleteExchange { vhost: vhost.clone(), name, if_unused: false })];
    let mut streams: Vec<Arc<str>> = Vec::new();
    for binding in partitions(topology, exchange) {
        let stream = binding.destination.name();
        if !streams.contains(stream) {
            streams.push(stream.clone());
            let id = topology.queue(&vhost, stream).map(|queue| queue.id);
            commands.push(Command::DeleteQueue(DeleteQueue {
                vhost: vhost.clone(),
                name: stream.clone(),
                connection,
                id,
            }));
        }
    }
    (commands, streams)
}

/// The index of a partition among those of its super stream, as its binding has it.
pub fn partition_order(binding: &Binding) -> Option<i64> {
    binding.arguments.get(ORDER).and_then(Value::as_int)
}

/// A super stream that is to be created.
#[derive(Debug, Clone)]
pub struct PlannedSuperStream {
    /// Its vhost.
    pub vhost: Arc<str>,
    /// Its name, which is that of its exchange.
    pub name: Arc<str>,
    /// Its partitions in their order: the name of each stream, and its routing key.
    pub partitions: Vec<(Arc<str>, Box<str>)>,
    /// The arguments of all partitions.
    pub arguments: Arguments,
}

impl PlannedSuperStream {
    /// The actions that its creation consists of, all of which have to be authorized.
    pub fn actions(&self) -> impl Iterator<Item = Action<'_>> {
        let exchange = Action::DeclareExchange { exchange: &self.name, alternate: None };
        let of_partitions = self.partitions.iter().flat_map(|(stream, key)| {
            let destination = Resource::Queue(stream);
            [
                Action::DeclareQueue { queue: stream, dead_letter_exchange: None },
                Action::Bind { source: &self.name, destination, routing_key: key.as_bytes() },
            ]
        });
        [exchange].into_iter().chain(of_partitions)
    }

    /// The commands that create it as one change.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands = vec![Command::DeclareExchange(DeclareExchange {
            vhost: self.vhost.clone(),
            name: self.name.clone(),
            kind: "direct".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::from_iter([(SUPER_STREAM, Value::Bool(true))]),
        })];
        for (index, (stream, key)) in self.partitions.iter().enumerate() {
            let declare = DeclareQueue::durable(self.vhost.clone(), stream.clone(), self.arguments.clone());
            commands.push(Command::DeclareQueue(declare));
            commands.push(Command::Bind(Bind {
                vhost: self.vhost.clone(),
                source: self.name.clone(),
                destination: DestinationName::Queue(stream.clone()),
                routing_key: key.as_bytes().into(),
                arguments: Arguments::from_iter([(ORDER, Value::Int(index as i64))]),
                connection: None,
            }));
        }
        commands
    }
}
