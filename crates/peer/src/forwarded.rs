//! Requests of the HTTP API that one member forwards to another, and their responses.
//!
//! Both are the length of a head (4), the head, and the body. Fields that a newer version has at the end of a head are skipped.

use bytes::Bytes;

use crate::wire::{FieldReader, FieldWriter};

/// Most bytes of a body that is forwarded, either way.
pub const FORWARDED_BYTES_MAX: usize = 64 << 20;

const METHOD_BYTES_MAX: usize = 16;
const TARGET_BYTES_MAX: usize = 48 << 10;
const USER_BYTES_MAX: usize = 1 << 10;
/// Room for an identity with all scopes of a long token.
const IDENTITY_BYTES_MAX: usize = 256 << 10;
const HEADERS_MAX: usize = 64;
const HEADER_NAME_BYTES_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 8 << 10;

/// The identity of the asker. The node that answers checks again what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedIdentity {
    /// A client of a member's local socket, who may do everything.
    Machine,
    /// The user of this name, who has proven its password.
    User(String),
    /// An identity that is no user of the cluster, in the form that its owner wrote it in.
    Encoded(Vec<u8>),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedRequest {
    /// The identity of the asker.
    pub identity: ForwardedIdentity,
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names and values of the headers that concern the handler.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedResponse {
    /// The status.
    pub status: u16,
    /// Names and values of headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

fn put_headers(headers: &[(String, String)], to: &mut FieldWriter) {
    let headers = &headers[..headers.len().min(HEADERS_MAX)];
    to.u8(headers.len() as u8);
    for (name, value) in headers {
        to.text(name, HEADER_NAME_BYTES_MAX);
        to.text(value, HEADER_BYTES_MAX);
    }
}

fn take_headers(from: &mut FieldReader<'_>) -> Option<Vec<(String, String)>> {
    let count = usize::from(from.u8()?);
    if count > HEADERS_MAX {
        return None;
    }
    (0..count).map(|_| Some((from.text(HEADER_NAME_BYTES_MAX)?, from.text(HEADER_BYTES_MAX)?))).collect()
}

fn joined(head: &FieldWriter, body: &[u8]) -> Bytes {
    let mut whole = Vec::with_capacity(4 + head.0.len() + body.len());
    whole.extend((head.0.len() as u32).to_le_bytes());
    whole.extend(&head.0);
    whole.extend(body);
    whole.into()
}

fn split(bytes: &Bytes) -> Option<(FieldReader<'_>, Bytes)> {
    let mut from = FieldReader(bytes);
    let length = from.u32()? as usize;
    let head = from.bytes(length)?;
    let body = bytes.slice(4 + length..);
    (body.len() <= FORWARDED_BYTES_MAX).then_some((FieldReader(head), body))
}

impl ForwardedRequest {
    /// Encodes it; `None` if a part of it is too long.
    #[must_use]
    pub fn encode(&self) -> Option<Bytes> {
        if self.target.len() > TARGET_BYTES_MAX
            || self.method.len() > METHOD_BYTES_MAX
            || self.body.len() > FORWARDED_BYTES_MAX
            || matches!(&self.identity, ForwardedIdentity::Encoded(bytes) if bytes.len() > IDENTITY_BYTES_MAX)
        {
            return None;
        }
        let mut head = FieldWriter::default();
        match &self.identity {
            ForwardedIdentity::Machine => head.u8(0),
            ForwardedIdentity::User(name) => {
                head.u8(1);
                head.text(name, USER_BYTES_MAX);
            }
            ForwardedIdentity::Encoded(bytes) => {
                head.u8(2);
                head.u32(bytes.len() as u32);
                head.0.extend(bytes);
            }
        }
        head.text(&self.method, METHOD_BYTES_MAX);
        head.text(&self.target, TARGET_BYTES_MAX);
        put_headers(&self.headers, &mut head);
        Some(joined(&head, &self.body))
    }

    /// Decodes it.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<ForwardedRequest> {
        let (mut from, body) = split(bytes)?;
        let identity = match from.u8()? {
            0 => ForwardedIdentity::Machine,
            1 => ForwardedIdentity::User(from.name(USER_BYTES_MAX)?),
            2 => {
                let length = from.u32()? as usize;
                let bytes = from.bytes(length).filter(|bytes| bytes.len() <= IDENTITY_BYTES_MAX)?;
                ForwardedIdentity::Encoded(bytes.to_vec())
            }
            _ => return None,
        };
        let (method, target) = (from.text(METHOD_BYTES_MAX)?, from.text(TARGET_BYTES_MAX)?);
        Some(ForwardedRequest { identity, method, target, headers: take_headers(&mut from)?, body })
    }
}

impl ForwardedResponse {
    /// Encodes it.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut head = FieldWriter::default();
        head.u16(self.status);
        put_headers(&self.headers, &mut head);
        joined(&head, &self.body)
    }

    /// Decodes it.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<ForwardedResponse> {
        let (mut from, body) = split(bytes)?;
        Some(ForwardedResponse { status: from.u16()?, headers: take_headers(&mut from)?, body })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn request(identity: ForwardedIdentity) -> ForwardedRequest {
        ForwardedRequest {
            identity,
            method: "POST".into(),
            target: "/api/queues/%2F/q/get?x=1".into(),
            headers: vec![("accept".into(), "application/json".into())],
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn requests_and_responses_come_back() {
        let encoded = ForwardedIdentity::Encoded(vec![1; 70_000]);
        for identity in [ForwardedIdentity::Machine, ForwardedIdentity::User("m\u{1}e".into()), encoded] {
            let request = request(identity);
            assert_eq!(ForwardedRequest::decode(&request.encode().expect("fits")), Some(request));
        }
        let response = ForwardedResponse {
            status: 404,
            headers: vec![("etag".into(), "\"1\"".into())],
            body: Bytes::from_static(b"no"),
        };
        assert_eq!(ForwardedResponse::decode(&response.encode()), Some(response));
        let long = ForwardedRequest { target: "x".repeat(TARGET_BYTES_MAX + 1), ..request(ForwardedIdentity::Machine) };
        assert_eq!(long.encode(), None, "a target isn't cut");
        let long = request(ForwardedIdentity::Encoded(vec![1; IDENTITY_BYTES_MAX + 1]));
        assert_eq!(long.encode(), None, "an identity isn't cut");
    }

    #[test]
    fn fields_behind_a_head_are_skipped() {
        let request = request(ForwardedIdentity::Machine);
        let bytes = request.encode().expect("fits");
        let head = u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize;
        let longer = [&(head as u32 + 2).to_le_bytes()[..], &bytes[4..4 + head], &[7, 7], &bytes[4 + head..]].concat();
        assert_eq!(ForwardedRequest::decode(&longer.into()), Some(request));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in vec(any::<u8>(), 0..200), at in 0..100usize, byte in any::<u8>()) {
            let mut damaged = request(ForwardedIdentity::User("me".into())).encode().expect("fits").to_vec();
            if let Some(found) = damaged.get_mut(at) {
                *found = byte;
            }
            for bytes in [bytes, damaged] {
                let bytes = Bytes::from(bytes);
                let _ = ForwardedRequest::decode(&bytes);
                let _ = ForwardedResponse::decode(&bytes);
            }
        }
    }
}
