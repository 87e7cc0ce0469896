//! Delivery states and outcomes (3.4, 4.5).

use crate::composite::{Composite, Fields, composite, descriptor_code, inner};
use crate::error::{CompositeProblem, Problem};
use crate::field::Field;
use crate::value::{MapRef, code};
use crate::wire::Reader;
use crate::{Error, Symbol, descriptor};

/// The state of a delivery, as its sender or receiver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState<'a> {
    /// Received up to here; not an outcome (3.4.1).
    Received {
        /// Number of sections received completely.
        section_number: u32,
        /// Number of bytes received of the next section.
        section_offset: u64,
    },
    /// The message was processed (3.4.2).
    Accepted,
    /// The message is invalid and can't be processed (3.4.3).
    Rejected {
        /// The reason.
        error: Option<Error<'a>>,
    },
    /// The message wasn't and won't be processed here (3.4.4).
    Released,
    /// The message wasn't processed and is to be changed (3.4.5).
    Modified {
        /// The delivery counts as a failed attempt.
        delivery_failed: bool,
        /// The message isn't to be delivered to this link again.
        undeliverable_here: bool,
        /// Annotations to merge into the message annotations.
        message_annotations: Option<MapRef<'a>>,
    },
    /// A transaction was declared (4.5.5).
    Declared {
        /// The id of the transaction.
        txn_id: &'a [u8],
    },
    /// The delivery belongs to a transaction (4.5.6).
    Transactional {
        /// The id of the transaction.
        txn_id: &'a [u8],
        /// The outcome that takes effect at the commit.
        outcome: Option<Outcome<'a>>,
    },
}

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The message was processed (3.4.2).
    Accepted,
    /// The message is invalid and can't be processed (3.4.3).
    Rejected {
        /// The reason.
        error: Option<Error<'a>>,
    },
    /// The message wasn't and won't be processed here (3.4.4).
    Released,
    /// The message wasn't processed and is to be changed (3.4.5).
    Modified {
        /// The delivery counts as a failed attempt.
        delivery_failed: bool,
        /// The message isn't to be delivered to this link again.
        undeliverable_here: bool,
        /// Annotations to merge into the message annotations.
        message_annotations: Option<MapRef<'a>>,
    },
}

impl Outcome<'_> {
    /// `amqp:accepted:list`
    pub const ACCEPTED: Symbol<'static> = Symbol::new("amqp:accepted:list");
    /// `amqp:rejected:list`
    pub const REJECTED: Symbol<'static> = Symbol::new("amqp:rejected:list");
    /// `amqp:released:list`
    pub const RELEASED: Symbol<'static> = Symbol::new("amqp:released:list");
    /// `amqp:modified:list`
    pub const MODIFIED: Symbol<'static> = Symbol::new("amqp:modified:list");

    /// The symbol by which a source names this outcome.
    #[must_use]
    pub const fn symbol(&self) -> Symbol<'static> {
        match self {
            Self::Accepted => Self::ACCEPTED,
            Self::Rejected { .. } => Self::REJECTED,
            Self::Released => Self::RELEASED,
            Self::Modified { .. } => Self::MODIFIED,
        }
    }
}

impl<'a> DeliveryState<'a> {
    /// The outcome of this state; for a transactional state, its provisional one.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome<'a>> {
        match *self {
            Self::Accepted => Some(Outcome::Accepted),
            Self::Rejected { error } => Some(Outcome::Rejected { error }),
            Self::Released => Some(Outcome::Released),
            Self::Modified { delivery_failed, undeliverable_here, message_annotations } => {
                Some(Outcome::Modified { delivery_failed, undeliverable_here, message_annotations })
            }
            Self::Transactional { outcome, .. } => outcome,
            Self::Received { .. } | Self::Declared { .. } => None,
        }
    }
}

impl<'a> From<Outcome<'a>> for DeliveryState<'a> {
    fn from(outcome: Outcome<'a>) -> Self {
        match outcome {
            Outcome::Accepted => Self::Accepted,
            Outcome::Rejected { error } => Self::Rejected { error },
            Outcome::Released => Self::Released,
            Outcome::Modified { delivery_failed, undeliverable_here, message_annotations } => {
                Self::Modified { delivery_failed, undeliverable_here, message_annotations }
            }
        }
    }
}

/// The encoded lists.
mod list {
    #![allow(unreachable_pub)]
    use super::{Error, MapRef, Outcome, composite};

    composite! {
        Received = RECEIVED, "received" {
            section_number "section-number": mandatory u32,
            section_offset "section-offset": mandatory u64,
        }
    }
    composite! {
        Rejected['a] = REJECTED, "rejected" {
            error "error": optional Error<'a>,
        }
    }
    composite! {
        Modified['a] = MODIFIED, "modified" {
            delivery_failed "delivery-failed": default bool = false,
            undeliverable_here "undeliverable-here": default bool = false,
            message_annotations "message-annotations": optional MapRef<'a>,
        }
    }
    composite! {
        Declared['a] = DECLARED, "declared" {
            txn_id "txn-id": mandatory &'a [u8],
        }
    }
    composite! {
        Transactional['a] = TRANSACTIONAL_STATE, "transactional-state" {
            txn_id "txn-id": mandatory &'a [u8],
            outcome "outcome": optional Outcome<'a>,
        }
    }
}

macro_rules! read {
    ($type:ident, $reader:ident) => {
        list::$type::read_list($reader).map_err(|problem| inner::<list::$type>(problem, list::$type::FIELD_COUNT))
    };
}
macro_rules! read_borrowed {
    ($type:ident, $reader:ident) => {
        list::$type::read_list($reader).map_err(|problem| inner::<list::$type<'_>>(problem, list::$type::FIELD_COUNT))
    };
}

const STATES: &str = "a delivery state";
const OUTCOMES: &str = "an outcome";

impl<'a> Field<'a> for DeliveryState<'a> {
    #[inline]
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match descriptor_code(code, reader, STATES)? {
            descriptor::ACCEPTED => read_empty(reader, "accepted").map(|()| Self::Accepted),
            descriptor::RECEIVED => read!(Received, reader).map(|list::Received { section_number, section_offset }| {
                Self::Received { section_number, section_offset }
            }),
            descriptor::DECLARED => {
                read_borrowed!(Declared, reader).map(|list::Declared { txn_id }| Self::Declared { txn_id })
            }
            descriptor::TRANSACTIONAL_STATE => read_borrowed!(Transactional, reader)
                .map(|list::Transactional { txn_id, outcome }| Self::Transactional { txn_id, outcome }),
            other => read_outcome(other, reader, STATES).map(Self::from),
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Accepted => write_empty(out, descriptor::ACCEPTED),
            Self::Received { section_number, section_offset } => {
                list::Received { section_number, section_offset }.write_described(out);
            }
            Self::Rejected { error } => list::Rejected { error }.write_described(out),
            Self::Released => write_empty(out, descriptor::RELEASED),
            Self::Modified { delivery_failed, undeliverable_here, message_annotations } => {
                list::Modified { delivery_failed, undeliverable_here, message_annotations }.write_described(out);
            }
            Self::Declared { txn_id } => list::Declared { txn_id }.write_described(out),
            Self::Transactional { txn_id, outcome } => list::Transactional { txn_id, outcome }.write_described(out),
        }
    }
}

impl<'a> Field<'a> for Outcome<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        let descriptor = descriptor_code(code, reader, OUTCOMES)?;
        read_outcome(descriptor, reader, OUTCOMES)
    }

    fn write(&self, out: &mut Vec<u8>) {
        DeliveryState::from(*self).write(out);
    }
}

fn read_outcome<'a>(descriptor: u64, reader: &mut Reader<'a>, expected: &'static str) -> Result<Outcome<'a>, Problem> {
    match descriptor {
        descriptor::ACCEPTED => read_empty(reader, "accepted").map(|()| Outcome::Accepted),
        descriptor::REJECTED => {
            read_borrowed!(Rejected, reader).map(|list::Rejected { error }| Outcome::Rejected { error })
        }
        descriptor::RELEASED => read_empty(reader, "released").map(|()| Outcome::Released),
        descriptor::MODIFIED => read_borrowed!(Modified, reader).map(
            |list::Modified { delivery_failed, undeliverable_here, message_annotations }| Outcome::Modified {
                delivery_failed,
                undeliverable_here,
                message_annotations,
            },
        ),
        received => Err(Problem::Descriptor { received, expected }),
    }
}

/// A list that has no fields.
#[inline]
fn read_empty(reader: &mut Reader<'_>, composite: &'static str) -> Result<(), Problem> {
    Fields::read(reader)?.finish().map_err(|problem| match problem {
        CompositeProblem::Extra(received) => Problem::Extra { composite, received, limit: 0 },
        CompositeProblem::Whole(problem) | CompositeProblem::Field(_, problem) => problem,
        CompositeProblem::Missing(field) => Problem::Missing { composite, field },
    })
}

#[inline]
fn write_empty(out: &mut Vec<u8>, descriptor: u64) {
    out.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor as u8, code::LIST_0]);
}
