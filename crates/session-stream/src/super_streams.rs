//! `Route`, `Partitions`, `CreateSuperStream`, `DeleteSuperStream`.

use std::collections::HashSet;
use std::sync::Arc;

use leveret_broker::headers::NoHeaders;
use leveret_broker::registry::ChangeRequests;
use leveret_broker::route;
use leveret_broker::time::Now;
use leveret_model::super_stream::{PlannedSuperStream, deletion, is_super_stream, partitions};
use leveret_model::{Action, Resource, Value, without_line_ends};
use leveret_stream_protocol::{ResponseCode, answers, key};

use super::commands::CreateSuperStream;
use super::questions::Changing;
use super::refusal::code_of;
use super::session::Session;
use super::streams::is_name;

/// The argument that says on which node a new stream is.
const LEADER_LOCATOR: &str = "x-queue-leader-locator";

/// A partition of a super stream, and its routing key.
type Partition = (Arc<str>, Box<[u8]>);

impl Session {
    /// The partitions of a super stream in their order, each with its routing key; `None` if there is no exchange of this name.
    fn partitions_of(&self, name: &str) -> Option<Vec<Partition>> {
        let snapshot = self.client.broker.registry.snapshot();
        let exchange = snapshot.topology.exchange(&self.client.vhost, name)?;
        let found = partitions(&snapshot.topology, exchange);
        Some(
            found
                .into_iter()
                .map(|binding| (binding.destination.name().clone(), binding.routing_key.to_vec().into()))
                .collect(),
        )
    }

    /// The number of a stream among the partitions of a super stream.
    pub(crate) fn partition(&self, super_stream: &str, stream: &str) -> Option<u32> {
        let partitions = self.partitions_of(super_stream)?;
        partitions.iter().position(|(partition, _)| **partition == *stream).map(|at| at as u32)
    }

    /// The same for a user who may do one of these.
    fn partitions_for(&self, name: &str, one_of: &[Action<'_>]) -> (ResponseCode, Vec<Partition>) {
        if !one_of.iter().any(|action| self.client.authorize(*action).is_ok()) {
            return (ResponseCode::AccessRefused, Vec::new());
        }
        match self.partitions_of(name) {
            Some(found) => (ResponseCode::Ok, found),
            None => (ResponseCode::StreamDoesNotExist, Vec::new()),
        }
    }

    /// `Route`: the partitions with this routing key.
    pub(crate) fn route(&mut self, correlation: u32, routing_key: &str, super_stream: &str) {
        let may = [Action::Write(Resource::Exchange(super_stream))];
        let (code, found) = self.partitions_for(super_stream, &may);
        let snapshot = self.client.broker.registry.snapshot();
        // The exchange may be of any type.
        let routed = route::own(&snapshot, &self.client.vhost, super_stream, routing_key.as_bytes(), &NoHeaders);
        let is_routed =
            |stream: &str| routed.iter().flat_map(|queues| queues.iter()).any(|queue| *queue.info().name == *stream);
        // A partition may have several bindings, and gets a message once all the same.
        let mut named = HashSet::new();
        let streams = found.iter().map(|(stream, _)| &**stream).filter(|stream| named.insert(*stream));
        let streams: Vec<&str> = streams.filter(|stream| is_routed(stream)).collect();
        self.refused.count(code);
        answers::streams(self.client.output.buffer(), key::ROUTE, correlation, code, streams.into_iter());
    }

    /// `Partitions`.
    pub(crate) fn partitions(&mut self, correlation: u32, super_stream: &str) {
        let resource = Resource::Exchange(super_stream);
        let (code, found) = self.partitions_for(super_stream, &[Action::Read(resource), Action::Write(resource)]);
        let streams: Vec<&str> = found.iter().map(|(stream, _)| &**stream).collect();
        self.refused.count(code);
        answers::streams(self.client.output.buffer(), key::PARTITIONS, correlation, code, streams.into_iter());
    }

    /// `CreateSuperStream`: exchange, streams and bindings as one change.
    pub(crate) fn create_super_stream(&mut self, create: &CreateSuperStream<'_>, now: Now) {
        match self.new_super_stream(create) {
            Ok(requests) => {
                let (key, correlation) = (key::CREATE_SUPER_STREAM, create.correlation);
                self.change_all(requests, Changing { key, correlation, deleted: Vec::new() }, now);
            }
            Err(code) => {
                self.respond(key::CREATE_SUPER_STREAM, create.correlation, code);
            }
        }
    }

    fn new_super_stream(&mut self, create: &CreateSuperStream<'_>) -> Result<ChangeRequests, ResponseCode> {
        let command = "CreateSuperStream";
        let refused = |session: &Self, why: String| {
            session.tell_refused(command, &why);
            ResponseCode::PreconditionFailed
        };
        let CreateSuperStream { name, partitions, binding_keys, .. } = *create;
        let most = self.settings.partitions_max;
        let mut names = HashSet::new();
        let name = &*without_line_ends(name);
        let streams: Vec<Arc<str>> = partitions.iter().map(|stream| without_line_ends(stream).into()).collect();
        if !is_name(name) {
            return Err(ResponseCode::PreconditionFailed);
        }
        if partitions.is_empty() || partitions.len() > most || partitions.len() != binding_keys.len() {
            let (streams, keys) = (partitions.len(), binding_keys.len());
            return Err(refused(
                self,
                format!("{streams} partitions with {keys} binding keys, expected 1 to {most} of both"),
            ));
        }
        if let Some(wrong) = streams.iter().find(|stream| !is_name(stream) || !names.insert(*stream)) {
            return Err(refused(self, format!("the partition '{wrong}' is there twice, or isn't a name")));
        }
        let mut arguments = self.checked(command, create.arguments)?;
        if arguments.get(LEADER_LOCATOR).is_none() {
            // As RabbitMQ sets it, so that a declaration with the same arguments fits.
            arguments = arguments.with(LEADER_LOCATOR, Value::from("balanced"));
        }
        let plan = PlannedSuperStream {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            partitions: streams.into_iter().zip(binding_keys.iter().map(Box::from)).collect(),
            arguments,
        };
        let permits: Result<Vec<_>, _> = plan.actions().map(|action| self.client.authorize(action)).collect();
        let permits = permits.map_err(|refused| code_of(&refused))?;
        let permit = permits.into_iter().next().expect("there is an exchange");
        Ok(ChangeRequests { permit, commands: plan.commands().into(), is_new: true })
    }

    /// `DeleteSuperStream`: the exchange and its partitions as one change. Every permission is checked before.
    pub(crate) fn delete_super_stream(&mut self, correlation: u32, name: &str, now: Now) {
        self.flush_run(now);
        match self.end_super_stream(name) {
            Ok((requests, deleted)) => {
                self.change_all(requests, Changing { key: key::DELETE_SUPER_STREAM, correlation, deleted }, now);
            }
            Err(code) => {
                self.respond(key::DELETE_SUPER_STREAM, correlation, code);
            }
        }
    }

    fn end_super_stream(&self, name: &str) -> Result<(ChangeRequests, Vec<Arc<str>>), ResponseCode> {
        let refused = |refused| code_of(&refused);
        let topology = self.client.broker.registry.snapshot().topology.clone();
        let exchange = topology.exchange(&self.client.vhost, name).filter(|exchange| is_super_stream(exchange));
        // Exchanges with reserved names can't be deleted by anybody: that refusal would say nothing of this one.
        if exchange.is_none() && name.starts_with("amq.") {
            return Err(ResponseCode::StreamDoesNotExist);
        }
        let permit = self.client.authorize(Action::DeleteExchange(name)).map_err(refused)?;
        let exchange = exchange.ok_or(ResponseCode::StreamDoesNotExist)?;
        let (commands, streams) = deletion(&topology, exchange, Some(self.client.id));
        for stream in &streams {
            self.client.authorize(Action::DeleteQueue(stream)).map_err(refused)?;
        }
        Ok((ChangeRequests { permit, commands: commands.into(), is_new: false }, streams))
    }
}
