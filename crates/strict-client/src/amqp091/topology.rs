//! Requests about queues, exchanges and bindings.

use leveret_amqp091::method::{exchange, queue};
use leveret_amqp091::{FieldTable, Method, Table};

use super::channel::Expected;
use super::client::Client;
use super::operations::short;

/// The flags of `queue.declare`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDeclare {
    /// Only check that it exists.
    pub passive: bool,
    /// It survives a restart.
    pub durable: bool,
    /// Only this connection may use it.
    pub exclusive: bool,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
}

impl Client {
    /// Declares an exchange.
    pub fn declare_exchange(&mut self, id: u16, name: &[u8], kind: &str, durable: bool, arguments: &FieldTable) {
        let arguments = arguments.encoded();
        let declare = exchange::Declare {
            exchange: short(name),
            kind: short(kind.as_bytes()),
            durable,
            arguments: arguments.as_table(),
            ..Default::default()
        };
        self.request(id, Method::ExchangeDeclare(declare), Expected::Reply("exchange.declare-ok"));
    }

    /// Deletes an exchange.
    pub fn delete_exchange(&mut self, id: u16, name: &[u8]) {
        let delete = exchange::Delete { exchange: short(name), ..Default::default() };
        self.request(id, Method::ExchangeDelete(delete), Expected::Reply("exchange.delete-ok"));
    }

    /// Declares a queue; with an empty name the server generates one.
    pub fn declare_queue(&mut self, id: u16, name: &[u8], flags: QueueDeclare, arguments: &FieldTable) {
        let arguments = arguments.encoded();
        let declare = queue::Declare {
            queue: short(name),
            passive: flags.passive,
            durable: flags.durable,
            exclusive: flags.exclusive,
            auto_delete: flags.auto_delete,
            arguments: arguments.as_table(),
            ..Default::default()
        };
        // RabbitMQ removes line ends from names, and replies with the remaining name.
        let left = name.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n'));
        self.request(id, Method::QueueDeclare(declare), Expected::QueueDeclare(left.collect()));
    }

    /// Binds a queue to an exchange.
    pub fn bind_queue(&mut self, id: u16, queue: &[u8], exchange: &[u8], key: &[u8], arguments: &FieldTable) {
        let arguments = arguments.encoded();
        let bind = queue::Bind {
            queue: short(queue),
            exchange: short(exchange),
            routing_key: short(key),
            arguments: arguments.as_table(),
            ..Default::default()
        };
        self.request(id, Method::QueueBind(bind), Expected::Reply("queue.bind-ok"));
    }

    /// Removes a binding of a queue.
    pub fn unbind_queue(&mut self, id: u16, queue: &[u8], exchange: &[u8], key: &[u8], arguments: &FieldTable) {
        let arguments = arguments.encoded();
        let unbind = queue::Unbind {
            queue: short(queue),
            exchange: short(exchange),
            routing_key: short(key),
            arguments: arguments.as_table(),
            ..Default::default()
        };
        self.request(id, Method::QueueUnbind(unbind), Expected::Reply("queue.unbind-ok"));
    }

    /// Removes all ready messages.
    pub fn purge_queue(&mut self, id: u16, name: &[u8]) {
        let purge = queue::Purge { queue: short(name), ..Default::default() };
        self.request(id, Method::QueuePurge(purge), Expected::Reply("queue.purge-ok"));
    }

    /// Deletes a queue.
    pub fn delete_queue(&mut self, id: u16, name: &[u8]) {
        let delete = queue::Delete { queue: short(name), ..Default::default() };
        self.request(id, Method::QueueDelete(delete), Expected::Reply("queue.delete-ok"));
    }

    /// Deletes a queue if it is empty.
    pub fn delete_empty_queue(&mut self, id: u16, name: &[u8]) {
        let delete = queue::Delete { queue: short(name), if_empty: true, ..Default::default() };
        self.request(id, Method::QueueDelete(delete), Expected::Reply("queue.delete-ok"));
    }

    /// Binds an exchange to another.
    pub fn bind_exchange(&mut self, id: u16, destination: &[u8], source: &[u8], key: &[u8]) {
        let bind = exchange::Bind {
            destination: short(destination),
            source: short(source),
            routing_key: short(key),
            arguments: Table::EMPTY,
            ..Default::default()
        };
        self.request(id, Method::ExchangeBind(bind), Expected::Reply("exchange.bind-ok"));
    }
}
