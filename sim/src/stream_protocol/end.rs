//! The client's end of a connection: a strict client, and the events it received, in a form that outlives its buffers.

use leveret_strict_client::stream::{ChunkEntries, Client, StreamEvent, StreamOptions};
use leveret_strict_client::{Rule, Violation};

/// An event that a client received.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The messages of a chunk.
    Chunk {
        /// The subscription that it is for.
        subscription: u8,
        /// Offset of the first one.
        first: u64,
        /// The messages, as AMQP 1.0 encodes them.
        messages: Vec<Vec<u8>>,
    },
    /// Any other event.
    Event(StreamEvent),
}

/// The client's end of a connection.
pub struct StreamEnd {
    /// The client.
    pub client: Client,
    heard: Vec<Heard>,
}

impl Default for StreamEnd {
    fn default() -> Self {
        let options = StreamOptions {
            user: "guest".into(),
            password: "guest".into(),
            virtual_host: "/".into(),
            // A simulation with heartbeats would never come to rest.
            heartbeat: 0,
            properties: Vec::new(),
        };
        Self { client: Client::new(options), heard: Vec::new() }
    }
}

impl StreamEnd {
    /// Publishes messages whose ids are consecutive, in one frame.
    pub fn publish(&mut self, publisher: u8, first: u64, messages: &[Vec<u8>]) {
        let message = |id: u64, out: &mut Vec<u8>| out.extend_from_slice(&messages[(id - first) as usize]);
        self.client.publish(publisher, first, messages.len() as u64, message);
    }

    /// Receives bytes from the broker; returns how many of them were whole frames.
    ///
    /// # Errors
    /// The broker broke a rule of the protocol, or a chunk has another number of messages than it says.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, Violation> {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events)?;
        for event in events {
            let StreamEvent::Chunk { subscription, first, messages: count, entries } = event else {
                self.heard.push(Heard::Event(event));
                continue;
            };
            let messages: Vec<_> = ChunkEntries(self.client.bytes(entries)).map(<[u8]>::to_vec).collect();
            if messages.len() != count as usize {
                let received = format!("a chunk of {count} messages at {first} with {}", messages.len());
                return Err(Violation { rule: Rule::WellFormed, received });
            }
            self.heard.push(Heard::Chunk { subscription, first, messages });
        }
        Ok(used)
    }

    /// The events since the last call.
    pub fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }
}
