//! An identity as bytes, for another node, which judges by it without asking a backend. docs/cluster.md has the table.

use super::{AskedGrants, Brought, Glob, GrantQuestion, Grants, Identity, Right, ScopeRule, Scopes};

/// Largest number of bytes of an encoded identity.
pub const IDENTITY_BYTES_MAX: usize = 256 << 10;

const VERSION: u8 = 1;

const MODEL: u8 = 0;
const SCOPES: u8 = 1;
const ASKED: u8 = 2;

const ENTER: u8 = 0;
const QUEUE: u8 = 1;
const EXCHANGE: u8 = 2;
const TOPIC: u8 = 3;

impl Identity {
    /// The bytes of this identity, with the answers that its backend has given so far. `None` if they are more than
    /// [`IDENTITY_BYTES_MAX`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        text(&mut out, self.name());
        text(&mut out, self.backend());
        optional(&mut out, self.ends_ms(), |out, ends_ms| out.extend_from_slice(&ends_ms.to_be_bytes()));
        let tags = self.brought.as_ref().map_or(&[][..], |brought| &brought.tags);
        count(&mut out, tags.len());
        tags.iter().for_each(|tag| text(&mut out, tag));
        match self.grants() {
            Grants::Model => out.push(MODEL),
            Grants::Scopes(scopes) => {
                out.push(SCOPES);
                count(&mut out, scopes.rules().len());
                scopes.rules().iter().for_each(|rule| put_rule(&mut out, rule));
            }
            Grants::Asked(asked) => {
                let all = asked.all();
                out.push(ASKED);
                count(&mut out, all.len());
                for (question, answer) in &all {
                    put_question(&mut out, question);
                    out.push(u8::from(*answer));
                }
            }
        }
        (out.len() <= IDENTITY_BYTES_MAX).then_some(out)
    }

    /// The identity of these bytes. `None` if they aren't one of this version as a whole. Questions that the other node has no
    /// answer to stay without one here: there is nobody to ask.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if bytes.len() > IDENTITY_BYTES_MAX || from.u8()? != VERSION {
            return None;
        }
        let (name, backend) = (from.text()?, from.text()?);
        let ends_ms = from.optional(Reader::u64)?;
        let tags = from.list(Reader::text)?;
        let grants = match from.u8()? {
            MODEL => Grants::Model,
            SCOPES => Grants::Scopes(Scopes::new(from.list(rule)?)),
            ASKED => Grants::Asked(AskedGrants::new(from.list(|from| Some((question(from)?, from.bool()?)))?)),
            _ => return None,
        };
        if !from.0.is_empty() {
            return None;
        }
        Some(Self::of(name, Brought { tags, grants, ends_ms, backend }))
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn count(out: &mut Vec<u8>, count: usize) {
    // A greater count is over the limit of the whole, which isn't encoded.
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

fn optional<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_glob(out: &mut Vec<u8>, glob: &Glob) {
    count(out, glob.pieces().len());
    glob.pieces().iter().for_each(|piece| text(out, piece));
}

fn put_rule(out: &mut Vec<u8>, rule: &ScopeRule) {
    out.push(code(rule.right));
    put_glob(out, &rule.vhost);
    put_glob(out, &rule.name);
    optional(out, rule.routing_key.as_ref(), put_glob);
}

fn put_question(out: &mut Vec<u8>, question: &GrantQuestion) {
    match question {
        GrantQuestion::Enter { vhost } => {
            out.push(ENTER);
            text(out, vhost);
        }
        GrantQuestion::Resource { vhost, is_queue, name, right } => {
            out.push(if *is_queue { QUEUE } else { EXCHANGE });
            text(out, vhost);
            text(out, name);
            out.push(code(*right));
        }
        GrantQuestion::Topic { vhost, exchange, routing_key, right, client_id } => {
            out.push(TOPIC);
            text(out, vhost);
            text(out, exchange);
            text(out, routing_key);
            out.push(code(*right));
            optional(out, client_id.as_deref(), text);
        }
    }
}

fn code(right: Right) -> u8 {
    match right {
        Right::Configure => 0,
        Right::Write => 1,
        Right::Read => 2,
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u8(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*first))
    }

    /// A count or a length. Each of what is counted has a byte at least.
    fn count(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u32::from_be_bytes(*first)).ok().filter(|count| *count <= rest.len())
    }

    fn text<T: for<'a> From<&'a str>>(&mut self) -> Option<T> {
        let length = self.count()?;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(first).ok().map(T::from)
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.bool()? {
            true => read(self).map(Some),
            false => Some(None),
        }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn right(&mut self) -> Option<Right> {
        [Right::Configure, Right::Write, Right::Read].get(usize::from(self.u8()?)).copied()
    }

    fn glob(&mut self) -> Option<Glob> {
        let pieces = self.list(Reader::text)?;
        (!pieces.is_empty()).then(|| Glob::of_pieces(pieces))
    }
}

fn rule(from: &mut Reader<'_>) -> Option<ScopeRule> {
    let right = from.right()?;
    Some(ScopeRule { right, vhost: from.glob()?, name: from.glob()?, routing_key: from.optional(Reader::glob)? })
}

fn question(from: &mut Reader<'_>) -> Option<GrantQuestion> {
    let kind = from.u8()?;
    let vhost = from.text()?;
    Some(match kind {
        ENTER => GrantQuestion::Enter { vhost },
        QUEUE | EXCHANGE => {
            GrantQuestion::Resource { vhost, is_queue: kind == QUEUE, name: from.text()?, right: from.right()? }
        }
        TOPIC => GrantQuestion::Topic {
            vhost,
            exchange: from.text()?,
            routing_key: from.text()?,
            right: from.right()?,
            client_id: from.optional(Reader::text)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::identity::GrantAnswer;

    fn glob(pattern: &str) -> Glob {
        Glob::parse(pattern).expect("is a pattern")
    }

    fn examples() -> Vec<Identity> {
        let key = Some(glob("a.*"));
        let rules = vec![
            ScopeRule { right: Right::Write, vhost: glob("*"), name: glob("q*x"), routing_key: None },
            ScopeRule { right: Right::Read, vhost: glob("%2F"), name: glob(""), routing_key: key },
        ];
        let asked = AskedGrants::default();
        let (vhost, name): (Arc<str>, Arc<str>) = ("/".into(), "q".into());
        asked.note(GrantQuestion::enter("/"), GrantAnswer::Granted);
        for is_queue in [false, true] {
            let (vhost, name, right) = (vhost.clone(), name.clone(), Right::Configure);
            asked.note(GrantQuestion::Resource { vhost, is_queue, name, right }, GrantAnswer::Refused);
        }
        for client_id in [None, Some("c".into())] {
            let (exchange, routing_key, right) = ("amq.topic".into(), "a.b".into(), Right::Read);
            let topic = GrantQuestion::Topic { vhost: vhost.clone(), exchange, routing_key, right, client_id };
            asked.note(topic, GrantAnswer::Granted);
        }
        let tags = || vec!["management".into(), "é".into()];
        vec![
            Identity::of_model("guest"),
            Identity::of_model("guest").ending_at(u64::MAX),
            Identity::new("guest", Vec::new(), Grants::Model, "ldap"),
            Identity::new("client", tags(), Grants::Scopes(Scopes::new(rules)), "oauth2").ending_at(1),
            Identity::new("", tags(), Grants::Scopes(Scopes::default()), ""),
            Identity::new("cn=x", Vec::new(), Grants::Asked(asked), "ldap"),
        ]
    }

    #[test]
    fn an_identity_is_read_back_as_it_was_written() {
        for identity in examples() {
            let bytes = identity.encode().expect("is short");
            assert_eq!(Identity::decode(&bytes), Some(identity));
            for length in 0..bytes.len() {
                assert_eq!(Identity::decode(&bytes[..length]), None, "{length} of {bytes:?}");
            }
            assert_eq!(Identity::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(Identity::decode(&[&[2], &bytes[1..]].concat()), None, "another version");
        }
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        let rule = ScopeRule { right: Right::Read, vhost: glob("v*"), name: glob("q"), routing_key: Some(glob("k")) };
        let identity =
            Identity::new("n", vec!["t".into()], Grants::Scopes(Scopes::new(vec![rule])), "b").ending_at(258);
        let expected = [
            &b"\x01\0\0\0\x01n\0\0\0\x01b\x01\0\0\0\0\0\0\x01\x02\0\0\0\x01\0\0\0\x01t\x01\0\0\0\x01"[..],
            b"\x02\0\0\0\x02\0\0\0\x01v\0\0\0\0\0\0\0\x01\0\0\0\x01q\x01\0\0\0\x01\0\0\0\x01k",
        ];
        assert_eq!(identity.encode(), Some(expected.concat()));
    }

    #[test]
    fn a_count_beyond_the_bytes_is_refused() {
        let wrong = b"\x01\0\0\0\x01n\0\0\0\x01b\0\xff\xff\xff\xff";
        assert_eq!(Identity::decode(wrong), None);
    }

    #[test]
    fn an_identity_that_is_too_long_is_not_encoded() {
        let name = "x".repeat(IDENTITY_BYTES_MAX);
        assert_eq!(Identity::of_model(name).encode(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(which in 0_usize..6, at in 0_usize..200, byte: u8) {
            let mut bytes = examples()[which].encode().expect("is short");
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Some(read) = Identity::decode(&bytes) {
                prop_assert_eq!(Identity::decode(&read.encode().expect("is short")), Some(read));
            }
        }
    }
}
