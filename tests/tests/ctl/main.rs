//! The command line against a node: effects of commands, and whether their output is RabbitMQ's.

mod effects;
mod eval;
mod golden;
mod parked;
mod place;
mod plugins;
mod points;
mod quorum;
mod stop_app;
mod streams;
mod tool;
mod transfers;
mod waiting;
