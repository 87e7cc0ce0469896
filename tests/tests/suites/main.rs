//! Others' test suites: every name passes, or stands in a list under allow/ with the reason; an entry that isn't needed
//! fails.
//!
//! They are one binary because they mostly wait for timers of their own, and cargo runs binaries one after another.

mod amqp091_go;
mod go_amqp;
mod python;
mod rabbit_hole;
mod rabbitmq_amqp_go_client;
