//! Transactions of AMQP 0-9-1.

use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::failure::Failure;
use leveret_sim::world::World;
use leveret_strict_client::amqp091::Publication;

use super::SOURCE;
use super::client::{Client, Fate};

pub(crate) struct Amqp091 {
    script: Script,
    /// The tag of the message that was taken.
    taken: u64,
}

impl Client for Amqp091 {
    fn start(world: &mut World) -> Result<Self, Failure> {
        let script = Script::start(world)?;
        world.links[script.link].amqp091().client.tx_select(CHANNEL);
        script.reply(world, "tx.select-ok")?;
        Ok(Self { script, taken: 0 })
    }

    fn publish(&mut self, world: &mut World, queue: &str, id: u64, length: usize) -> Result<(), Failure> {
        let client = &mut world.links[self.script.link].amqp091().client;
        client.publish(
            CHANNEL,
            Publication::to_queue(queue.as_bytes(), &body(id, length)).with(&properties(id, true)).mandatory(),
        );
        Ok(())
    }

    fn take(&mut self, world: &mut World) -> Result<u64, Failure> {
        let received = self.script.get(world, SOURCE, true)?.expect("the source is long enough");
        self.taken = received.tag;
        Ok(body::id(&received.content.body).expect("every message has its number"))
    }

    fn commit(&mut self, world: &mut World, fate: Option<Fate>) -> Result<(), Failure> {
        let client = &mut world.links[self.script.link].amqp091().client;
        match fate {
            Some(Fate::Accepted) => client.ack(CHANNEL, self.taken, false),
            Some(Fate::Rejected) => client.nack(CHANNEL, self.taken, false, false),
            None => {}
        }
        client.tx_commit(CHANNEL);
        self.script.reply(world, "tx.commit-ok")
    }

    fn roll_back(&mut self, world: &mut World) -> Result<(), Failure> {
        let client = &mut world.links[self.script.link].amqp091().client;
        client.ack(CHANNEL, self.taken, false);
        client.tx_rollback(CHANNEL);
        self.script.reply(world, "tx.rollback-ok")?;
        // The message is unsettled, as before the transaction.
        self.commit(world, Some(Fate::Accepted))
    }
}
