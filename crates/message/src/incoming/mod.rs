//! Published messages: checked, and split into the parts that routing needs and those that are stored.

mod amqp091;
mod amqp10;
mod plain;

pub use amqp10::{BodyCheck, Incoming, InvalidMessage, amqp10, amqp10_sections, amqp10_start};
pub use amqp091::{FurtherKeys, InvalidKeys, without_blind_copies};
pub use plain::Plain;
