//! The clients' operations: declare, bind, publish, fan out, consume, get, settle, return, purge, delete, vanish; some
//! over AMQP 0-9-1, some over AMQP 1.0 or the stream protocol, on the same queues and streams.

use leveret_broker::Nanos;
use leveret_metrics::Totals;

use crate::failure::{Check, Failure};
use crate::ledger::Ledger;
use crate::peer::{Holdings, Peer, starving};
use crate::quiet::Shown;
use crate::streams::{Book, check_jumps, check_retention};
use crate::world::World;
use crate::{amqp10, amqp091, quiet, stream_protocol};

/// Number of concurrent clients. The objects belong to the clients of AMQP 0-9-1.
#[derive(Clone, Copy, Debug)]
pub struct Peers {
    /// Clients of AMQP 0-9-1.
    pub amqp091: usize,
    /// Clients of AMQP 1.0.
    pub amqp10: usize,
    /// Clients of the stream protocol.
    pub streams: usize,
}

/// The clients of a simulation.
pub struct Workload {
    peers: Vec<Box<dyn Peer>>,
    /// Number of operations of clients so far.
    pub operations: usize,
    limit: usize,
    /// Time before which no client does anything.
    pause: Nanos,
    /// The broker's counters before the clients connected.
    before: Totals,
}

/// Longest pause of all clients, so that everything can come to rest now and then.
const PAUSE_MAX: Nanos = 500_000_000;

impl Workload {
    /// Connects clients, which make at least `limit` operations.
    pub fn new(world: &mut World, ledger: &mut Ledger, peers: Peers, limit: usize) -> Self {
        let mut all: Vec<Box<dyn Peer>> = Vec::new();
        for number in 0..peers.amqp091 {
            all.push(Box::new(amqp091::Peer::connect(number, world, ledger)));
        }
        for number in 0..peers.amqp10 {
            all.push(Box::new(amqp10::Peer::connect(number, world)));
        }
        for number in 0..peers.streams {
            all.push(Box::new(stream_protocol::Peer::connect(number, world)));
        }
        Self { peers: all, operations: 0, limit, pause: 0, before: quiet::totals(world) }
    }

    /// Makes one step, of a client or of the world. False when everything is done and answered.
    ///
    /// # Errors
    /// A broken rule.
    pub fn step(&mut self, world: &mut World, ledger: &mut Ledger) -> Result<bool, Failure> {
        let wants = self.operations < self.limit && world.random.below(6) == 0 && self.pause <= world.clock.nanos();
        if wants && world.random.below(20) == 0 {
            self.pause = world.clock.nanos() + world.random.below(PAUSE_MAX);
        } else if wants {
            let choice = world.random.below(self.peers.len() as u64) as usize;
            let peer = &mut self.peers[choice];
            if peer.may_go_on(world) {
                self.operations += peer.operate(world, ledger);
                return Ok(true);
            }
        }
        let at = world.disk.count();
        let moved = world.step()?;
        if world.stopped.is_some() {
            return Ok(false);
        }
        ledger.note_failed(&world.failed);
        ledger.now_ms = world.clock.now().wall_ms;
        ledger.heard_at = at;
        for peer in &mut self.peers {
            peer.listen(world, ledger, at)?;
        }
        if ledger.streams.values().any(Book::has_jumps) {
            check_jumps(world, ledger)?;
        }
        if moved {
            return Ok(true);
        }
        self.settle_down(world, ledger)
    }

    /// Finishes everything that was requested, without new operations of clients.
    ///
    /// # Errors
    /// Like [`Workload::step`].
    pub fn rest(&mut self, world: &mut World, ledger: &mut Ledger) -> Result<(), Failure> {
        self.limit = self.operations;
        while self.step(world, ledger)? {}
        Ok(())
    }

    /// Checks at rest that everything is answered. True if there was something left to do.
    fn settle_down(&mut self, world: &mut World, ledger: &mut Ledger) -> Result<bool, Failure> {
        world.clock.advance_to(self.pause);
        let mut held = Holdings::new();
        self.peers.iter().for_each(|peer| peer.add_held(&mut held));
        let shown = Shown::now(world, held);
        for (number, peer) in self.peers.iter().enumerate() {
            peer.rest(world, &shown, ledger)?;
            if self.operations < self.limit && !peer.may_go_on(world) {
                return Err(Failure::new(Check::Answered, format!("client {number} cannot go on")));
            }
        }
        quiet::queues(world, &shown, ledger)?;
        quiet::counters(world, &self.before)?;
        check_retention(world, ledger)?;
        world.tally.hit("counts compared");
        if let Some(detail) = starving(&shown, ledger) {
            return Err(Failure::new(Check::Answered, detail));
        }
        Ok(self.operations < self.limit)
    }
}
