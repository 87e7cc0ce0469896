//! The texts for conversions that a queue's messages don't allow.

use leveret_model::{QueueType, Refused};
use leveret_queue::NotConverted;

use crate::queue_handle::{QueueRef, Unconverted};

/// The refusal for a queue that wasn't converted; `None` if it has to be tried again soon.
pub(crate) fn unconverted(queue: &QueueRef, reason: Unconverted) -> Option<Refused> {
    let info = queue.info();
    let (name, vhost) = (&info.name, &info.vhost);
    let why = match reason {
        Unconverted::Refused(refused) => return Some(refused),
        Unconverted::NotConverted(NotConverted::Busy) => return None,
        Unconverted::NotConverted(NotConverted::Gone) => return Some(Refused::no_queue(vhost, name)),
        Unconverted::NotConverted(NotConverted::Failed(reason)) => format!("it has stopped: {reason}"),
        Unconverted::NotConverted(NotConverted::DeadLetters(count)) => format!(
            "{count} dead letters wait until a queue takes them; bind a queue to the dead-letter exchange, or purge this one"
        ),
        Unconverted::NotConverted(NotConverted::Parked(count)) => format!(
            "it has {count} parked messages, and queues of the type {} park none; move or delete them first",
            QueueType::Classic.name()
        ),
        Unconverted::NotConverted(NotConverted::Delayed(count)) => format!(
            "it has {count} delayed messages, and queues of the type {} delay none; wait until they are due, or delete them",
            QueueType::Classic.name()
        ),
        Unconverted::NotConverted(NotConverted::Priorities(count)) => format!(
            "{count} of its messages have a priority, which a queue of the type {} without x-max-priority doesn't know; give it \
             that argument, or wait until they are consumed",
            QueueType::Classic.name()
        ),
        Unconverted::NotConverted(NotConverted::Stream) => "streams can't be converted yet".to_owned(),
        Unconverted::OnlyInMemory => {
            "its messages are only in memory (x-durability = memory, or the queue isn't durable); wait until they are consumed"
                .to_owned()
        }
    };
    Some(Refused::precondition(format!("queue '{name}' in vhost '{vhost}' can't be converted: {why}")))
}
