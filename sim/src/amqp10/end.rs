//! The client's end of a connection: a strict client, and the events it received, in a form that outlives its buffers.

use leveret_amqp10::Serial;
use leveret_strict_client::amqp10::{Client, Event, Options};
use leveret_strict_client::{Rule, Violation};

use super::message;
use crate::content::Content;

/// A message as a client received it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The channel.
    pub channel: u16,
    /// The handle of its link.
    pub handle: u32,
    /// Its delivery-id in its session.
    pub delivery_id: Serial,
    /// The broker sent it settled.
    pub settled: bool,
    /// Number of its transfers.
    pub transfers: u32,
    /// The message.
    pub content: Content,
}

/// An event that a client received.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A message.
    Delivered(Received),
    /// Any other event, without its bytes.
    Event(Event),
}

/// The client's end of a connection.
pub struct End {
    /// The client.
    pub client: Client,
    heard: Vec<Heard>,
}

impl End {
    /// A client that connects with these options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { client: Client::new(options), heard: Vec::new() }
    }

    /// Receives bytes from the broker; returns how many of them were whole frames.
    ///
    /// # Errors
    /// The broker broke a rule of the protocol, or sent a message that no client could have published.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, Violation> {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events)?;
        for event in events {
            let heard = match event {
                Event::Delivered(delivery) => {
                    let payload = self.client.bytes(delivery.payload);
                    let content = message::decode(payload).ok_or_else(|| Violation {
                        rule: Rule::WellFormed,
                        received: format!("a message of other sections: {payload:02x?}"),
                    })?;
                    Heard::Delivered(Received {
                        channel: delivery.channel,
                        handle: delivery.handle,
                        delivery_id: delivery.delivery_id,
                        settled: delivery.settled,
                        transfers: delivery.transfers,
                        content,
                    })
                }
                other => Heard::Event(other),
            };
            self.heard.push(heard);
        }
        Ok(used)
    }

    /// The events since the last call.
    pub fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }
}
