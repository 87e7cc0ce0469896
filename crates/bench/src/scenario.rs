//! The scenarios by name.

use clap::ValueEnum;

use crate::BenchArgs;

/// A named load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Persistent and mandatory to a durable classic queue: confirm window 192, prefetch 200, acks every 200
    ClassicAmqp091,
    /// The same with confirm window 3000, prefetch 5000, acks every 3000
    #[value(name = "classic-amqp091-3000")]
    ClassicAmqp0913000,
    /// Transient to a non-durable queue, no confirms, automatic acks
    Memory,
}

/// A load in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) queue: &'static str,
    /// Durable queue and persistent messages, else an exclusive queue and transient ones.
    pub(crate) durable: bool,
    /// Most unconfirmed publishes, 0 for no confirms.
    pub(crate) confirm_window: u32,
    pub(crate) prefetch: u16,
    /// Deliveries per acknowledgement, 0 for automatic ones.
    pub(crate) ack_every: u64,
    pub(crate) messages: u64,
    pub(crate) size: usize,
}

impl Scenario {
    pub(crate) fn settings(self, args: &BenchArgs) -> Settings {
        let classic = Settings {
            name: "classic-amqp091",
            queue: "my-classic-queue",
            durable: true,
            confirm_window: 192,
            prefetch: 200,
            ack_every: 200,
            messages: args.messages,
            size: args.size as usize,
        };
        match self {
            Self::ClassicAmqp091 => classic,
            Self::ClassicAmqp0913000 => Settings {
                name: "classic-amqp091-3000",
                confirm_window: 3000,
                prefetch: 5000,
                ack_every: 3000,
                ..classic
            },
            Self::Memory => Settings {
                name: "memory",
                queue: "my-memory-queue",
                durable: false,
                confirm_window: 0,
                prefetch: 0,
                ack_every: 0,
                ..classic
            },
        }
    }
}
