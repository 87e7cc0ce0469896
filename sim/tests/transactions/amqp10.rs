//! Transactions of AMQP 1.0. Every second message is settled by the broker, which may not do so before the discharge.

use leveret_amqp10::{DeliveryState, Outcome, Role, Serial};
use leveret_sim::amqp10::message::encode;
use leveret_sim::amqp10::script::{CHANNEL, Script};
use leveret_sim::body;
use leveret_sim::failure::Failure;
use leveret_sim::world::World;
use leveret_strict_client::amqp10::{Send, State};

use super::client::{Client, Fate};
use super::{SOURCE, TARGETS};

const COORDINATOR: u32 = 0;
const RECEIVER: u32 = 1;
/// Number of senders: one to the source, and one to the targets.
const SENDERS: u32 = 2;

pub(crate) struct Amqp10 {
    script: Script,
    transaction: Option<Vec<u8>>,
    taken: Option<Serial>,
    asks: bool,
}

impl Amqp10 {
    fn transaction(&mut self, world: &mut World) -> Result<Vec<u8>, Failure> {
        if self.transaction.is_none() {
            self.transaction = Some(self.script.declare(world, COORDINATOR)?);
        }
        Ok(self.transaction.clone().expect("it was declared"))
    }

    /// Sends the outcome of a delivery in the transaction, and asks the broker to settle it every second time.
    fn dispose(&mut self, world: &mut World, txn_id: &[u8], outcome: Outcome<'_>) -> Option<Serial> {
        let id = self.taken.take()?;
        self.asks = !self.asks;
        let state = DeliveryState::Transactional { txn_id, outcome: Some(outcome) };
        world.links[self.script.link].amqp10().client.dispose(CHANNEL, id, id, !self.asks, Some(state));
        Some(id).filter(|_| self.asks)
    }

    /// Ends the transaction. Deliveries that the broker was asked to settle stay unsettled until then.
    fn discharge(&mut self, world: &mut World, asked: Option<Serial>, fail: bool) -> Result<Option<State>, Failure> {
        let txn_id = self.transaction(world)?;
        // Another transaction begins and ends before.
        let other = self.script.declare(world, COORDINATOR)?;
        self.script.discharge(world, COORDINATOR, &other, true)?;
        if let Some(id) = asked {
            assert!(!self.script.is_settled(world, Role::Sender, id), "settled before the discharge");
        }
        self.script.discharge(world, COORDINATOR, &txn_id, fail)?;
        self.transaction = None;
        asked.map_or(Ok(None), |id| self.script.settled(world, Role::Sender, id))
    }
}

impl Client for Amqp10 {
    fn start(world: &mut World) -> Result<Self, Failure> {
        let mut script = Script::start(world)?;
        script.coordinator(world, COORDINATOR)?;
        script.receiver(world, RECEIVER, &format!("/queues/{SOURCE}"))?;
        for (handle, queue) in (SENDERS..).zip([SOURCE].iter().chain(&TARGETS)) {
            script.sender(world, handle, &format!("/queues/{queue}"))?;
        }
        Ok(Self { script, transaction: None, taken: None, asks: false })
    }

    fn publish(&mut self, world: &mut World, queue: &str, id: u64, length: usize) -> Result<(), Failure> {
        let txn_id = self.transaction(world)?;
        let to = [SOURCE].iter().chain(&TARGETS).position(|name| *name == queue).expect("a sender is there for it");
        let state = Some(DeliveryState::Transactional { txn_id: &txn_id, outcome: None });
        let options = Send { state, ..Send::default() };
        self.script.send(world, SENDERS + to as u32, &encode(id, length, true, None), &options)?;
        Ok(())
    }

    fn take(&mut self, world: &mut World) -> Result<u64, Failure> {
        let received = self.script.receive(world, RECEIVER)?;
        self.taken = Some(received.delivery_id);
        Ok(body::id(&received.content.body).expect("every message has its number"))
    }

    fn commit(&mut self, world: &mut World, fate: Option<Fate>) -> Result<(), Failure> {
        let txn_id = self.transaction(world)?;
        let (outcome, expected) = match fate {
            Some(Fate::Rejected) => (Outcome::Rejected { error: None }, State::Rejected(None)),
            _ => (Outcome::Accepted, State::Accepted),
        };
        let asked = self.dispose(world, &txn_id, outcome);
        if let Some(state) = self.discharge(world, asked, false)? {
            assert_eq!(state, expected);
        }
        Ok(())
    }

    fn roll_back(&mut self, world: &mut World) -> Result<(), Failure> {
        let txn_id = self.transaction(world)?;
        let asked = self.dispose(world, &txn_id, Outcome::Accepted);
        if let Some(state) = self.discharge(world, asked, true)? {
            assert_eq!(state, State::Released);
        }
        // The message was requeued.
        self.take(world)?;
        let id = self.taken.take().expect("it was taken");
        world.links[self.script.link].amqp10().client.dispose(CHANNEL, id, id, false, Some(DeliveryState::Accepted));
        self.script.settled(world, Role::Sender, id)?;
        Ok(())
    }
}
