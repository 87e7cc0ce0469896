use std::collections::VecDeque;
use std::sync::Arc;

use super::Model;
use crate::{Bind, Binding, Change, Destination, DestinationName, Exchange, Outcome, Refused, binding};

impl Model {
    pub(super) fn bind(&mut self, command: Bind) -> Result<(Outcome, Vec<Change>), Refused> {
        check_default(&command)?;
        let (vhost, source) = (&command.vhost, &command.source);
        let exchange =
            self.topology.exchange(vhost, source).cloned().ok_or_else(|| Refused::no_exchange(vhost, source))?;
        let (destination, destination_logged) = match &command.destination {
            DestinationName::Queue(name) => {
                let queue = self.topology.usable_queue(vhost, name, command.connection)?;
                (queue.destination(), queue.is_logged())
            }
            DestinationName::Exchange(name) => {
                let found = self.topology.exchange(vhost, name);
                let found = found.ok_or_else(|| Refused::no_exchange(vhost, name))?;
                (found.destination(), found.durable)
            }
        };
        binding::check(exchange.kind, &command.routing_key, &command.arguments)?;
        let logged = exchange.durable && destination_logged;
        let binding = Arc::new(made(&exchange, destination, command, logged));
        if self.topology.has_binding(&binding) {
            return Ok((Outcome::Exists, Vec::new()));
        }
        self.limits.check_binding(&self.topology, &binding.vhost)?;
        self.topology.insert_binding(binding.clone());
        Ok((Outcome::Created, vec![Change::Bound(binding)]))
    }

    /// Takes a binding away. As in RabbitMQ it is no error if it or one of its ends doesn't exist.
    pub(super) fn unbind(&mut self, command: Bind) -> Result<(Outcome, Vec<Change>), Refused> {
        check_default(&command)?;
        let Some(binding) = self.find(command)? else {
            return Ok((Outcome::Absent, Vec::new()));
        };
        self.topology.remove_binding(&binding);
        let mut changes = vec![Change::Unbound(binding.clone())];
        self.auto_delete_sources(&[binding], &mut changes);
        Ok((Outcome::Deleted, changes))
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

    /// Takes an exchange away with its bindings, and with the auto-delete exchanges that they were the
    /// last to lead out of.
    pub(super) fn drop_exchange(&mut self, exchange: Arc<Exchange>, changes: &mut Vec<Change>) {
        let removed = self.topology.remove_exchange(&exchange);
        changes.extend(removed.iter().cloned().map(Change::Unbound));
        changes.push(Change::ExchangeDeleted(exchange));
        self.auto_delete_sources(&removed, changes);
    }

    /// Deletes the auto-delete exchanges that `removed` was the last binding of, and so on.
    pub(super) fn auto_delete_sources(&mut self, removed: &[Arc<Binding>], changes: &mut Vec<Change>) {
        let mut removed: VecDeque<Arc<Binding>> = removed.iter().cloned().collect();
        while let Some(binding) = removed.pop_front() {
            let Some(exchange) = self.topology.exchange(&binding.vhost, &binding.source).cloned() else {
                continue;
            };
            if !exchange.auto_delete || exchange.id != binding.source_id {
                continue;
            }
            if self.topology.bindings_of_source(&binding.vhost, &binding.source).next().is_some() {
                continue;
            }
            let more = self.topology.remove_exchange(&exchange);
            changes.extend(more.iter().cloned().map(Change::Unbound));
            changes.push(Change::ExchangeDeleted(exchange));
            removed.extend(more);
        }
    }
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
