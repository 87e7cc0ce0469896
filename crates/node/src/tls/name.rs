//! Distinguished names as texts: in the form of RFC 4514, with RabbitMQ's additional escapes, since users have these
//! names.

use std::fmt::Write;

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::{Any, Encode, Tag, Tagged};
use x509_cert::name::RdnSequence;

/// The number of CN.
const COMMON_NAME: &str = "2.5.4.3";

/// Names of attributes; others are shown by their numbers.
const NAMES: [(&str, &str); 17] = [
    (COMMON_NAME, "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
];

/// The name with its last part first, as in RFC 4514.
pub(super) fn distinguished_name(name: &RdnSequence) -> String {
    let parts = name.0.iter().rev();
    let parts = parts.map(|part| part.0.iter().map(attribute).collect::<Vec<_>>().join("+"));
    parts.collect::<Vec<_>>().join(",")
}

/// All common names, joined by commas; none if there is none, or one is no text.
pub(super) fn common_names(name: &RdnSequence) -> Option<String> {
    let attributes = name.0.iter().flat_map(|part| part.0.iter());
    let names = attributes.filter(|attribute| attribute.oid.to_string() == COMMON_NAME);
    let names: Vec<String> = names.map(|attribute| text(&attribute.value)).collect::<Option<_>>()?;
    (!names.is_empty()).then(|| names.join(","))
}

/// The text of a value; none if it is no text.
pub(super) fn text(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
            String::from_utf8(bytes.to_vec()).ok()
        }
        // Its escapes aren't used in practice: it is read as Latin 1, as by RabbitMQ and OpenSSL.
        Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString if bytes.len().is_multiple_of(2) => {
            let units = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

fn attribute(attribute: &AttributeTypeAndValue) -> String {
    let number = attribute.oid.to_string();
    let name = NAMES.iter().find(|(known, _)| *known == number).map_or(&*number, |(_, name)| name);
    match text(&attribute.value) {
        Some(text) => format!("{name}={}", escaped(&text)),
        // A value that is no text is shown by its encoding, as in RFC 4514.
        None => {
            let bytes = attribute.value.to_der().unwrap_or_default();
            bytes.iter().fold(format!("{name}=#"), |mut text, byte| {
                let _ = write!(text, "{byte:02X}");
                text
            })
        }
    }
}

/// Escapes everything that isn't printable ASCII, and `~`, in addition to RFC 4514, as RabbitMQ does.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        let special = match byte {
            b' ' => at == 0 || at == last,
            b'#' => at == 0,
            _ => b"\"+,;<>\\".contains(&byte),
        };
        match byte {
            _ if special => escaped.extend(['\\', char::from(byte)]),
            b' '..b'~' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "\\{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use x509_cert::der::asn1::SetOfVec;
    use x509_cert::name::RelativeDistinguishedName;

    use super::*;

    fn value(oid: &str, tag: Tag, bytes: &[u8]) -> AttributeTypeAndValue {
        AttributeTypeAndValue { oid: oid.parse().expect("a number"), value: Any::new(tag, bytes).expect("a value") }
    }

    fn name(parts: Vec<Vec<AttributeTypeAndValue>>) -> RdnSequence {
        let part = |values| RelativeDistinguishedName(SetOfVec::try_from(values).expect("a set"));
        RdnSequence(parts.into_iter().map(part).collect())
    }

    /// The results of `rabbit_cert_info:subject/1` of RabbitMQ 4.3.6 for a certificate with these names.
    #[test]
    fn names_are_rabbitmqs() {
        let utf8 = |oid, text: &str| vec![value(oid, Tag::Utf8String, text.as_bytes())];
        let name = name(vec![
            vec![value("2.5.4.6", Tag::PrintableString, b"GB")],
            utf8("2.5.4.8", "W\u{e9}les"),
            utf8("2.5.4.7", "#Here"),
            utf8("2.5.4.10", "A B + C, D; <E> F~"),
            utf8("2.5.4.11", "one"),
            utf8("2.5.4.11", "two"),
            utf8("2.5.4.3", "client one"),
            vec![value("1.2.840.113549.1.9.1", Tag::Ia5String, b"a@b.c")],
            vec![value("0.9.2342.19200300.100.1.25", Tag::Ia5String, b"org")],
            vec![value("2.5.4.5", Tag::PrintableString, b"77")],
            utf8("2.5.4.12", "dr"),
        ]);
        let expected = r"TITLE=dr,SERIALNUMBER=77,DC=org,EMAILADDRESS=a@b.c,CN=client one,OU=two,OU=one,O=A B \+ C\, D\; \<E\> F\7E,L=\#Here,ST=W\C3\A9les,C=GB";
        assert_eq!(distinguished_name(&name), expected);
        assert_eq!(common_names(&name).as_deref(), Some("client one"));
    }

    #[test]
    fn several_values_of_a_part_and_several_common_names_are_joined() {
        let utf8 = |oid, text: &str| value(oid, Tag::Utf8String, text.as_bytes());
        let name = name(vec![
            vec![utf8("2.5.4.10", "x"), utf8("2.5.4.11", "y")],
            vec![utf8("2.5.4.3", "a")],
            vec![utf8("2.5.4.3", "b,")],
        ]);
        assert_eq!(distinguished_name(&name), r"CN=b\,,CN=a,O=x+OU=y");
        assert_eq!(common_names(&name).as_deref(), Some("a,b,"));
    }

    #[test]
    fn all_kinds_of_text_are_read_other_values_are_shown_encoded() {
        let of = |tag, bytes: &[u8]| distinguished_name(&name(vec![vec![value("2.5.4.3", tag, bytes)]]));
        assert_eq!(of(Tag::TeletexString, b"\xe9"), r"CN=\C3\A9");
        assert_eq!(of(Tag::BmpString, &[0, b'a', 0x03, 0xbb]), r"CN=a\CE\BB");
        assert_eq!(of(Tag::Utf8String, b" a "), r"CN=\ a\ ");
        assert_eq!(of(Tag::Utf8String, b" "), r"CN=\ ");
        assert_eq!(of(Tag::Utf8String, b"a\0\n"), r"CN=a\00\0A");
        assert_eq!(of(Tag::OctetString, b"\x07"), "CN=#040107");
        let unknown = name(vec![vec![value("2.5.4.15", Tag::Utf8String, b"z")]]);
        assert_eq!(distinguished_name(&unknown), "2.5.4.15=z");
        assert_eq!(common_names(&unknown), None);
    }
}
