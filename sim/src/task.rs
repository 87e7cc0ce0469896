//! A connection's task on its core: the broker's side of two pipes. It handles them as the node's task handles a
//! socket.

use leveret_broker::{Connection, Now};

use crate::event_hash::EventHash;
use crate::pipe::Pipe;
use crate::random::Random;
use crate::tally::Tally;

/// A connection's task.
pub struct Task {
    connection: Connection,
    /// Bytes from the client.
    pub input: Pipe,
    /// Bytes to the client.
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

    /// Whether the broker closed the connection and all its output was taken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The latest time of its next turn.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let times = [self.connection.next_deadline(), self.connection.next_pace()];
        times.into_iter().flatten().min().filter(|_| !self.ended)
    }

    /// Closes the socket; everything under way in it is lost.
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

    /// Runs one turn: at most one read, one check of events, one write. True if it wants another turn at once.
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
