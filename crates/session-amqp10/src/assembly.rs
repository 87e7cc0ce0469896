//! Assembly of whole messages from transfers (specification 2.6.14), and the memory of incomplete ones.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_amqp10::{DeliveryState, ReceiverSettleMode, SenderSettleMode, Serial, condition, performative::Transfer};

use leveret_message::incoming::BodyCheck;

use super::error::{Failure, Result};
use super::grant::Grant;
use leveret_broker::bodies::BodyFile;
use leveret_broker::partial::{PartialBytes, PartialMessages};
use leveret_broker::route::Route;

/// A delivery whose last transfer hasn't come.
pub(crate) struct Partial {
    pub id: Serial,
    pub tag: Vec<u8>,
    pub settled: bool,
    pub transaction: Option<Box<[u8]>>,
    received: Received,
    /// Number of bytes that have come.
    size: usize,
}

/// The place of the bytes that have come.
enum Received {
    /// In memory. From `look_at` bytes on, they are checked for whether a file is the better place.
    Memory { bytes: PartialBytes, look_at: usize },
    /// In a file, or on their way there.
    File(Box<LargeMessage>),
}

/// A large durable message. The sections before its body are in memory, and it was routed by them; the rest is in a
/// file, or on its way there.
pub(crate) struct LargeMessage {
    /// All sections before the body.
    pub start: Vec<u8>,
    pub address: Address,
    pub file: BodyFile,
    check: BodyCheck,
}

/// The destination of a message.
pub(crate) struct Address {
    pub exchange: Box<str>,
    pub key: Box<str>,
    pub route: Arc<Route>,
}

impl LargeMessage {
    /// A message of which `payload` has come: up to `body` everything before its body; the bare message begins at
    /// `bare`.
    ///
    /// # Errors
    /// It is malformed, or the connection's unfinished messages hold too much.
    pub(crate) fn begin(
        payload: &[u8],
        (bare, body): (usize, usize),
        address: Address,
        file: BodyFile,
        all: &PartialMessages,
    ) -> Result<Box<Self>> {
        let mut message =
            Box::new(Self { start: payload[..body].to_vec(), address, file, check: BodyCheck::default() });
        message.check(&payload[body..])?;
        message.file.add(&payload[bare..], all)?;
        Ok(message)
    }

    fn check(&mut self, payload: &[u8]) -> Result<()> {
        self.check.add(payload).map_err(|error| Failure::link(error.condition(), error.to_string()))
    }

    fn add(&mut self, payload: &[u8], all: &PartialMessages) -> Result<()> {
        self.check(payload)?;
        Ok(self.file.add(payload, all)?)
    }

    fn finish(&mut self) -> Result<()> {
        let check = std::mem::take(&mut self.check);
        check.finish().map_err(|error| Failure::link(error.condition(), error.to_string()))?;
        self.file.finish();
        Ok(())
    }
}

/// Assembles messages from transfers, one after the other.
pub(crate) struct Assembly {
    settle_mode: SenderSettleMode,
    partial: Option<Partial>,
    /// Memory of all incomplete messages of the connection.
    all: PartialMessages,
}

/// A complete message.
pub(crate) struct Complete<'a> {
    pub id: Serial,
    pub tag: Cow<'a, [u8]>,
    pub settled: bool,
    /// The id of the transaction that it belongs to.
    pub transaction: Option<Cow<'a, [u8]>>,
    pub payload: Payload<'a>,
    /// Its size in bytes.
    pub size: usize,
}

/// A message that lies in the read buffer, or one that was assembled.
pub(crate) enum Payload<'a> {
    Slice(&'a [u8]),
    Whole(Vec<u8>),
    Large(Box<LargeMessage>),
}

impl Payload<'_> {
    /// The bytes in memory: of a large message, the sections before its body.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Slice(bytes) => bytes,
            Payload::Whole(bytes) => bytes,
            Payload::Large(large) => &large.start,
        }
    }
}

impl Assembly {
    /// An assembly for a link with this settle mode of the sender.
    pub(crate) fn new(settle_mode: SenderSettleMode, all: PartialMessages) -> Self {
        Self { settle_mode, partial: None, all }
    }

    /// Takes in a transfer; returns the message if it is complete.
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
        partial.size += payload.len();
        check_size(partial.size, size_max)?;
        match &mut partial.received {
            Received::Memory { bytes, .. } => bytes.add(payload)?,
            Received::File(message) => message.add(payload, &self.all)?,
        }
        if transfer.more {
            return Ok(None);
        }
        let Some(Partial { id, tag, settled, transaction, received, size }) = self.partial.take() else {
            return Ok(None);
        };
        let payload = match received {
            Received::Memory { bytes, .. } => Payload::Whole(bytes.finish()),
            Received::File(mut message) => {
                message.finish()?;
                Payload::Large(message)
            }
        };
        let transaction = transaction.map(|id| Cow::Owned(id.into()));
        Ok(Some(Complete { id, tag: tag.into(), settled, transaction, payload, size }))
    }

    /// The bytes that have come of the message that the next transfer continues, none if it begins one; `None` if they are in a file, so
    /// that the message was routed already.
    pub(crate) fn gathered(&self) -> Option<&[u8]> {
        match self.partial.as_ref().map(|partial| &partial.received) {
            None => Some(&[]),
            Some(Received::Memory { bytes, .. }) => Some(bytes.as_slice()),
            Some(Received::File(_)) => None,
        }
    }

    /// The bytes that have come of a message that may go to a file. None before another `from` bytes are there, and
    /// from then on only after each doubling.
    pub(crate) fn large(&mut self, from: usize) -> Option<&[u8]> {
        let partial = self.partial.as_mut().filter(|partial| partial.transaction.is_none())?;
        let Received::Memory { bytes, look_at } = &mut partial.received else { return None };
        if bytes.len() < from.max(*look_at) {
            return None;
        }
        *look_at = 2 * bytes.len();
        Some(bytes.as_slice())
    }

    /// Moves the message that is being assembled to a file.
    pub(crate) fn goes_to_file(&mut self, message: Box<LargeMessage>) {
        if let Some(partial) = &mut self.partial {
            partial.received = Received::File(message);
        }
    }

    /// Whether this transfer is a whole message outside of any transaction, and the first of its delivery.
    #[inline]
    pub(crate) fn is_whole(&self, transfer: &Transfer<'_>) -> bool {
        self.partial.is_none() && !transfer.more && !transfer.aborted && transfer.state.is_none()
    }

    /// Like [`receive`](Self::receive), for a transfer that [is whole](Self::is_whole), with a payload of `size` bytes.
    /// Returns its delivery-id, and whether it is settled.
    ///
    /// # Errors
    /// No credit, inconsistent fields, or too large a message.
    #[inline]
    pub(crate) fn receive_whole(
        &self,
        transfer: &Transfer<'_>,
        size: usize,
        size_max: u64,
        grant: &mut Grant,
    ) -> Result<(Serial, bool)> {
        let first = self.check_first(transfer, grant)?;
        check_size(size, size_max)?;
        Ok(first)
    }

    /// Checks the first transfer of a delivery. Returns its delivery-id, and whether it is settled.
    #[inline]
    fn check_first(&self, transfer: &Transfer<'_>, grant: &mut Grant) -> Result<(Serial, bool)> {
        let Some(id) = transfer.delivery_id.map(Serial) else { return Err(without_id()) };
        if !grant.begin_delivery() {
            return Err(without_credit(id));
        }
        let settled = transfer.settled.unwrap_or(false);
        let contradicts = match self.settle_mode {
            SenderSettleMode::Mixed => false,
            SenderSettleMode::Settled => !settled,
            SenderSettleMode::Unsettled => settled,
        };
        if contradicts {
            return Err(contradicting(settled));
        }
        if transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second) {
            return Err(second_mode());
        }
        Ok((id, settled))
    }

    fn begin<'a>(
        &mut self,
        transfer: &Transfer<'a>,
        payload: &'a [u8],
        size_max: u64,
        grant: &mut Grant,
    ) -> Result<Option<Complete<'a>>> {
        let (id, settled) = self.check_first(transfer, grant)?;
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
            let received = Received::Memory { bytes, look_at: 0 };
            self.partial = Some(Partial { id, tag: tag.to_vec(), settled, transaction, received, size: payload.len() });
            return Ok(None);
        }
        let transaction = transaction.map(Cow::Borrowed);
        let (tag, size) = (tag.into(), payload.len());
        Ok(Some(Complete { id, tag, settled, transaction, payload: Payload::Slice(payload), size }))
    }
}

#[inline]
fn check_size(size: usize, size_max: u64) -> Result<()> {
    if size as u64 <= size_max { Ok(()) } else { Err(too_large(size, size_max)) }
}

// The errors of a transfer are made apart from its checks, so that these are short enough to be inlined for each message.

#[cold]
fn without_id() -> Failure {
    let text = "transfer without delivery-id: it must be on the first transfer of a delivery";
    Failure::link(condition::INVALID_FIELD, text)
}

#[cold]
fn without_credit(id: Serial) -> Failure {
    let text = format!("delivery {id} was sent without link credit: wait for a flow");
    Failure::link(condition::TRANSFER_LIMIT_EXCEEDED, text)
}

#[cold]
fn contradicting(settled: bool) -> Failure {
    let mode = if settled { "unsettled" } else { "settled" };
    let text = format!("sender settle mode is '{mode}' but transfer settled flag is interpreted as being '{settled}'");
    Failure::link(condition::INVALID_FIELD, text)
}

#[cold]
fn second_mode() -> Failure {
    Failure::link(condition::NOT_IMPLEMENTED, "rcv-settle-mode second not supported")
}

#[cold]
fn too_large(size: usize, size_max: u64) -> Failure {
    let text = format!("message size ({size} bytes) > maximum message size ({size_max} bytes)");
    Failure::link(condition::MESSAGE_SIZE_EXCEEDED, text)
}
