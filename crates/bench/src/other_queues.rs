//! Idle queues besides those of a load: created before it and deleted after it, over AMQP 0-9-1, which allows many
//! declarations in one write.

use std::ops::Range;

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Client, Event, QueueDeclare};

use crate::BenchError;
use crate::amqp091::CHANNEL;
use crate::connection::Connection;
use crate::opening::Opening;
use crate::outcome::is_leveret;
use crate::round::Load;
use crate::settings::Settings;
use crate::target::TargetBroker;

/// Number of requests sent before their replies are awaited.
const AT_ONCE: u32 = 200;

/// The idle queues that exist.
#[derive(Debug, Default)]
pub(crate) struct OtherQueues {
    name: &'static str,
    made: u32,
}

impl OtherQueues {
    /// Creates as many as `settings` requires.
    ///
    /// # Errors
    /// If the broker refuses one or is silent for too long; queues created so far are deleted.
    pub(crate) fn make(settings: &Settings, target: &TargetBroker) -> Result<Self, BenchError> {
        let mut others = Self { name: settings.queue, made: 0 };
        if settings.other_queues == 0 {
            return Ok(others);
        }
        let mut connection = open(target)?;
        let mut arguments = FieldTable::new();
        if let Some(durability) = settings.durability.filter(|_| is_leveret(connection.broker_name())) {
            arguments.insert("x-durability", durability.to_string());
        }
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        let declare =
            |client: &mut Client, name: &str| client.declare_queue(CHANNEL, name.as_bytes(), flags, &arguments);
        while others.made < settings.other_queues {
            let count = AT_ONCE.min(settings.other_queues - others.made);
            let first = others.made;
            // Some of them may exist even if the broker refuses one.
            others.made += count;
            let is_answer = |event: &Event| matches!(event, Event::QueueDeclared { .. });
            if let Err(error) = others.ask(&mut connection, first..others.made, "queue.declare-ok", declare, is_answer)
            {
                // The first error has the reason.
                let _ = others.delete(target);
                return Err(error);
            }
        }
        <Client as Load>::close(connection)?;
        Ok(others)
    }

    /// Deletes them.
    ///
    /// # Errors
    /// If the broker refuses it or is silent for too long.
    pub(crate) fn delete(mut self, target: &TargetBroker) -> Result<(), BenchError> {
        if self.made == 0 {
            return Ok(());
        }
        // A new connection: the first one was idle for as long as the rounds took, or lost its channel to an error.
        let mut connection = open(target)?;
        while self.made > 0 {
            let count = AT_ONCE.min(self.made);
            self.made -= count;
            let delete = |client: &mut Client, name: &str| client.delete_queue(CHANNEL, name.as_bytes());
            let is_answer = |event: &Event| matches!(event, Event::Removed { .. });
            self.ask(&mut connection, self.made..self.made + count, "queue.delete-ok", delete, is_answer)?;
        }
        <Client as Load>::close(connection)
    }

    /// Sends a request for each of the queues with these numbers, and waits for the replies.
    fn ask(
        &self,
        connection: &mut Connection<Client>,
        numbers: Range<u32>,
        what: &'static str,
        ask: impl Fn(&mut Client, &str),
        is_answer: impl Fn(&Event) -> bool,
    ) -> Result<(), BenchError> {
        let count = numbers.len() as u32;
        for number in numbers {
            ask(&mut connection.client, &format!("{}-other-{number}", self.name));
        }
        connection.wait_for_all(what, count, |_, event| is_answer(event))
    }
}

fn open(target: &TargetBroker) -> Result<Connection<Client>, BenchError> {
    Client::open(target, &Opening::of("other queues"))
}
