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
pub(crate) struct OtherQueues {
    connection: Option<Connection<Client>>,
    name: &'static str,
    made: u32,
}

impl OtherQueues {
    /// Makes as many as `settings` want.
    ///
    /// # Errors
    /// If the broker refuses one or is silent for too long; those that were made are deleted.
    pub(crate) fn make(settings: &Settings, target: &Target) -> Result<Self, BenchError> {
        let mut others = Self { connection: None, name: settings.queue, made: 0 };
        if settings.other_queues == 0 {
            return Ok(others);
        }
        let connection = Client::open(target, &Opening::of("other queues"))?;
        let mut arguments = FieldTable::new();
        if let Some(durability) = settings.durability.filter(|_| is_leveret(connection.broker_name())) {
            arguments.insert("x-durability", durability.to_string());
        }
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        others.connection = Some(connection);
        let declare =
            |client: &mut Client, name: &str| client.declare_queue(CHANNEL, name.as_bytes(), flags, &arguments);
        while others.made < settings.other_queues {
            let count = AT_ONCE.min(settings.other_queues - others.made);
            let made = others.ask(others.made, count, "queue.declare-ok", declare, |event| {
                matches!(event, Event::QueueDeclared { .. })
            });
            if let Err(error) = made {
                others.made += count;
                // What was refused took the channel or the connection with it. The error that was first says why.
                others.connection = Client::open(target, &Opening::of("other queues")).ok();
                let _ = others.delete();
                return Err(error);
            }
            others.made += count;
        }
        Ok(others)
    }

    /// Deletes them again.
    ///
    /// # Errors
    /// If the broker refuses it or is silent for too long.
    pub(crate) fn delete(mut self) -> Result<(), BenchError> {
        while self.made > 0 {
            let count = AT_ONCE.min(self.made);
            self.made -= count;
            let delete = |client: &mut Client, name: &str| client.delete_queue(CHANNEL, name.as_bytes());
            self.ask(self.made, count, "queue.delete-ok", delete, |event| matches!(event, Event::Removed { .. }))?;
        }
        self.connection.map_or(Ok(()), <Client as Load>::close)
    }

    /// Asks for something for each of `count` queues from `first` on, and awaits the answers.
    fn ask(
        &mut self,
        first: u32,
        count: u32,
        what: &'static str,
        ask: impl Fn(&mut Client, &str),
        is_answer: impl Fn(&Event) -> bool,
    ) -> Result<(), BenchError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        for number in first..first + count {
            ask(&mut connection.client, &format!("{}-other-{number}", self.name));
        }
        connection.wait_for_all(what, count, |_, event| is_answer(event))
    }
}
