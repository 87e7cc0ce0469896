//! Whole messages out of transfers (specification 2.6.14), and what those take that haven't come in whole.

use std::borrow::Cow;

use leveret_amqp10::{DeliveryState, ReceiverSettleMode, SenderSettleMode, Serial, condition, performative::Transfer};

use super::error::{Failure, Result};
use super::grant::Grant;
use crate::partial::{PartialBytes, PartialMessages};

/// A delivery whose last transfer hasn't come.
pub(crate) struct Partial {
    pub id: Serial,
    pub tag: Vec<u8>,
    pub settled: bool,
    pub transaction: Option<Box<[u8]>>,
    pub bytes: PartialBytes,
}

/// Messages out of transfers, one after the other.
pub(crate) struct Assembly {
    settle_mode: SenderSettleMode,
    partial: Option<Partial>,
    /// What all of the connection hold.
    all: PartialMessages,
}

/// A message that has come in whole.
pub(crate) struct Complete<'a> {
    pub id: Serial,
    pub tag: Cow<'a, [u8]>,
    pub settled: bool,
    /// The id of the transaction that it belongs to.
    pub transaction: Option<Cow<'a, [u8]>>,
    pub payload: Payload<'a>,
}

/// A message in the read buffer, or one that was put together.
pub(crate) enum Payload<'a> {
    Slice(&'a [u8]),
    Whole(Vec<u8>),
}

impl Payload<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Slice(bytes) => bytes,
            Payload::Whole(bytes) => bytes,
        }
    }
}

impl Assembly {
    /// For a link whose sender settles like this.
    pub(crate) fn new(settle_mode: SenderSettleMode, all: PartialMessages) -> Self {
        Self { settle_mode, partial: None, all }
    }

    /// Takes a transfer in; gives the message out when it is complete.
    ///
    /// # Errors
    /// No credit, inconsistent fields, or a message that grows too large.
    pub(crate) fn receive<'a>(
        &mut self,
        transfer: &Transfer<'a>,
        payload: &'a [u8],
        size_max: u64,
        grant: &mut Grant,
    ) -> Result<Option<Complete<'a>>> {
        let Some(partial) = &mut self.partial else { return self.begin(transfer, payload, size_max, grant) };
        if transfer.delivery_id.is_some_and(|id| Serial(id) != partial.id) {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                format!(
                    "delivery-id of continuation transfer ({}) differs from delivery-id on first transfer ({})",
                    transfer.delivery_id.unwrap_or_default(),
                    partial.id
                ),
            ));
        }
        if transfer.settled.is_some_and(|settled| settled != partial.settled) {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                format!(
                    "field 'settled' of continuation transfer ({}) differs from (interpreted) field 'settled' on first \
                     transfer ({})",
                    !partial.settled, partial.settled
                ),
            ));
        }
        if transfer.aborted {
            self.partial = None;
            return Ok(None);
        }
        check_size(partial.bytes.len() + payload.len(), size_max)?;
        partial.bytes.add(payload)?;
        if transfer.more {
            return Ok(None);
        }
        let Some(Partial { id, tag, settled, transaction, bytes }) = self.partial.take() else { return Ok(None) };
        let transaction = transaction.map(|id| Cow::Owned(id.into()));
        Ok(Some(Complete { id, tag: tag.into(), settled, transaction, payload: Payload::Whole(bytes.finish()) }))
    }

    fn begin<'a>(
        &mut self,
        transfer: &Transfer<'a>,
        payload: &'a [u8],
        size_max: u64,
        grant: &mut Grant,
    ) -> Result<Option<Complete<'a>>> {
        let Some(id) = transfer.delivery_id.map(Serial) else {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                "transfer without delivery-id: it must be on the first transfer of a delivery",
            ));
        };
        if !grant.begin_delivery() {
            return Err(Failure::link(
                condition::TRANSFER_LIMIT_EXCEEDED,
                format!("delivery {id} was sent without link credit: wait for a flow"),
            ));
        }
        let settled = transfer.settled.unwrap_or(false);
        let contradicts = match self.settle_mode {
            SenderSettleMode::Mixed => false,
            SenderSettleMode::Settled => !settled,
            SenderSettleMode::Unsettled => settled,
        };
        if contradicts {
            return Err(Failure::link(
                condition::INVALID_FIELD,
                format!(
                    "sender settle mode is '{}' but transfer settled flag is interpreted as being '{settled}'",
                    if settled { "unsettled" } else { "settled" }
                ),
            ));
        }
        if transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second) {
            return Err(Failure::link(condition::NOT_IMPLEMENTED, "rcv-settle-mode second not supported"));
        }
        if transfer.aborted {
            return Ok(None);
        }
        check_size(payload.len(), size_max)?;
        let tag = transfer.delivery_tag.unwrap_or_default();
        let transaction = match transfer.state {
            Some(DeliveryState::Transactional { txn_id, .. }) => Some(txn_id),
            _ => None,
        };
        if transfer.more {
            let transaction: Option<Box<[u8]>> = transaction.map(Into::into);
            let mut bytes = self.all.begin();
            bytes.charge(transaction.as_ref().map_or(0, |id| id.len() as u64))?;
            bytes.add(payload)?;
            self.partial = Some(Partial { id, tag: tag.to_vec(), settled, transaction, bytes });
            return Ok(None);
        }
        let transaction = transaction.map(Cow::Borrowed);
        Ok(Some(Complete { id, tag: tag.into(), settled, transaction, payload: Payload::Slice(payload) }))
    }
}

fn check_size(size: usize, size_max: u64) -> Result<()> {
    if size as u64 <= size_max {
        return Ok(());
    }
    Err(Failure::link(
        condition::MESSAGE_SIZE_EXCEEDED,
        format!("message size ({size} bytes) > maximum message size ({size_max} bytes)"),
    ))
}
