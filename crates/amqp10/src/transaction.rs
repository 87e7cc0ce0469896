//! Transactions (4.5).

use crate::composite::{Composite, composite, descriptor_code, outer};
use crate::error::Problem;
use crate::wire::{Reader, saturate};
use crate::{DecodeError, Symbols, descriptor};

composite! {
    /// The target of a link that controls transactions (4.5.1).
    Coordinator['a] = COORDINATOR, "coordinator" {
        /// `amqp:local-transactions` and others (4.5.7).
        capabilities "capabilities": default Symbols<'a> = Symbols::NONE,
    }
}

composite! {
    /// Begins a transaction (4.5.2).
    Declare['a] = DECLARE, "declare" {
        /// The global transaction it belongs to.
        global_id "global-id": optional &'a [u8],
    }
}

composite! {
    /// Ends a transaction (4.5.3).
    Discharge['a] = DISCHARGE, "discharge" {
        /// The id of the transaction.
        txn_id "txn-id": mandatory &'a [u8],
        /// Whether to roll it back.
        fail "fail": default bool = false,
    }
}

/// A message to the coordinator: the content of its `amqp-value` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionRequest<'a> {
    /// Begins a transaction.
    Declare(Declare<'a>),
    /// Ends a transaction.
    Discharge(Discharge<'a>),
}

impl<'a> TransactionRequest<'a> {
    /// Decodes the value of the section. `raw` begins with its descriptor.
    ///
    /// # Errors
    /// If it is neither, or malformed.
    pub fn decode(raw: &'a [u8]) -> Result<Self, DecodeError> {
        const PLACE: &str = "message to the coordinator";
        const EXPECTED: &str = "declare or discharge";
        let problem = |problem| DecodeError::Descriptor { place: PLACE, problem };
        let mut reader = Reader::new(raw);
        let code = reader.octet("constructor").map_err(problem)?;
        let request = match descriptor_code(code, &mut reader, EXPECTED).map_err(problem)? {
            descriptor::DECLARE => Declare::read_list(&mut reader)
                .map(Self::Declare)
                .map_err(|problem| outer::<Declare<'_>>(problem, Declare::FIELD_COUNT))?,
            descriptor::DISCHARGE => Discharge::read_list(&mut reader)
                .map(Self::Discharge)
                .map_err(|problem| outer::<Discharge<'_>>(problem, Discharge::FIELD_COUNT))?,
            received => return Err(problem(Problem::Descriptor { received, expected: EXPECTED })),
        };
        match reader.len() {
            0 => Ok(request),
            left => Err(DecodeError::TrailingBytes { place: PLACE, count: saturate(left) }),
        }
    }

    /// Appends the value for an `amqp-value` section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Declare(declare) => declare.write_described(out),
            Self::Discharge(discharge) => discharge.write_described(out),
        }
    }
}
