//! Sessions of MQTT 3.1, 3.1.1 and 5: packets in, calls on queues and the control plane, packets out.
//!
//! [`steps`] says in which order a connection works and where its packets go. Each file below holds one group of packets, methods of
//! [`session`], a connection's state, and calls only what stands below it. Below the state stand [`subscriptions`] and
//! [`exchanges`] of packets that aren't over, and what all connections of a node share: [`client_ids`] and [`retained`] messages.
//!
//! A client's subscriptions are bindings of two queues, one for QoS 0 and one for the others, named as in RabbitMQ. Routing by the
//! exchange finds the queues, and the session compares the topic with its filters when it delivers.

mod acknowledge;
mod aliases;
mod changes;
mod changing;
mod client_ids;
mod closing;
mod confirming;
mod confirms;
mod connect;
mod consumer;
mod consumers;
mod content;
mod deliver;
mod exchanges;
mod failure;
mod held;
mod input_hold;
mod kept;
mod ledger;
mod ledgers;
mod log_lines;
mod lost;
mod node;
mod once;
mod open_connections;
mod opening;
mod protocol;
mod publish;
mod publish_run;
mod retained;
mod run;
mod search;
mod session;
mod session_queues;
mod session_record;
mod session_records;
mod settings;
mod steps;
mod stored_will;
mod submitted;
mod subscribe;
mod subscriptions;
mod terms;
mod together;
mod unsubscribe;
mod view;
mod will;
mod wills;

pub use protocol::{MqttNode, MqttProtocol};
pub use settings::{MqttSettings, WAITING_PER_MAILBOX};
