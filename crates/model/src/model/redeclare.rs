//! Declarations of queues that exist already.

use super::inequivalent;
use crate::{Arguments, Limits, Queue, QueueType, RedeclareMismatch, Refused, Topology, Value, queue_arguments};

/// Checks whether a declaration fits a queue that exists, or whether its vhost accepts the difference. Returns the difference if it
/// is to be logged.
pub(super) fn accepted(
    topology: &Topology,
    limits: &Limits,
    current: &Queue,
    declared: (bool, bool, &Arguments),
) -> Result<Option<Refused>, Refused> {
    let Err(mismatch) = check(limits, current, declared) else { return Ok(None) };
    let rule = topology.vhost_settings(&current.vhost).map(|settings| settings.redeclare_mismatch);
    match rule.unwrap_or_default() {
        RedeclareMismatch::Reject => Err(mismatch),
        RedeclareMismatch::Warn => Ok(Some(mismatch)),
        RedeclareMismatch::Accept => Ok(None),
    }
}

/// Whether a declaration may be that of a classic queue although the queue is a quorum queue. As in RabbitMQ, the type is then not
/// compared, and neither are the properties that quorum queues don't have.
pub(super) fn is_relaxed(limits: &Limits, current: &Queue, arguments: &Arguments) -> bool {
    limits.relaxed_quorum_redeclaration
        && current.queue_type() == QueueType::Quorum
        && queue_arguments::queue_type(arguments) == QueueType::Classic
}

/// Checks whether a declaration is equivalent to that of a queue.
fn check(
    limits: &Limits,
    current: &Queue,
    (durable, auto_delete, arguments): (bool, bool, &Arguments),
) -> Result<(), Refused> {
    let Queue { vhost, name, .. } = current;
    if is_relaxed(limits, current, arguments) {
        let arguments = arguments.with("x-queue-type", Value::from(QueueType::Quorum.name()));
        return queue_arguments::check_equivalent(vhost, name, &current.arguments, &arguments);
    }
    for (key, received, current) in
        [("durable", durable, current.durable), ("auto_delete", auto_delete, current.auto_delete)]
    {
        if received != current {
            return Err(inequivalent("queue", vhost, name, key, &received, &current));
        }
    }
    queue_arguments::check_equivalent(vhost, name, &current.arguments, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, CommandOutcome, ConnectionId, DeclareQueue, Model, Permit, RefusedKind, VhostSettings};

    fn declare(
        model: &mut Model,
        durable: bool,
        arguments: &[(&'static str, Value)],
    ) -> Result<Option<String>, Refused> {
        let arguments = Arguments::from_iter(arguments.iter().cloned());
        let declare = DeclareQueue { durable, ..DeclareQueue::durable("/".into(), "q".into(), arguments) };
        let submitted = model.submit(Permit::system(), Command::DeclareQueue(declare))?;
        assert_eq!(submitted.outcome, CommandOutcome::Exists);
        Ok(submitted.mismatch.map(|mismatch| mismatch.text))
    }

    fn with_queue(queue_type: QueueType, limits: Limits) -> Model {
        let mut model = Model::new();
        model.set_limits(limits);
        let arguments = Arguments::from_iter([("x-queue-type", Value::from(queue_type.name()))]);
        let declare = DeclareQueue::durable("/".into(), "q".into(), arguments);
        let _ = model.submit(Permit::system(), Command::DeclareQueue(declare)).expect("it is new");
        model
    }

    #[test]
    fn a_vhost_refuses_accepts_or_warns_of_other_declarations() {
        let text = "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'";
        for (redeclare_mismatch, expected) in [
            (RedeclareMismatch::Reject, Err(())),
            (RedeclareMismatch::Warn, Ok(Some(text.to_owned()))),
            (RedeclareMismatch::Accept, Ok(None)),
        ] {
            let mut model = with_queue(QueueType::Classic, Limits::default());
            let settings = VhostSettings { redeclare_mismatch, ..VhostSettings::default() };
            let set = Command::SetVhost { name: "/".into(), settings };
            let _ = model.submit(Permit::system(), set).expect("it exists");
            let answer = declare(&mut model, false, &[]);
            assert_eq!(answer.map_err(|refused| assert_eq!(refused.text, text)), expected);
            assert_eq!(declare(&mut model, true, &[]), Ok(None), "an equal one is no mismatch");
            let queue = model.topology().queue("/", "q").expect("it stays");
            assert!(queue.durable, "as it was");
            let restored = Model::restore(&model.snapshot()).expect("a snapshot");
            let restored = restored.topology().vhost_settings("/").expect("it is there").redeclare_mismatch;
            assert_eq!(restored, redeclare_mismatch);
        }
    }

    #[test]
    fn relaxed_checks_let_quorum_queues_be_declared_as_classic() {
        let classic = [("x-queue-type", Value::from("classic"))];
        let mut strict = with_queue(QueueType::Quorum, Limits::default());
        let refused = declare(&mut strict, true, &classic).expect_err("it is another type");
        assert_eq!(refused.kind, RefusedKind::PreconditionFailed);
        let limits = Limits { relaxed_quorum_redeclaration: true, ..Limits::default() };
        let mut relaxed = with_queue(QueueType::Quorum, limits.clone());
        assert_eq!(declare(&mut relaxed, true, &classic), Ok(None));
        assert_eq!(declare(&mut relaxed, false, &[]), Ok(None), "classic is what such a queue would be");
        let connection = Some(ConnectionId(1));
        let declared = DeclareQueue::durable("/".into(), "q".into(), Arguments::from_iter(classic.clone()));
        let exclusive = DeclareQueue { exclusive: true, connection, ..declared };
        assert!(relaxed.submit(Permit::system(), Command::DeclareQueue(exclusive)).is_ok());
        let longer = [("x-queue-type", Value::from("classic")), ("x-max-length", Value::Int(5))];
        assert!(declare(&mut relaxed, true, &longer).is_err(), "other arguments are compared");
        assert!(declare(&mut relaxed, false, &[("x-queue-type", Value::from("quorum"))]).is_err());
        let stream = [("x-queue-type", Value::from("stream"))];
        assert!(declare(&mut relaxed, true, &stream).is_err());
        let mut other = with_queue(QueueType::Classic, limits);
        assert!(declare(&mut other, true, &[("x-queue-type", Value::from("quorum"))]).is_err());
    }
}
