//! Other protocols on the port for nodes.

/// Beginnings of other protocols.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"AMQP", "a client of AMQP; clients connect to listeners.tcp (5672)"),
    (b"GET ", HTTP),
    (b"HEAD ", HTTP),
    (b"POST ", HTTP),
    (b"PUT ", HTTP),
    (b"DELETE ", HTTP),
    (b"OPTIONS ", HTTP),
    (b"CONNECT ", HTTP),
    (b"HTTP/", "a server of HTTP"),
    (b"PROXY ", PROXY),
    (b"\r\n\r\n\0\r\nQUIT\n", PROXY),
    (b"SSH-", "SSH"),
    (&[0x16, 3], "TLS, and this side has cluster.tls = false; set cluster.tls to the same value on all nodes"),
    (&[0x15, 3], "an alert of TLS; set cluster.tls to the same value on all nodes"),
];
const HTTP: &str = "a client of HTTP; the management API is at management.tcp.port (15672)";
const PROXY: &str = "the header of a proxy; nodes have to reach each other without one";

/// The protocol that begins with these bytes, in words, if it isn't the nodes'.
#[must_use]
pub fn describe(bytes: &[u8]) -> String {
    if let Some((_, name)) = BEGINNINGS.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return format!("it isn't a Leveret node; it speaks {name}");
    }
    // The handshake of Erlang's distribution: the length of the message, then the name, as one of two tags announces it.
    if let [0, 3..=255, b'n' | b'N', ..] = bytes {
        return "it isn't a Leveret node; it is a node of RabbitMQ, or another one of Erlang, with which Leveret forms no cluster".into();
    }
    let shown: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("it isn't a Leveret node; it begins with the bytes {}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_named() {
        for (bytes, name) in [
            (&b"AMQP\0\0\x09\x01"[..], "a client of AMQP"),
            (b"GET / HTTP/1.1\r\n", "a client of HTTP"),
            (&[0x16, 3, 1, 2, 0], "speaks TLS"),
            (&[0, 30, b'N', 0, 0], "a node of RabbitMQ"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], "begins with the bytes 01 02 03 04 05 06 07 08"),
        ] {
            let text = describe(bytes);
            assert!(text.contains(name), "{text}");
        }
    }
}
