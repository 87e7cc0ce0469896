//! One direction of a connection: bytes in memory, with a bounded capacity.

use crate::random::Random;

/// One direction of a connection.
#[derive(Debug)]
pub struct Pipe {
    bytes: Vec<u8>,
    capacity: usize,
}

impl Pipe {
    /// An empty pipe that holds at most `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { bytes: Vec::new(), capacity }
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether there is no room to write.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.capacity
    }

    /// Takes some of `bytes`, as many as the seed says and fit; returns their number.
    pub fn write(&mut self, bytes: &[u8], random: &mut Random) -> usize {
        let room = self.capacity.saturating_sub(self.bytes.len());
        let count = some_of(bytes.len().min(room), random);
        self.bytes.extend_from_slice(&bytes[..count]);
        count
    }

    /// Moves some of the bytes to the end of `into`; returns their number.
    pub fn read(&mut self, into: &mut Vec<u8>, random: &mut Random) -> usize {
        let count = some_of(self.bytes.len(), random);
        into.extend(self.bytes.drain(..count));
        count
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// A part of `count`: mostly all, sometimes a part, sometimes a single byte.
fn some_of(count: usize, random: &mut Random) -> usize {
    if count < 2 {
        return count;
    }
    match random.below(16) {
        0 => 1,
        1..=3 => 1 + random.below(count as u64) as usize,
        _ => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_whatever_the_seed() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut pipe = Pipe::new(7);
            let sent: Vec<u8> = (0..100).collect();
            let (mut at, mut received) = (0, Vec::new());
            while received.len() < 100 {
                at += pipe.write(&sent[at..], &mut random);
                pipe.read(&mut received, &mut random);
            }
            assert_eq!(received, sent);
        }
    }
}
