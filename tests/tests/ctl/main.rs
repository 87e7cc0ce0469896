//! The command line against a node: what commands do, and whether they answer as RabbitMQ's.

mod effects;
mod eval;
mod golden;
mod place;
mod plugins;
mod points;
mod stop_app;
mod tool;
