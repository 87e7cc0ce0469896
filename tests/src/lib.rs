//! The black-box harness: it starts the real binary on free ports in a temporary directory, runs unmodified
//! clients against it, and checks conservation when a test ends.
//!
//! It knows the broker only from outside: its command line, `ports.json`, AMQP bytes and HTTP responses. The wire
//! client in [`wire`] is written from the specification alone and shares no codec with the broker; for AMQP 1.0 it is
//! the strict client in [`amqp10`], whose codec is compared with others in its own tests.
//!
//! With `LEVERET_TEST_URI` (and `LEVERET_TEST_HTTP_URI`) the same tests run against a broker that is running already,
//! such as a real RabbitMQ. Tests that have to start, kill or configure the broker then say so and pass without
//! running.

pub mod allow;
pub mod amqp10;
pub mod balancer;
pub mod broker;
pub mod cell;
pub mod cluster;
pub mod conservation;
pub mod container;
pub mod crate_suite;
pub mod data_directory;
pub mod filters;
pub mod go_suite;
pub mod http;
pub mod kill_ledger;
pub mod kill_load;
pub mod link_proxy;
pub mod memory_cgroup;
pub mod mqtt;
pub mod name_server;
pub mod node;
pub mod not_run;
pub mod peer;
pub mod prometheus;
pub mod python_suite;
pub mod random;
pub mod secrets;
pub mod small_disk;
pub mod stream;
pub mod table;
pub mod tap;
pub mod tls;
pub mod wire;

use std::time::Duration;

/// Time that a test waits for an event before it fails. In a successful test it never elapses.
pub const PATIENCE: Duration = Duration::from_secs(30);
