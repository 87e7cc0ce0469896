//! The points of RabbitMQ's native AMQP 1.0 work as acceptance checks at the wire, each under its number.
//!
//! The strict client asserts windows, credit, delivery-ids and settlement on everything that comes.

mod points {
    mod alarms;
    mod conversion;
    mod credit;
    mod links;
    mod protocol;
    mod publishing;
    mod stage;
}
