//! Performatives (2.7): one file and one struct each.

mod attach;
mod begin;
mod close;
mod detach;
mod disposition;
mod end;
mod flow;
mod open;
mod transfer;

pub use attach::Attach;
pub use begin::Begin;
pub use close::Close;
pub use detach::Detach;
pub use disposition::Disposition;
pub use end::End;
pub use flow::Flow;
pub use open::Open;
pub use transfer::{DELIVERY_TAG_MAX, Transfer, begin_delivery, encode_transfer};

use crate::composite::{Composite, descriptor_code, outer};
use crate::error::Problem;
use crate::wire::{Reader, saturate};
use crate::{DecodeError, descriptor};

/// Any performative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "decoding allocates nothing")]
pub enum Performative<'a> {
    /// `open`
    Open(Open<'a>),
    /// `begin`
    Begin(Begin<'a>),
    /// `attach`
    Attach(Attach<'a>),
    /// `flow`
    Flow(Flow<'a>),
    /// `transfer`
    Transfer(Transfer<'a>),
    /// `disposition`
    Disposition(Disposition<'a>),
    /// `detach`
    Detach(Detach<'a>),
    /// `end`
    End(End<'a>),
    /// `close`
    Close(Close<'a>),
}

impl<'a> Performative<'a> {
    /// Decodes the body of an AMQP frame. Also returns the bytes after the performative: the payload of a transfer.
    ///
    /// # Errors
    /// If the body begins with no performative, or with a malformed one, or if anything but a transfer has a payload.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        if let Some((transfer, payload)) = Transfer::decode_plain(body) {
            return Ok((Self::Transfer(transfer), payload));
        }
        Self::decode_any(body)
    }

    #[inline(never)]
    fn decode_any(body: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        const PLACE: &str = "frame body";
        const EXPECTED: &str = "a performative";
        let problem = |problem| DecodeError::Descriptor { place: PLACE, problem };
        let mut reader = Reader::new(body);
        let code = reader.octet("constructor").map_err(problem)?;
        macro_rules! list {
            ($variant:ident) => {
                $variant::read_list(&mut reader)
                    .map(Self::$variant)
                    .map_err(|problem| outer::<$variant<'_>>(problem, $variant::FIELD_COUNT))?
            };
        }
        let performative = match descriptor_code(code, &mut reader, EXPECTED).map_err(problem)? {
            descriptor::FLOW => list!(Flow),
            descriptor::DISPOSITION => list!(Disposition),
            descriptor::TRANSFER => {
                let transfer = Transfer::read_list(&mut reader)
                    .map_err(|problem| outer::<Transfer<'_>>(problem, Transfer::FIELD_COUNT))?;
                transfer.check_tag()?;
                return Ok((Self::Transfer(transfer), reader.rest()));
            }
            descriptor::OPEN => list!(Open),
            descriptor::BEGIN => list!(Begin),
            descriptor::ATTACH => list!(Attach),
            descriptor::DETACH => list!(Detach),
            descriptor::END => list!(End),
            descriptor::CLOSE => list!(Close),
            received => return Err(problem(Problem::Descriptor { received, expected: EXPECTED })),
        };
        if reader.is_empty() {
            Ok((performative, reader.rest()))
        } else {
            Err(DecodeError::TrailingBytes { place: performative.name(), count: saturate(reader.len()) })
        }
    }

    /// Appends the performative, without a frame around it.
    ///
    /// # Panics
    /// If it has 4 GiB or more.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open(open) => open.write_described(out),
            Self::Begin(begin) => begin.write_described(out),
            Self::Attach(attach) => attach.write_described(out),
            Self::Flow(flow) => flow.write_described(out),
            Self::Transfer(transfer) => transfer.encode(out),
            Self::Disposition(disposition) => disposition.write_described(out),
            Self::Detach(detach) => detach.write_described(out),
            Self::End(end) => end.write_described(out),
            Self::Close(close) => close.write_described(out),
        }
    }

    /// The specification's name, such as `transfer`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Begin(_) => "begin",
            Self::Attach(_) => "attach",
            Self::Flow(_) => "flow",
            Self::Transfer(_) => "transfer",
            Self::Disposition(_) => "disposition",
            Self::Detach(_) => "detach",
            Self::End(_) => "end",
            Self::Close(_) => "close",
        }
    }
}

macro_rules! from_struct {
    ($($name:ident)*) => {
        $(impl<'a> From<$name<'a>> for Performative<'a> {
            fn from(fields: $name<'a>) -> Self {
                Self::$name(fields)
            }
        })*
    };
}

from_struct!(Open Begin Attach Flow Transfer Disposition Detach End Close);
