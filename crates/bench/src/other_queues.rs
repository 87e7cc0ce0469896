//! Queues that nobody uses, beside those of a load: made before it and deleted after it, over AMQP 0-9-1, which takes
//! many declarations in one write.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Client, Event, QueueDeclare};

use crate::BenchError;
use crate::amqp091::CHANNEL;
use crate::connection::Connection;
use crate::opening::Opening;
use crate::outcome::is_leveret;
use crate::round::Load;
use crate::settings::Settings;
use crate::target::Target;

/// So many are asked for before the answers are awaited.
const AT_ONCE: u32 = 200;

/// Those that are there.
#[derive(Debug, Default)]
pub(crate) struct OtherQueues {
    name: &'static str,
    made: u32,
}

impl OtherQueues {
    /// Makes as many as `settings` want.
    ///
    /// # Errors
    /// If the broker refuses one or is silent for too long; those that were made are deleted.
    pub(crate) fn make(settings: &Settings, target: &Target) -> Result<Self, BenchError> {
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
            // Some of them may be there also if the broker refuses one.
            others.made += count;
            let is_answer = |event: &Event| matches!(event, Event::QueueDeclared { .. });
            if let Err(error) = others.ask(&mut connection, first, count, "queue.declare-ok", declare, is_answer) {
                // The error that was first says why.
                let _ = others.delete(target);
                return Err(error);
            }
        }
        <Client as Load>::close(connection)?;
        Ok(others)
    }

    /// Deletes them again.
    ///
    /// # Errors
    /// If the broker refuses it or is silent for too long.
    pub(crate) fn delete(mut self, target: &Target) -> Result<(), BenchError> {
        if self.made == 0 {
            return Ok(());
        }
        // Another connection: the first one was idle for as long as the rounds took, or lost its channel to an error.
        let mut connection = open(target)?;
        while self.made > 0 {
            let count = AT_ONCE.min(self.made);
            self.made -= count;
            let delete = |client: &mut Client, name: &str| client.delete_queue(CHANNEL, name.as_bytes());
            let is_answer = |event: &Event| matches!(event, Event::Removed { .. });
            self.ask(&mut connection, self.made, count, "queue.delete-ok", delete, is_answer)?;
        }
        <Client as Load>::close(connection)
    }

    /// Asks for something for each of `count` queues from `first` on, and awaits the answers.
    fn ask(
        &self,
        connection: &mut Connection<Client>,
        first: u32,
        count: u32,
        what: &'static str,
        ask: impl Fn(&mut Client, &str),
        is_answer: impl Fn(&Event) -> bool,
    ) -> Result<(), BenchError> {
        for number in first..first + count {
            ask(&mut connection.client, &format!("{}-other-{number}", self.name));
        }
        connection.wait_for_all(what, count, |_, event| is_answer(event))
    }
}

fn open(target: &Target) -> Result<Connection<Client>, BenchError> {
    Client::open(target, &Opening::of("other queues"))
}
