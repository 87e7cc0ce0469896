//! The SASL layer (5.3).

use crate::composite::{Composite, composite, descriptor_code, outer};
use crate::error::Problem;
use crate::field::number_choice;
use crate::wire::{Reader, saturate};
use crate::{DecodeError, FrameKind, Symbol, Symbols, begin_frame, descriptor, end_frame};

composite! {
    /// The mechanisms that the server offers (5.3.3.1).
    Mechanisms['a] = SASL_MECHANISMS, "sasl-mechanisms" {
        /// Names of the mechanisms, best first.
        sasl_server_mechanisms "sasl-server-mechanisms": mandatory Symbols<'a>,
    }
}

composite! {
    /// The mechanism that the client chooses (5.3.3.2).
    Init['a] = SASL_INIT, "sasl-init" {
        /// The mechanism.
        mechanism "mechanism": mandatory Symbol<'a>,
        /// The mechanism's initial response.
        initial_response "initial-response": optional &'a [u8],
        /// The host that the client addresses; RabbitMQ's virtual host if it begins with `vhost:`.
        hostname "hostname": optional &'a str,
    }
}

composite! {
    /// A challenge of the server (5.3.3.3).
    Challenge['a] = SASL_CHALLENGE, "sasl-challenge" {
        /// The mechanism's data.
        challenge "challenge": mandatory &'a [u8],
    }
}

composite! {
    /// The response of the client (5.3.3.4).
    Response['a] = SASL_RESPONSE, "sasl-response" {
        /// The mechanism's data.
        response "response": mandatory &'a [u8],
    }
}

number_choice! {
    /// The result of authentication (5.3.3.6).
    SaslCode: u8, "0 (ok), 1 (auth), 2 (sys), 3 (sys-perm) or 4 (sys-temp)" {
        /// Authentication succeeded.
        #[default]
        Ok = 0,
        /// Authentication failed.
        Auth = 1,
        /// The server failed.
        Sys = 2,
        /// The server failed permanently.
        SysPerm = 3,
        /// The server failed temporarily.
        SysTemp = 4,
    }
}

composite! {
    /// The end of authentication (5.3.3.5).
    Outcome['a] = SASL_OUTCOME, "sasl-outcome" {
        /// The result.
        code "code": mandatory SaslCode,
        /// The mechanism's additional data.
        additional_data "additional-data": optional &'a [u8],
    }
}

/// The body of a SASL frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslFrame<'a> {
    /// `sasl-mechanisms`
    Mechanisms(Mechanisms<'a>),
    /// `sasl-init`
    Init(Init<'a>),
    /// `sasl-challenge`
    Challenge(Challenge<'a>),
    /// `sasl-response`
    Response(Response<'a>),
    /// `sasl-outcome`
    Outcome(Outcome<'a>),
}

impl<'a> SaslFrame<'a> {
    /// Decodes the body of a SASL frame.
    ///
    /// # Errors
    /// If it is none of the five, malformed, or followed by more bytes.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        const PLACE: &str = "SASL frame";
        const EXPECTED: &str = "sasl-mechanisms, -init, -challenge, -response or -outcome";
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
        let frame = match descriptor_code(code, &mut reader, EXPECTED).map_err(problem)? {
            descriptor::SASL_MECHANISMS => list!(Mechanisms),
            descriptor::SASL_INIT => list!(Init),
            descriptor::SASL_CHALLENGE => list!(Challenge),
            descriptor::SASL_RESPONSE => list!(Response),
            descriptor::SASL_OUTCOME => list!(Outcome),
            received => return Err(problem(Problem::Descriptor { received, expected: EXPECTED })),
        };
        match reader.len() {
            0 => Ok(frame),
            left => Err(DecodeError::TrailingBytes { place: PLACE, count: saturate(left) }),
        }
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = begin_frame(out, FrameKind::Sasl, 0);
        match self {
            Self::Mechanisms(list) => list.write_described(out),
            Self::Init(list) => list.write_described(out),
            Self::Challenge(list) => list.write_described(out),
            Self::Response(list) => list.write_described(out),
            Self::Outcome(list) => list.write_described(out),
        }
        end_frame(out, start);
    }

    /// The specification's name, such as `sasl-init`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mechanisms(_) => "sasl-mechanisms",
            Self::Init(_) => "sasl-init",
            Self::Challenge(_) => "sasl-challenge",
            Self::Response(_) => "sasl-response",
            Self::Outcome(_) => "sasl-outcome",
        }
    }
}
