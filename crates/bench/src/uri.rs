//! `amqp://user:password@host:port/vhost`, and `amqps` for TLS.

use crate::BenchError;

/// Address of a broker, and credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uri {
    /// Whether to use TLS.
    pub(crate) secure: bool,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) virtual_host: String,
}

impl Uri {
    pub(crate) fn parse(text: &str) -> Result<Self, BenchError> {
        let wrong = |why: &str| BenchError::Usage(format!("{text:?} is no AMQP URI: {why}"));
        let (secure, rest) = match (text.strip_prefix("amqp://"), text.strip_prefix("amqps://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(wrong("it must begin with amqp:// or amqps://")),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        let (login, address) = authority.rsplit_once('@').unwrap_or(("guest:guest", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = match address.rsplit_once(':') {
            // The colons of an IPv6 address are inside brackets.
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("the port is no number up to 65535"))?)
            }
            _ => (address, if secure { 5671 } else { 5672 }),
        };
        let decode = |part: &str| percent_decode(part).ok_or_else(|| wrong("a % isn't followed by two hex digits"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            secure,
            user: decode(user)?,
            password: decode(password)?,
            host: if host.is_empty() { "127.0.0.1".into() } else { host.into() },
            port,
            virtual_host: match path {
                None | Some("") => "/".into(),
                Some(path) => decode(path)?,
            },
        })
    }

    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::Uri;

    #[test]
    fn parts_and_defaults() {
        let uri = Uri::parse("amqp://me:p%40ss@broker:5673/a%2Fb").unwrap();
        assert_eq!((uri.user.as_str(), uri.password.as_str()), ("me", "p@ss"));
        assert_eq!((uri.address().as_str(), uri.virtual_host.as_str()), ("broker:5673", "a/b"));
        let uri = Uri::parse("amqp://127.0.0.1").unwrap();
        assert_eq!(
            (uri.user.as_str(), uri.address().as_str(), uri.virtual_host.as_str()),
            ("guest", "127.0.0.1:5672", "/")
        );
        assert_eq!(Uri::parse("amqp://[::1]:1/").unwrap().address(), "[::1]:1");
        let tls = Uri::parse("amqps://broker").unwrap();
        assert!(tls.secure && tls.address() == "broker:5671", "{tls:?}");
    }

    #[test]
    fn malformed_uris_have_specific_errors() {
        assert!(Uri::parse("http://x").unwrap_err().to_string().contains("must begin with amqp://"));
        assert!(Uri::parse("amqp://x:70000").unwrap_err().to_string().contains("port"));
        assert!(Uri::parse("amqp://a%zz@x").is_err());
    }
}
