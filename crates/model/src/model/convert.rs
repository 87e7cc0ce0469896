//! A queue gets another type or other arguments, and keeps its name, its bindings and its log.

use std::sync::Arc;

use super::Model;
use crate::queue_arguments::{self, Properties};
use crate::{
    Arguments, Change, CommandOutcome, ConvertQueue, EarlierPriorities, Queue, QueueOptions, QueueType, Refused, Value,
};

impl Model {
    pub(super) fn convert_queue(&mut self, command: ConvertQueue) -> Result<(CommandOutcome, Vec<Change>), Refused> {
        let ConvertQueue { vhost, name, queue_type, arguments, earlier } = command;
        let current = self.topology.usable_queue(&vhost, &name, None)?.clone();
        let arguments = wanted(&current, queue_type, arguments)?;
        let refused = |reason: &str| {
            Err(Refused::precondition(format!("queue '{name}' in vhost '{vhost}' can't be converted: {reason}")))
        };
        if arguments == current.arguments {
            return Ok((CommandOutcome::Exists, Vec::new()));
        }
        let (from, to) = (current.queue_type(), queue_arguments::queue_type(&arguments));
        if from == QueueType::Stream || to == QueueType::Stream {
            return refused(
                "streams can't be converted yet, neither from nor to another type; declare a new queue and move the messages",
            );
        }
        let Queue { durable, auto_delete, .. } = *current;
        // The name is taken, whoever gave it.
        let properties = Properties { server_named: false, durable, auto_delete, exclusive: false };
        queue_arguments::check(&vhost, &name, properties, &arguments, self.limits.deprecated)?;
        if !durable {
            queue_arguments::check_durability(&vhost, &name, &arguments)?;
        }
        let options = QueueOptions::effective(&arguments);
        self.limits.queue_types.check(&vhost, &name, options.queue_type)?;
        let mut converted = Queue { arguments, queue_type: options.queue_type, options, ..Queue::clone(&current) };
        if let Some(earlier) = earlier {
            let is_same = |last: &mut EarlierPriorities| (last.default, last.max) == (earlier.default, earlier.max);
            converted.earlier_priorities.pop_if(is_same);
            converted.earlier_priorities.push(earlier);
        }
        let converted = Arc::new(converted);
        self.topology_mut().insert_queue(converted.clone());
        Ok((CommandOutcome::Updated, vec![Change::QueueConverted(converted)]))
    }
}

/// The arguments that a queue is to have: those of the command, or else its own.
fn wanted(current: &Queue, queue_type: Option<QueueType>, arguments: Option<Arguments>) -> Result<Arguments, Refused> {
    const TYPE: &str = "x-queue-type";
    let given = arguments.as_ref().and_then(|arguments| arguments.get(TYPE)).cloned();
    let arguments = arguments.unwrap_or_else(|| current.arguments.clone());
    let Some(queue_type) = queue_type else {
        return Ok(queue_arguments::complete(&arguments, current.queue_type()));
    };
    match given {
        Some(given) if given.as_str() != Some(queue_type.name()) => Err(Refused::precondition(format!(
            "the type '{}' contradicts the argument '{TYPE}', which is '{given}'",
            queue_type.name()
        ))),
        _ => Ok(arguments.with(TYPE, Value::from(queue_type.name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, DeclareQueue, Permit, RefusedKind};

    fn with_queue(arguments: Arguments) -> Model {
        let mut model = Model::new();
        let declare = DeclareQueue::durable("/".into(), "q".into(), arguments);
        let _ = model.submit(Permit::system(), Command::DeclareQueue(declare)).expect("it is new");
        model
    }

    fn to(queue_type: QueueType) -> ConvertQueue {
        let (vhost, name) = ("/".into(), "q".into());
        ConvertQueue { vhost, name, queue_type: Some(queue_type), arguments: None, earlier: None }
    }

    fn refused(model: &mut Model, command: ConvertQueue) -> String {
        let refused = model.submit(Permit::system(), Command::ConvertQueue(command)).expect_err("it is refused");
        assert_eq!(refused.kind, RefusedKind::PreconditionFailed, "{refused}");
        refused.text
    }

    #[test]
    fn a_converted_queue_keeps_its_id_and_survives_a_replay() {
        let mut model = with_queue(Arguments::from_iter([("x-max-length", Value::Int(5))]));
        let mut replica = Model::restore(&model.snapshot()).expect("a snapshot");
        let before = model.topology().queue("/", "q").expect("it was declared").clone();
        let earlier = EarlierPriorities { below: 7, default: 0, max: 0 };
        let command = Command::ConvertQueue(ConvertQueue { earlier: Some(earlier), ..to(QueueType::Quorum) });
        let submitted = model.submit(Permit::system(), command.clone()).expect("it fits");
        let after = model.topology().queue("/", "q").expect("it stays").clone();
        assert_eq!(submitted.changes, [Change::QueueConverted(after.clone())]);
        assert_eq!((after.id, after.queue_type(), after.options.max_length), (before.id, QueueType::Quorum, Some(5)));
        assert_eq!(after.earlier_priorities, [earlier]);
        replica.replay(&submitted.record.expect("it is logged")).expect("a record");
        assert_eq!(replica.topology().queue("/", "q"), Some(&after));
        assert_eq!(replica.topology().queue_by_id(after.id), Some(&after));
        let restored = Model::restore(&model.snapshot()).expect("a snapshot");
        assert_eq!(restored.topology().queue("/", "q"), Some(&after));
        let again = model.submit(Permit::system(), command).expect("it has the type");
        assert_eq!((again.outcome, again.record), (CommandOutcome::Exists, None));
    }

    #[test]
    fn arguments_of_the_command_replace_those_of_the_queue() {
        let mut model = with_queue(Arguments::from_iter([("x-max-priority", Value::Int(5))]));
        let text = refused(&mut model, to(QueueType::Quorum));
        assert!(text.starts_with("invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type"), "{text}");
        let arguments = Some(Arguments::from_iter([("x-delivery-limit", Value::Int(3))]));
        let command = ConvertQueue { arguments, ..to(QueueType::Quorum) };
        let _ = model.submit(Permit::system(), Command::ConvertQueue(command)).expect("it fits");
        let options = &model.topology().queue("/", "q").expect("it is there").options;
        assert_eq!((options.delivery_limit, options.max_priority), (Some(3), None));
    }

    #[test]
    fn conversions_that_do_not_work_say_why() {
        let mut model = with_queue(Arguments::default());
        assert!(refused(&mut model, to(QueueType::Stream)).contains("streams can't be converted yet"));
        let arguments = Some(Arguments::from_iter([("x-queue-type", Value::from("classic"))]));
        let text = refused(&mut model, ConvertQueue { arguments, ..to(QueueType::Quorum) });
        assert_eq!(text, "the type 'quorum' contradicts the argument 'x-queue-type', which is 'classic'");
        let transient = DeclareQueue {
            durable: false,
            ..DeclareQueue::durable("/".into(), "transient".into(), Arguments::default())
        };
        let _ = model.submit(Permit::system(), Command::DeclareQueue(transient)).expect("it is new");
        let command = ConvertQueue { name: "transient".into(), ..to(QueueType::Quorum) };
        let refused = model.submit(Permit::system(), Command::ConvertQueue(command)).expect_err("it isn't durable");
        assert_eq!(refused.text, "invalid property 'non-durable' for queue 'transient' in vhost '/'");
    }
}
