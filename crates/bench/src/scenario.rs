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
    /// AMQP 1.0, durable to a durable classic queue: 200 unsettled at most, link credit 200, accepted every 100
    ClassicAmqp10,
    /// The same as fast as link credit lets it, for a node whose syncs are slow: 5000 unsettled at most, link credit 5000
    SyncDelayAmqp10,
    /// AMQP 1.0, transient to a non-durable queue, both sides settled
    MemoryAmqp10,
}

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp091,
    Amqp10,
}

/// A load in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) queue: &'static str,
    /// Durable queue and persistent messages, else an exclusive queue and transient ones.
    pub(crate) durable: bool,
    /// Most unconfirmed publishes (unsettled messages), 0 for no confirms (settled ones).
    pub(crate) confirm_window: u32,
    /// Or link credit.
    pub(crate) prefetch: u16,
    /// Deliveries per acknowledgement (disposition), 0 for automatic ones (settled messages).
    pub(crate) ack_every: u64,
    pub(crate) messages: u64,
    pub(crate) size: usize,
}

impl Scenario {
    pub(crate) fn settings(self, args: &BenchArgs) -> Settings {
        let classic = Settings {
            name: "classic-amqp091",
            protocol: Protocol::Amqp091,
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
            Self::ClassicAmqp10 => Settings {
                name: "classic-amqp10",
                protocol: Protocol::Amqp10,
                confirm_window: 200,
                ack_every: 100,
                ..classic
            },
            Self::SyncDelayAmqp10 => Settings {
                name: "sync-delay-amqp10",
                protocol: Protocol::Amqp10,
                confirm_window: 5000,
                prefetch: 5000,
                ack_every: 1000,
                ..classic
            },
            Self::MemoryAmqp10 => Settings {
                name: "memory-amqp10",
                protocol: Protocol::Amqp10,
                queue: "my-memory-queue",
                durable: false,
                confirm_window: 0,
                prefetch: 5000,
                ack_every: 0,
                ..classic
            },
        }
    }
}
