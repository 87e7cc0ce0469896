use crate::tls::Tls;

/// Address and protocol of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// `log.syslog.host` or `log.syslog.ip`.
    pub host: String,
    /// `log.syslog.port`; `None`: 6514 with TLS, 514 without.
    pub port: Option<u16>,
    /// `log.syslog.transport`.
    pub transport: Transport,
    /// `log.syslog.protocol`; `None`: RFC 5424 with TLS, RFC 3164 without.
    pub protocol: Option<SyslogProtocol>,
    /// `log.syslog.identity`.
    pub identity: String,
    /// `log.syslog.facility`.
    pub facility: Facility,
    /// `log.syslog.multiline_mode`: whether a message of several lines is one datagram rather than one per line.
    pub multiline: bool,
    /// `log.syslog.ssl_options.*`: `cacertfile` has the roots of the server's certificate here.
    pub tls: Tls,
}

impl Default for Syslog {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: None,
            transport: Transport::Udp,
            protocol: None,
            identity: "rabbitmq-server".to_owned(),
            facility: Facility(3),
            multiline: false,
            tls: Tls { verify_peer: true, ..Tls::default() },
        }
    }
}

impl Syslog {
    /// The port in effect.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.transport == Transport::Tls { 6514 } else { 514 })
    }

    /// The protocol in effect.
    pub fn protocol(&self) -> SyslogProtocol {
        let default = if self.transport == Transport::Tls { SyslogProtocol::Rfc5424 } else { SyslogProtocol::Rfc3164 };
        self.protocol.unwrap_or(default)
    }

    /// Refuses contradicting keys; the error names the second of them.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (self.transport, self.protocol) {
            (Transport::Tls, Some(SyslogProtocol::Rfc3164)) => {
                Err("rfc3164 doesn't go with TLS, use rfc5424".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// The transport of syslog messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram per line (RFC 5426).
    Udp,
    /// Framed by their length (RFC 6587, 3.4.1).
    Tcp,
    /// Framed by their length, with TLS (RFC 5425).
    Tls,
}

impl Transport {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "udp" => Ok(Transport::Udp),
            "tcp" => Ok(Transport::Tcp),
            "tls" | "ssl" => Ok(Transport::Tls),
            other => Err(format!("'{other}' is none of udp, tcp and tls")),
        }
    }
}

/// The format of syslog messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogProtocol {
    /// RFC 3164, the old format.
    Rfc3164,
    /// RFC 5424, the new format.
    Rfc5424,
}

impl SyslogProtocol {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "rfc3164" => Ok(SyslogProtocol::Rfc3164),
            "rfc5424" => Ok(SyslogProtocol::Rfc5424),
            other => Err(format!("'{other}' is neither rfc3164 nor rfc5424")),
        }
    }
}

/// The number of a facility (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(pub u8);

impl Facility {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        const NAMES: [&str; 24] = [
            "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
            "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
            "local7",
        ];
        let name = if name == "kernel" { "kern" } else { name };
        let number = NAMES.iter().position(|known| *known == name);
        number
            .map(|number| Facility(number as u8))
            .ok_or_else(|| format!("'{name}' is no facility of syslog; there are {}", NAMES.join(", ")))
    }
}
