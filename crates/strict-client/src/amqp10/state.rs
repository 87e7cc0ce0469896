//! States and errors that own their bytes.

use leveret_amqp10::value::OwnedMap;
use leveret_amqp10::{DeliveryState, Error, Outcome};

/// An error received from the peer.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerError {
    /// Its condition, such as `amqp:not-found`.
    pub condition: String,
    /// Its text.
    pub description: String,
    /// Additional information.
    pub info: OwnedMap,
}

impl From<Error<'_>> for PeerError {
    fn from(error: Error<'_>) -> Self {
        Self {
            condition: error.condition.as_str().to_owned(),
            description: error.description.unwrap_or_default().to_owned(),
            info: error.info.map(OwnedMap::from).unwrap_or_default(),
        }
    }
}

/// The state of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// `received`
    Received {
        /// Number of sections received completely.
        section_number: u32,
        /// Number of bytes received of the next section.
        section_offset: u64,
    },
    /// `accepted`
    Accepted,
    /// `rejected`
    Rejected(Option<PeerError>),
    /// `released`
    Released,
    /// `modified`
    Modified {
        /// Whether the delivery counts as a failed attempt.
        delivery_failed: bool,
        /// Whether the message isn't to be delivered to this link again.
        undeliverable_here: bool,
        /// Annotations to merge into the message annotations.
        annotations: OwnedMap,
    },
    /// `declared`
    Declared {
        /// The transaction's id.
        txn_id: Vec<u8>,
    },
    /// `transactional-state`
    Transactional {
        /// The transaction's id.
        txn_id: Vec<u8>,
        /// The outcome that takes effect at the commit.
        outcome: Option<Box<State>>,
    },
}

impl State {
    /// Whether the state is final: an outcome, possibly within a transaction.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Received { .. } | Self::Transactional { .. })
    }
}

impl From<DeliveryState<'_>> for State {
    fn from(state: DeliveryState<'_>) -> Self {
        match state {
            DeliveryState::Accepted => Self::Accepted,
            DeliveryState::Received { section_number, section_offset } => {
                Self::Received { section_number, section_offset }
            }
            DeliveryState::Rejected { error } => Self::Rejected(error.map(PeerError::from)),
            DeliveryState::Released => Self::Released,
            DeliveryState::Modified { delivery_failed, undeliverable_here, message_annotations } => Self::Modified {
                delivery_failed,
                undeliverable_here,
                annotations: message_annotations.map(OwnedMap::from).unwrap_or_default(),
            },
            DeliveryState::Declared { txn_id } => Self::Declared { txn_id: txn_id.to_vec() },
            DeliveryState::Transactional { txn_id, outcome } => Self::Transactional {
                txn_id: txn_id.to_vec(),
                outcome: outcome.map(|outcome: Outcome<'_>| Box::new(DeliveryState::from(outcome).into())),
            },
        }
    }
}
