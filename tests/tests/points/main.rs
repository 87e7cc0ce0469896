//! The points of RabbitMQ's native AMQP 1.0 work as acceptance tests at the wire, each with its number.
//!
//! The strict client checks windows, credit, delivery-ids and settlement of everything received.

mod alarms;
mod conversion;
mod credit;
mod links;
mod protocol;
mod publishing;
mod stage;
