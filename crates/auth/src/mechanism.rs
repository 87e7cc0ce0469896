/// A SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// PLAIN, RFC 4616.
    Plain,
    /// AMQPLAIN of 0-9-1: a field table with LOGIN and PASSWORD.
    AmqPlain,
}

impl Mechanism {
    /// The mechanisms that connection.start offers, in RabbitMQ's order.
    pub const ALL: [Mechanism; 2] = [Mechanism::AmqPlain, Mechanism::Plain];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::AmqPlain => "AMQPLAIN",
        }
    }

    /// The mechanism of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

/// A peer's response to a mechanism.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// The bytes of a PLAIN response: authorization identity, user and password separated by NULs.
    Plain(&'a [u8]),
    /// LOGIN and PASSWORD of an AMQPLAIN response; the session parsed the table.
    AmqPlain {
        /// The user.
        login: &'a [u8],
        /// The password.
        password: &'a [u8],
    },
    /// User and password from another source, such as HTTP basic authentication.
    Basic {
        /// The user.
        user: &'a str,
        /// The password.
        password: &'a [u8],
    },
}

impl<'a> Response<'a> {
    /// The name of the mechanism in texts.
    pub(crate) fn mechanism(&self) -> &'static str {
        match self {
            Response::Plain(_) => Mechanism::Plain.name(),
            Response::AmqPlain { .. } => Mechanism::AmqPlain.name(),
            Response::Basic { .. } => "Basic",
        }
    }

    /// User and password, if the response is well-formed.
    pub fn parse(&self) -> Option<(&'a str, &'a [u8])> {
        let (user, password) = match *self {
            Response::Plain(bytes) => {
                let mut parts = bytes.split(|byte| *byte == 0);
                let (authorization, user, password) = (parts.next()?, parts.next()?, parts.next()?);
                // No user may act under another's name (RFC 4616, section 2); RabbitMQ accepts no such name at all.
                if parts.next().is_some() || !(authorization.is_empty() || authorization == user) {
                    return None;
                }
                (user, password)
            }
            Response::AmqPlain { login, password } => (login, password),
            Response::Basic { user, password } => (user.as_bytes(), password),
        };
        Some((std::str::from_utf8(user).ok()?, password))
    }
}

/// Hides the password, so that it never gets into a log.
impl std::fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Response({})", self.mechanism())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_has_three_parts() {
        assert_eq!(Response::Plain(b"\0u\0p").parse(), Some(("u", &b"p"[..])));
        assert_eq!(Response::Plain(b"u\0u\0").parse(), Some(("u", &b""[..])));
        for malformed in [&b""[..], b"id\0u\0p", b"u", b"u\0p", b"\0u\0p\0x", b"\0\xff\0p"] {
            assert_eq!(Response::Plain(malformed).parse(), None, "{malformed:?}");
        }
    }

    #[test]
    fn no_password_is_printed() {
        assert_eq!(format!("{:?}", Response::Plain(b"\0u\0secret")), "Response(PLAIN)");
    }
}
