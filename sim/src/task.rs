//! A connection's task on its core: the broker's side of two pipes. It does what the node's task does with a socket.

use leveret_broker::{Connection, Now};

use crate::event_hash::EventHash;
use crate::pipe::Pipe;
use crate::random::Random;
use crate::tally::Tally;

/// See the module.
pub struct Task {
    connection: Connection,
    /// From the client.
    pub input: Pipe,
    /// To the client.
    pub output: Pipe,
    kept: Vec<u8>,
    held_back: bool,
    ended: bool,
}

impl Task {
    /// A task whose pipes hold `capacity` bytes.
    #[must_use]
    pub fn new(connection: Connection, capacity: usize) -> Self {
        Self {
            connection,
            input: Pipe::new(capacity),
            output: Pipe::new(capacity),
            kept: Vec::new(),
            held_back: false,
            ended: false,
        }
    }

    /// The broker closed the connection and all it said was taken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// When it has to run at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        if self.ended { None } else { self.connection.next_deadline() }
    }

    /// The socket is gone, with everything that was under way in it.
    pub fn drop_connection(&mut self, now: Now) {
        self.input.clear();
        self.output.clear();
        self.kept.clear();
        self.end(now);
    }

    fn end(&mut self, now: Now) {
        if !std::mem::replace(&mut self.ended, true) {
            self.connection.disconnected(now);
        }
    }

    /// One turn: at most one read, one look at what happened, one write. True when it wants another one at once.
    pub fn turn(&mut self, now: Now, random: &mut Random, hash: &mut EventHash, tally: &mut Tally) -> bool {
        if self.ended {
            if self.connection.is_ending() {
                self.connection.turn(now);
                tally.hit("ends in parts");
            }
            return self.connection.is_ending();
        }
        self.take_input(now, random, hash, tally);
        let held = !self.connection.wants_read();
        self.connection.turn(now);
        let output = self.connection.output();
        let pending = output.pending();
        if !pending.is_empty() {
            let written = self.output.write(pending, random);
            hash.bytes(&pending[..written]);
            if written < pending.len() {
                tally.hit(if self.output.is_full() { "stalled sockets" } else { "partial writes" });
            }
            output.written(written);
        }
        let unwritten = !output.is_empty();
        let released = held && self.connection.wants_read();
        if self.connection.is_finished() {
            if !unwritten {
                self.end(now);
                return self.connection.is_ending();
            }
            return !self.output.is_full();
        }
        let readable = self.connection.wants_read() && !self.input.is_empty();
        readable || released || self.connection.wants_turn() || unwritten && !self.output.is_full()
    }

    fn take_input(&mut self, now: Now, random: &mut Random, hash: &mut EventHash, tally: &mut Tally) {
        if !self.connection.wants_read() {
            return;
        }
        if self.held_back {
            self.receive(now);
            if self.held_back {
                return;
            }
        }
        let before = self.kept.len();
        if self.input.read(&mut self.kept, random) > 0 {
            hash.bytes(&self.kept[before..]);
            if !self.input.is_empty() {
                tally.hit("partial reads");
            }
            self.receive(now);
        }
    }

    fn receive(&mut self, now: Now) {
        let used = self.connection.receive(&self.kept, now);
        self.kept.drain(..used);
        self.held_back = !self.kept.is_empty() && !self.connection.wants_read();
    }
}
