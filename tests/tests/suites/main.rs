//! Third-party test suites: every name passes, or is listed under allow/ with the reason; an unneeded entry fails.
//!
//! They are one binary because they mostly wait for timers of their own, and cargo runs binaries one after another.

mod amqp091_go;
mod go_amqp;
mod python;
mod rabbit_hole;
mod rabbitmq_amqp_go_client;
mod rabbitmq_stream_go_client;
mod rabbitmq_stream_rust_client;
