//! Host names of addresses: the messages and files of the domain name system, as far as one question needs them.
//!
//! The system's own look-up of an address is a function of the C library, which Rust's library doesn't call. So the question goes to the
//! system's name servers from here (RFC 1035), after a look at its file of hosts.

use core::net::IpAddr;
use std::fmt;

/// Type of records with the name of an address.
const PTR: u16 = 12;
/// Class of the internet.
const IN: u16 = 1;
const HEAD_BYTES: usize = 12;
/// Most bytes of a name, and of its text.
const NAME_BYTES_MAX: usize = 255;
/// Most jumps in a compressed name, each of which goes back.
const JUMPS_MAX: usize = 16;

/// An answer that says nothing about the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReverseError {
    /// It isn't the answer to this question.
    Foreign,
    /// It is cut or wrong.
    Malformed,
    /// The server couldn't answer, with this code.
    Failed(u8),
}

impl fmt::Display for ReverseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReverseError::Foreign => f.write_str("an answer to another question"),
            ReverseError::Malformed => f.write_str("a malformed answer"),
            ReverseError::Failed(code) => write!(f, "the name server failed with code {code}"),
        }
    }
}

impl std::error::Error for ReverseError {}

/// The question for the name of an address.
#[must_use]
pub fn reverse_question(id: u16, address: IpAddr) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    // A question that the server may pass on, and one of them.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let mut label = |text: &str| {
        message.push(text.len() as u8);
        message.extend_from_slice(text.as_bytes());
    };
    match address {
        IpAddr::V4(address) => {
            address.octets().iter().rev().for_each(|byte| label(&byte.to_string()));
            label("in-addr");
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.for_each(|nibble| label(&format!("{nibble:x}")));
            label("ip6");
        }
    }
    label("arpa");
    message.extend([0, 0, PTR as u8, 0, IN as u8]);
    message
}

/// The name in the answer to a question; `None` if the address has none.
///
/// # Errors
/// It isn't the answer to this question, or isn't one at all, or the server failed.
pub fn reverse_answer(question: &[u8], answer: &[u8]) -> Result<Option<String>, ReverseError> {
    let question_end = question.len();
    let is_ours = answer.len() >= question_end
        && question_end > HEAD_BYTES
        && answer[..2] == question[..2]
        && answer[2] & 0x80 != 0
        && answer[4..6] == [0, 1]
        && answer[HEAD_BYTES..question_end].eq_ignore_ascii_case(&question[HEAD_BYTES..]);
    if !is_ours {
        return Err(ReverseError::Foreign);
    }
    match answer[3] & 15 {
        0 => {}
        // There is no such name.
        3 => return Ok(None),
        code => return Err(ReverseError::Failed(code)),
    }
    let count = u16::from_be_bytes([answer[6], answer[7]]);
    let mut at = question_end;
    for _ in 0..count {
        at = name(answer, at).ok_or(ReverseError::Malformed)?.1;
        let head = answer.get(at..at + 10).ok_or(ReverseError::Malformed)?;
        let (kind, class) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
        let data = at + 10;
        at = data + usize::from(u16::from_be_bytes([head[8], head[9]]));
        if at > answer.len() {
            return Err(ReverseError::Malformed);
        }
        if (kind, class) == (PTR, IN) {
            let (text, end) = name(answer, data).ok_or(ReverseError::Malformed)?;
            return if end == at && is_host(&text) { Ok(Some(text)) } else { Err(ReverseError::Malformed) };
        }
    }
    Ok(None)
}

/// The name at this place of a message, and the place behind it.
fn name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut text, mut end, mut jumps) = (String::new(), None, 0);
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => return Some((text, end.unwrap_or(at + 1))),
            1..=63 => {
                let label = message.get(at + 1..at + 1 + length)?;
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(std::str::from_utf8(label).ok()?);
                at += 1 + length;
            }
            // A pointer to an earlier place.
            0xc0.. => {
                let target = (length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                end = end.or(Some(at + 2));
                jumps += 1;
                if target >= at || jumps > JUMPS_MAX {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
        if text.len() > NAME_BYTES_MAX {
            return None;
        }
    }
}

/// Whether a text can be the host in a node's name.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The name of an address in a file of hosts, the first on its line.
#[must_use]
pub fn hosts_name(hosts: &str, address: IpAddr) -> Option<String> {
    hosts.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let is_its = words.next()?.parse() == Ok(address);
        words.next().filter(|name| is_its && is_host(name)).map(str::to_owned)
    })
}

/// The name servers in a resolv.conf.
#[must_use]
pub fn nameservers(resolv_conf: &str) -> Vec<IpAddr> {
    let server = |line: &str| line.trim_start().strip_prefix("nameserver")?.trim().parse().ok();
    resolv_conf.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4() -> IpAddr {
        "10.1.2.3".parse().expect("an address")
    }

    /// An answer with a CNAME, as of a range that is less than a byte, and the name behind it, compressed.
    fn answer(question: &[u8]) -> Vec<u8> {
        let mut message = question.to_vec();
        message[2..4].copy_from_slice(&[0x81, 0x80]);
        message[7] = 2;
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'x', 0xc0, 12]);
        let tail = question.len() + 12;
        message.extend([0xc0, tail as u8, 0, 12, 0, 1, 0, 0, 0, 9, 0, 12]);
        message.extend(b"\x05mq-01\x04test\x00");
        message
    }

    #[test]
    fn the_question_has_the_address_backwards() {
        let question = reverse_question(0x0102, v4());
        assert_eq!(question, b"\x01\x02\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x013\x012\x011\x0210\x07in-addr\x04arpa\x00\x00\x0c\x00\x01");
        let question = reverse_question(0, "2001:db8::1".parse().expect("an address"));
        let text: String =
            question[12..].iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect();
        assert_eq!(text, format!("1{}8bd01002ip6arpa", "0".repeat(23)));
    }

    #[test]
    fn an_answer_has_the_name_behind_other_records() {
        let question = reverse_question(7, v4());
        let whole = answer(&question);
        assert_eq!(reverse_answer(&question, &whole), Ok(Some("mq-01.test".to_owned())));
        for length in 0..whole.len() {
            assert!(reverse_answer(&question, &whole[..length]).is_err(), "{length}");
        }
        let mut none = whole.clone();
        none[7] = 0;
        assert_eq!(reverse_answer(&question, &none), Ok(None));
        none[3] = 0x83;
        assert_eq!(reverse_answer(&question, &none), Ok(None));
        none[3] = 0x82;
        assert_eq!(reverse_answer(&question, &none), Err(ReverseError::Failed(2)));
        let other = reverse_question(8, v4());
        assert_eq!(reverse_answer(&other, &whole), Err(ReverseError::Foreign));
        assert_eq!(reverse_answer(&question, &question), Err(ReverseError::Foreign));
    }

    #[test]
    fn changed_bytes_of_an_answer_never_panic_or_loop() {
        let question = reverse_question(7, v4());
        let whole = answer(&question);
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = byte;
                if let Ok(Some(name)) = reverse_answer(&question, &changed) {
                    assert!(is_host(&name), "{name}");
                }
            }
        }
    }

    #[test]
    fn files_of_the_system_are_read() {
        let hosts = "# x\n127.0.0.1 localhost\n10.1.2.3\tmq-01.test mq-01 # me\n10.1.2.3 other\n::1 six\n10.9.9.9\n";
        assert_eq!(hosts_name(hosts, v4()).as_deref(), Some("mq-01.test"));
        assert_eq!(hosts_name(hosts, "::1".parse().expect("an address")).as_deref(), Some("six"));
        assert_eq!(hosts_name(hosts, "10.9.9.9".parse().expect("an address")), None);
        let servers =
            nameservers("search a.b\nnameserver 10.0.0.2\n nameserver\tfd00::1\nnameserver fe80::1%eth0\noptions x\n");
        assert_eq!(servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.2", "fd00::1"]);
    }
}
