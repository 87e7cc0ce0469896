//! UUIDs as text: in the URN form of RFC 4122, section 3.

const URN_UUID: &str = "urn:uuid:";

/// `urn:uuid:` and the UUID in lower-case groups.
pub(crate) fn text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(URN_UUID.len() + 36);
    text.push_str(URN_UUID);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("under 16"));
        }
    }
    text
}

/// The UUID in a text of this form.
pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix(URN_UUID)?.as_bytes();
    let mut uuid = [0; 16];
    let mut at = 0;
    for (place, byte) in uuid.iter_mut().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            if text.get(at) != Some(&b'-') {
                return None;
            }
            at += 1;
        }
        for digit in text.get(at..at + 2)? {
            *byte = *byte << 4 | char::from(*digit).to_digit(16)? as u8;
        }
        at += 2;
    }
    (at == text.len()).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_come_back() {
        let urn = "urn:uuid:10111213-1415-1617-1819-1a1b1c1d1e1f";
        let bytes = std::array::from_fn(|at| at as u8 + 16);
        assert_eq!(parse(urn), Some(bytes));
        assert_eq!(text(&bytes), urn);
        assert_eq!(parse(&urn[..urn.len() - 1]), None);
        assert_eq!(parse(&format!("{urn}0")), None);
        assert_eq!(parse(&urn.replace('-', ":")), None);
        assert_eq!(parse(&urn.replace("uuid:1", "uuid:g")), None);
    }
}
