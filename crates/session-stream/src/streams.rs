//! `Create` and `Delete`.

use leveret_model::super_stream::STREAM_ARGUMENTS;
use leveret_model::{Action, Arguments, Command, DeclareQueue, DeleteQueue, Value, without_line_ends};
use leveret_queue::DeleteIf;
use leveret_stream_protocol::{Pairs, ResponseCode, key};

use super::questions::Changing;
use super::session::Session;
use leveret_broker::log_lines::category;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;

/// The arguments of a declaration, which a command has without the `x-` before their names, and the names of those that have no effect:
/// RabbitMQ accepts any, and clients send what newer brokers know.
///
/// # Errors
/// The reason, for the log.
pub(crate) fn arguments_of(given: Pairs<'_>) -> Result<(Arguments, Vec<&str>), String> {
    let mut arguments = Arguments::from_iter([("x-queue-type", Value::from("stream"))]);
    let mut unknown = Vec::new();
    for (name, value) in given.iter() {
        let Some((known, is_number)) = STREAM_ARGUMENTS.into_iter().find(|(known, _)| *known == name) else {
            unknown.push(name);
            continue;
        };
        let value = match is_number {
            true => match value.parse() {
                Ok(number) => Value::Int(number),
                Err(_) => return Err(format!("argument '{name}' is '{value}', expected a number")),
            },
            false => Value::from(value),
        };
        arguments = arguments.with(&format!("x-{known}"), value);
    }
    Ok((arguments, unknown))
}

/// Whether a name can be one of a stream. RabbitMQ takes blank ones, too, which nobody can tell from none.
pub(crate) fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= 255 && !name.starts_with("amq.")
}

impl Session {
    /// `Create`.
    pub(crate) fn create(&mut self, correlation: u32, stream: &str, arguments: Pairs<'_>, now: Now) {
        let changing = Changing { key: key::CREATE, correlation, deleted: Vec::new() };
        match self.new_stream(stream, arguments) {
            Ok(request) => self.change(request, changing, now),
            Err(code) => self.respond(key::CREATE, correlation, code),
        }
    }

    fn new_stream(&mut self, stream: &str, arguments: Pairs<'_>) -> Result<ChangeRequest, ResponseCode> {
        let stream = &*without_line_ends(stream);
        if !is_name(stream) {
            return Err(ResponseCode::PreconditionFailed);
        }
        let permit = self
            .client
            .authorize(Action::DeclareQueue { queue: stream, dead_letter_exchange: None })
            .map_err(|refused| super::refusal::code_of(&refused))?;
        let arguments = self.checked("Create", arguments)?;
        let declare = DeclareQueue::durable(self.client.vhost.clone(), stream.into(), arguments);
        Ok(ChangeRequest::new(permit, Command::DeclareQueue(declare)))
    }

    /// The arguments of a declaration by this command. Those without an effect are named in the log.
    pub(crate) fn checked(&self, command: &str, given: Pairs<'_>) -> Result<Arguments, ResponseCode> {
        match arguments_of(given) {
            Ok((arguments, unknown)) => {
                if !unknown.is_empty() {
                    let known = STREAM_ARGUMENTS.map(|(known, _)| known).join(", ");
                    let unknown = unknown.join(", ");
                    let name = &self.client.name;
                    tracing::warn!(
                        target: category::CONNECTION,
                        pid = self.client.id.counter(),
                        "stream connection {name}: {command} has arguments without an effect: {unknown}; those of streams are {known}"
                    );
                }
                Ok(arguments)
            }
            Err(why) => {
                self.tell_refused(command, &why);
                Err(ResponseCode::PreconditionFailed)
            }
        }
    }

    /// `Delete`.
    pub(crate) fn delete(&mut self, correlation: u32, stream: &str, now: Now) {
        self.flush_run(now);
        match self.end_stream(stream) {
            Ok(request) => {
                let changing = Changing { key: key::DELETE, correlation, deleted: vec![stream.into()] };
                self.change(request, changing, now);
            }
            Err(code) => self.respond(key::DELETE, correlation, code),
        }
    }

    fn end_stream(&self, stream: &str) -> Result<ChangeRequest, ResponseCode> {
        let permit =
            self.client.authorize(Action::DeleteQueue(stream)).map_err(|refused| super::refusal::code_of(&refused))?;
        let snapshot = self.client.broker.registry.snapshot();
        let queue = snapshot.queue(&self.client.vhost, stream).filter(|queue| queue.is_stream());
        let info = queue.ok_or(ResponseCode::StreamDoesNotExist)?.info();
        let command = DeleteQueue {
            vhost: info.vhost.clone(),
            name: info.name.clone(),
            connection: Some(self.client.id),
            id: Some(info.id),
        };
        Ok(ChangeRequest::delete_queue(permit, command, DeleteIf::default()))
    }
}
