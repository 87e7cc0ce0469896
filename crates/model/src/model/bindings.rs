use std::collections::VecDeque;
use std::sync::Arc;

use super::Model;
use crate::{
    Bind, Binding, BindingsBetween, Change, CommandOutcome, Destination, DestinationName, Exchange, ExchangeId,
    Refused, binding,
};

impl Model {
    pub(super) fn bind(&mut self, command: Bind) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        check_default(&command)?;
        let (vhost, source) = (&command.vhost, &command.source);
        let exchange =
            self.topology.exchange(vhost, source).cloned().ok_or_else(|| Refused::no_exchange(vhost, source))?;
        let (destination, destination_logged, queue_type) = match &command.destination {
            DestinationName::Queue(name) => {
                let queue = self.topology.usable_queue(vhost, name, command.connection)?;
                (queue.destination(), queue.is_logged(), Some(queue.queue_type()))
            }
            DestinationName::Exchange(name) => {
                let found = self.topology.exchange(vhost, name);
                let found = found.ok_or_else(|| Refused::no_exchange(vhost, name))?;
                (found.destination(), found.durable, None)
            }
        };
        binding::check(exchange.routing_type(), &command.routing_key, &command.arguments, queue_type)?;
        let logged = exchange.durable && destination_logged;
        let binding = Arc::new(made(&exchange, destination, command, logged));
        if self.topology.has_binding(&binding) {
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        self.limits.check_binding(&self.topology, &binding.vhost)?;
        self.topology_mut().insert_binding(binding.clone());
        Ok((CommandOutcome::Created, vec![Change::Bound(binding)]))
    }

    /// Deletes a binding. As in RabbitMQ, it is no error if the binding or one of its ends doesn't exist.
    pub(super) fn unbind(&mut self, command: Bind) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        check_default(&command)?;
        let Some(binding) = self.find(command)? else {
            return Ok((CommandOutcome::Absent, Vec::new()));
        };
        self.topology_mut().remove_binding(&binding);
        let removed = [BindingsBetween::from(binding)];
        let sources = sources_of(&removed);
        let mut changes = removed.map(Change::Unbound).into();
        self.auto_delete(sources, &mut changes);
        Ok((CommandOutcome::Deleted, changes))
    }

    fn find(&self, command: Bind) -> Result<Option<Arc<Binding>>, Refused> {
        let (vhost, source) = (&command.vhost, &command.source);
        let Some(exchange) = self.topology.exchange(vhost, source) else {
            return Ok(None);
        };
        let found = match &command.destination {
            DestinationName::Queue(name) => {
                self.topology.queue(vhost, name).map(|queue| (queue.destination(), queue.is_logged()))
            }
            DestinationName::Exchange(name) => {
                self.topology.exchange(vhost, name).map(|found| (found.destination(), found.durable))
            }
        };
        let Some((destination, destination_logged)) = found else {
            return Ok(None);
        };
        let logged = exchange.durable && destination_logged;
        let connection = command.connection;
        let binding = Arc::new(made(exchange, destination, command, logged));
        if !self.topology.has_binding(&binding) {
            return Ok(None);
        }
        if let Destination::Queue { name, .. } = &binding.destination {
            self.topology.usable_queue(&binding.vhost, name, connection)?;
        }
        Ok(Some(binding))
    }

    /// Deletes an exchange with its bindings, and the auto-delete exchanges that lose their last binding by that.
    pub(super) fn drop_exchange(&mut self, exchange: Arc<Exchange>, changes: &mut Vec<Change>) {
        let sources = self.take_exchange(exchange, changes);
        self.auto_delete(sources, changes);
    }

    /// Deletes those of `sources` that are auto-delete exchanges and have no bindings left, and repeats that for
    /// their sources.
    pub(super) fn auto_delete(&mut self, mut sources: VecDeque<SourceExchange>, changes: &mut Vec<Change>) {
        while let Some(source) = sources.pop_front() {
            let Some(exchange) = self.topology.exchange(&source.vhost, &source.name).cloned() else {
                continue;
            };
            if !exchange.auto_delete || exchange.id != source.id {
                continue;
            }
            if self.topology.bindings_of_source(&source.vhost, &source.name).next().is_some() {
                continue;
            }
            sources.extend(self.take_exchange(exchange, changes));
        }
    }

    /// Takes an exchange away with its bindings. Returns the exchanges that were bound to it.
    pub(super) fn take_exchange(
        &mut self,
        exchange: Arc<Exchange>,
        changes: &mut Vec<Change>,
    ) -> VecDeque<SourceExchange> {
        let (from, to) = self.topology_mut().remove_exchange(&exchange);
        let sources = sources_of(&to);
        changes.extend(from.map(Change::SourceUnbound));
        changes.extend(to.into_iter().map(Change::Unbound));
        let queue = exchange.own_queue().and_then(|id| self.topology.queue_by_id(id)).cloned();
        changes.push(Change::ExchangeDeleted(exchange));
        if let Some(queue) = queue {
            // Nothing is bound to it.
            self.topology_mut().remove_queue(&queue);
            changes.push(Change::QueueDeleted(queue));
        }
        sources
    }
}

/// An exchange that lost bindings.
pub(super) struct SourceExchange {
    vhost: Arc<str>,
    name: Arc<str>,
    id: ExchangeId,
}

/// The source exchanges of bindings; consecutive bindings of the same source give one entry.
pub(super) fn sources_of(removed: &[BindingsBetween]) -> VecDeque<SourceExchange> {
    let source_of = |between: &BindingsBetween| between.first().source_id;
    let of_each = removed.chunk_by(|one, next| source_of(one) == source_of(next)).map(|together| together[0].first());
    let source =
        |one: &Arc<Binding>| SourceExchange { vhost: one.vhost.clone(), name: one.source.clone(), id: one.source_id };
    of_each.map(source).collect()
}

fn check_default(command: &Bind) -> Result<(), Refused> {
    let to_default = matches!(&command.destination, DestinationName::Exchange(name) if name.is_empty());
    match command.source.is_empty() || to_default {
        true => Err(Refused::default_exchange()),
        false => Ok(()),
    }
}

fn made(source: &Exchange, destination: Destination, command: Bind, logged: bool) -> Binding {
    Binding {
        vhost: source.vhost.clone(),
        source: source.name.clone(),
        destination,
        routing_key: command.routing_key,
        arguments: command.arguments,
        source_id: source.id,
        logged,
    }
}
