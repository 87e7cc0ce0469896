//! Sources and targets (3.5).

use crate::composite::{Composite, composite, descriptor_code, inner};
use crate::error::Problem;
use crate::field::{Field, number_choice, symbol_choice};
use crate::value::{Described, MapRef, Value};
use crate::wire::Reader;
use crate::{Coordinator, Outcome, Symbols, descriptor};

number_choice! {
    /// The parts of a terminus that survive its container (3.5.5).
    TerminusDurability: u32, "0 (none), 1 (configuration) or 2 (unsettled-state)" {
        /// Nothing.
        #[default]
        None = 0,
        /// Its existence and configuration.
        Configuration = 1,
        /// Its unsettled deliveries as well.
        UnsettledState = 2,
    }
}

symbol_choice! {
    /// The event at which the expiry of a terminus begins (3.5.6).
    ExpiryPolicy, "link-detach, session-end, connection-close or never" {
        /// Its link is detached.
        LinkDetach = "link-detach",
        /// Its last session ends.
        #[default]
        SessionEnd = "session-end",
        /// Its last connection is closed.
        ConnectionClose = "connection-close",
        /// It never expires.
        Never = "never",
    }
}

symbol_choice! {
    /// Whether consumed messages leave their node (3.5.7).
    DistributionMode, "move or copy" {
        /// They leave it: a message goes to one consumer.
        #[default]
        Move = "move",
        /// They stay for other consumers.
        Copy = "copy",
    }
}

/// The lifetime of a dynamic node (3.5.10 to 3.5.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LifetimePolicy {
    /// It exists as long as the link that created it.
    DeleteOnClose,
    /// It exists until no links use it.
    DeleteOnNoLinks,
    /// It exists until it is empty.
    DeleteOnNoMessages,
    /// It exists until it is empty or unused.
    DeleteOnNoLinksOrMessages,
}

impl LifetimePolicy {
    /// The key in dynamic-node-properties.
    pub const KEY: &'static str = "lifetime-policy";

    /// The policy for a value in dynamic-node-properties.
    #[must_use]
    pub fn from_value(value: Value<'_>) -> Option<Self> {
        let Value::Described(described) = value else { return None };
        match described.descriptor().code()? {
            descriptor::DELETE_ON_CLOSE => Some(Self::DeleteOnClose),
            descriptor::DELETE_ON_NO_LINKS => Some(Self::DeleteOnNoLinks),
            descriptor::DELETE_ON_NO_MESSAGES => Some(Self::DeleteOnNoMessages),
            descriptor::DELETE_ON_NO_LINKS_OR_MESSAGES => Some(Self::DeleteOnNoLinksOrMessages),
            _ => None,
        }
    }

    /// The value in dynamic-node-properties.
    #[must_use]
    pub const fn value(self) -> Value<'static> {
        Value::Described(Described::trusted(
            match self {
                Self::DeleteOnClose => &[0, 0x53, 0x2B, 0x45],
                Self::DeleteOnNoLinks => &[0, 0x53, 0x2C, 0x45],
                Self::DeleteOnNoMessages => &[0, 0x53, 0x2D, 0x45],
                Self::DeleteOnNoLinksOrMessages => &[0, 0x53, 0x2E, 0x45],
            },
            &[],
        ))
    }
}

composite! {
    /// The source of messages (3.5.3).
    Source['a] = SOURCE, "source" {
        /// The node's address; `None` for a dynamic one in the first attach.
        address "address": optional &'a str,
        /// The parts that survive.
        durable "durable": default TerminusDurability = TerminusDurability::None,
        /// The event at which expiry begins.
        expiry_policy "expiry-policy": default ExpiryPolicy = ExpiryPolicy::SessionEnd,
        /// Expiry after this many seconds.
        timeout "timeout": default u32 = 0,
        /// Whether a node is to be created.
        dynamic "dynamic": default bool = false,
        /// Properties of that node.
        dynamic_node_properties "dynamic-node-properties": optional MapRef<'a>,
        /// Whether messages leave the node.
        distribution_mode "distribution-mode": optional DistributionMode,
        /// Filters of messages, by name.
        filter "filter": optional MapRef<'a>,
        /// The outcome of deliveries that are settled without an outcome.
        default_outcome "default-outcome": optional Outcome<'a>,
        /// Outcomes that the link may use.
        outcomes "outcomes": default Symbols<'a> = Symbols::NONE,
        /// Extensions.
        capabilities "capabilities": default Symbols<'a> = Symbols::NONE,
    }
}

composite! {
    /// The target of messages (3.5.4).
    Target['a] = TARGET, "target" {
        /// The node's address; `None` for a dynamic one in the first attach, or for RabbitMQ's anonymous terminus.
        address "address": optional &'a str,
        /// The parts that survive.
        durable "durable": default TerminusDurability = TerminusDurability::None,
        /// The event at which expiry begins.
        expiry_policy "expiry-policy": default ExpiryPolicy = ExpiryPolicy::SessionEnd,
        /// Expiry after this many seconds.
        timeout "timeout": default u32 = 0,
        /// Whether a node is to be created.
        dynamic "dynamic": default bool = false,
        /// Properties of that node.
        dynamic_node_properties "dynamic-node-properties": optional MapRef<'a>,
        /// Extensions.
        capabilities "capabilities": default Symbols<'a> = Symbols::NONE,
    }
}

/// The target of a link: a node, or the coordinator of transactions (4.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetArchetype<'a> {
    /// A node.
    Target(Target<'a>),
    /// The coordinator.
    Coordinator(Coordinator<'a>),
}

impl<'a> TargetArchetype<'a> {
    /// The node, unless it is the coordinator.
    #[must_use]
    pub const fn as_target(&self) -> Option<&Target<'a>> {
        match self {
            Self::Target(target) => Some(target),
            Self::Coordinator(_) => None,
        }
    }
}

impl<'a> Field<'a> for Source<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match descriptor_code(code, reader, "source")? {
            descriptor::SOURCE => Self::read_list(reader).map_err(|problem| inner::<Self>(problem, Self::FIELD_COUNT)),
            received => Err(Problem::Descriptor { received, expected: "source" }),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.write_described(out);
    }
}

impl<'a> Field<'a> for TargetArchetype<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match descriptor_code(code, reader, "target or coordinator")? {
            descriptor::TARGET => Target::read_list(reader)
                .map(Self::Target)
                .map_err(|problem| inner::<Target<'_>>(problem, Target::FIELD_COUNT)),
            descriptor::COORDINATOR => Coordinator::read_list(reader)
                .map(Self::Coordinator)
                .map_err(|problem| inner::<Coordinator<'_>>(problem, Coordinator::FIELD_COUNT)),
            received => Err(Problem::Descriptor { received, expected: "target or coordinator" }),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Target(target) => target.write_described(out),
            Self::Coordinator(coordinator) => coordinator.write_described(out),
        }
    }
}
