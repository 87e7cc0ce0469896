//! Clients that connected to the wrong port: their protocol, and an answer in it.

/// A known protocol that isn't AMQP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// An HTTP request.
    Http,
    /// The hello of a TLS client on a port without TLS.
    Tls,
}

/// The beginnings of requests.
const METHODS: [&[u8]; 7] = [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH "];

impl Foreign {
    /// Recognises it by the first eight bytes, or fewer if less was received, but at least five.
    pub fn recognise(input: &[u8]) -> Option<Self> {
        match input {
            // A handshake record of any version (RFC 8446, 5.1).
            [0x16, 0x03, _, _, _, ..] => Some(Self::Tls),
            _ => METHODS.iter().any(|method| input.starts_with(method)).then_some(Self::Http),
        }
    }

    /// An answer that such a client understands. `http` is the port of the HTTP API, `local` the one that it connected to.
    pub fn answer(self, local: u16, http: Option<u16>) -> Vec<u8> {
        match self {
            // A fatal alert: protocol_version (RFC 8446, 6).
            Self::Tls => vec![0x15, 0x03, 0x03, 0, 2, 2, 70],
            Self::Http => {
                let where_to = match http {
                    Some(port) => format!("the HTTP API listens on port {port}"),
                    None => "the HTTP API isn't there".to_owned(),
                };
                let text = format!("Port {local} speaks AMQP, not HTTP; {where_to}.\n");
                format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nx-content-type-options: nosniff\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                    text.len()
                )
                .into_bytes()
            }
        }
    }

    /// The reason for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Http => "a client speaks HTTP on a port for AMQP; it was told the port of the HTTP API",
            Self::Tls => "a client speaks TLS on a port without TLS; listeners.ssl.* are the ports with it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_and_http_are_recognised_and_amqp_headers_are_not() {
        assert_eq!(Foreign::recognise(&[0x16, 3, 1, 2, 0, 1]), Some(Foreign::Tls));
        assert_eq!(Foreign::recognise(b"GET /api"), Some(Foreign::Http));
        for other in [&b"AMQP\0\0\x09\x01"[..], b"AMQP\x03\x01\0\0", b"HELO", b"", &[0x16, 9]] {
            assert_eq!(Foreign::recognise(other), None);
        }
    }

    #[test]
    fn the_answer_names_the_port() {
        let text = String::from_utf8(Foreign::Http.answer(5672, Some(15672))).expect("a text");
        assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("port 15672"), "{text}");
    }
}
