//! The keys of listeners with TLS, the same after each of three prefixes.

use super::Key;
use super::working::{key, listener, none, port};
use crate::config::Config;
use crate::tls::{AlternativeName, CertificateName, CrlCheck, Tls, TlsEndpoint, TlsVersion};
use crate::units::{boolean, integer, milliseconds};

/// RabbitMQ's port of the HTTP API with TLS.
const MANAGEMENT_PORT: u16 = 15671;
const PROMETHEUS_PORT: u16 = 15691;

fn amqp(config: &mut Config) -> &mut Tls {
    &mut config.ssl_options
}

pub(super) fn management(config: &mut Config) -> &mut TlsEndpoint {
    config.management_ssl.get_or_insert_with(|| TlsEndpoint::on(MANAGEMENT_PORT))
}

pub(super) fn prometheus(config: &mut Config) -> &mut TlsEndpoint {
    config.prometheus_ssl.get_or_insert_with(|| TlsEndpoint::on(PROMETHEUS_PORT))
}

fn management_tls(config: &mut Config) -> &mut Tls {
    &mut management(config).tls
}

fn prometheus_tls(config: &mut Config) -> &mut Tls {
    &mut prometheus(config).tls
}

/// The name of a file; whether it is readable is checked when the node starts.
pub(super) fn file(value: &str) -> Result<Option<String>, String> {
    if value.is_empty() { Err("must name a file".to_owned()) } else { Ok(Some(value.to_owned())) }
}

fn verify(value: &str) -> Result<bool, String> {
    match value {
        "verify_peer" => Ok(true),
        "verify_none" => Ok(false),
        other => Err(format!("'{other}' is neither verify_peer nor verify_none")),
    }
}

pub(super) fn version(value: &str) -> Result<TlsVersion, String> {
    match value {
        "tlsv1.3" => Ok(TlsVersion::V13),
        "tlsv1.2" => Ok(TlsVersion::V12),
        "tlsv1.1" | "tlsv1" => Err(format!("'{value}' is no longer safe and isn't spoken; use tlsv1.3 and tlsv1.2")),
        other => Err(format!("'{other}' is no version of TLS; there are tlsv1.3 and tlsv1.2")),
    }
}

/// The keys after `$prefix`, which set fields of `$tls`.
macro_rules! options {
    ($prefix:literal, $tls:expr) => {
        [
            key(
                concat!($prefix, ".certfile"),
                "file",
                "",
                "the certificate and its intermediate certificates, in PEM",
                |config, _, value| {
                    $tls(config).certfile = file(value)?;
                    Ok(())
                },
            ),
            key(concat!($prefix, ".keyfile"), "file", "", "its private key in PEM", |config, _, value| {
                $tls(config).keyfile = file(value)?;
                Ok(())
            }),
            key(
                concat!($prefix, ".password"),
                "text",
                "",
                "passphrase of the private key",
                |config, _, value| {
                    $tls(config).password = Some(value.to_owned());
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".cacertfile"),
                "file",
                "",
                "the roots of clients' certificates in PEM",
                |config, _, value| {
                    $tls(config).cacertfile = file(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".verify"),
                "verify_none, verify_peer",
                "verify_none",
                "whether a client's certificate is requested and verified",
                |config, _, value| {
                    $tls(config).verify_peer = verify(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".fail_if_no_peer_cert"),
                "boolean",
                "false",
                "whether a client without a certificate is refused",
                |config, _, value| {
                    $tls(config).fail_if_no_peer_cert = boolean(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".depth"),
                "integer",
                "10",
                "number of intermediate certificates that a client's chain may have",
                |config, _, value| {
                    $tls(config).depth = integer(value, 0, 255)? as u8;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".versions.$n"),
                "tlsv1.3, tlsv1.2",
                "both",
                "a version of TLS that is enabled",
                |config, name, value| {
                    let version = version(value)?;
                    $tls(config).versions.insert(name.to_owned(), version);
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".ciphers.$n"),
                "name",
                "all",
                "a cipher suite that may be used, by OpenSSL's or IANA's name; the order counts with honor_cipher_order",
                |config, name, value| {
                    $tls(config).ciphers.insert(name.to_owned(), value.to_owned());
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".honor_cipher_order"),
                "boolean",
                "true",
                "whether the server's order of cipher suites decides, not the client's",
                |config, _, value| {
                    $tls(config).honor_cipher_order = boolean(value)?;
                    Ok(())
                },
            ),
        ]
    };
}

/// Options of listeners for AMQP.
pub(super) const AMQP: &[Key] = &options!("ssl_options", amqp);
/// Options of the HTTP API.
pub(super) const MANAGEMENT: &[Key] = &options!("management.ssl", management_tls);
/// Options of the metrics.
pub(super) const PROMETHEUS: &[Key] = &options!("prometheus.ssl", prometheus_tls);

/// The listeners with TLS.
pub(super) const LISTENERS: &[Key] = &[
    key(
        "ssl_options.crl_check",
        "false, peer, best_effort, true",
        "false",
        "whether client certificates are checked for revocation: peer checks the client's own, best_effort the chain as far as there are lists, true the whole chain",
        |config, _, value| {
            config.ssl_options.crl_check = match value {
                "false" => CrlCheck::Off,
                "peer" => CrlCheck::Peer,
                "best_effort" => CrlCheck::BestEffort,
                "true" => CrlCheck::Chain,
                other => return Err(format!("'{other}' is none of false, peer, best_effort and true")),
            };
            Ok(())
        },
    ),
    key("ssl_options.crl_sources.$n", "dir", "", "source of revocation lists", |config, name, value| match value {
        "dir" => {
            config.ssl_options.crl_sources.entry(name.to_owned()).or_default();
            Ok(())
        }
        "http" => {
            Err("'http' isn't there yet: let something fetch the lists into a directory, and name that".to_owned())
        }
        other => Err(format!("'{other}' is no source of lists; there is dir")),
    }),
    key(
        "ssl_options.crl_sources.$n.path",
        "path",
        "",
        "a directory with revocation lists in PEM or DER, checked for changes each second",
        |config, name, value| {
            config.ssl_options.crl_sources.entry(name.to_owned()).or_default().path = file(value)?;
            Ok(())
        },
    ),
    key("listeners.ssl", "none", "", "no listener with TLS", |config, _, value| {
        none::<()>(value)?;
        config.ssl_listeners.clear();
        Ok(())
    }),
    key("listeners.ssl.$name", "[address:]port", "", "a listener for AMQP with TLS", |config, name, value| {
        let listener = listener(value)?;
        config.ssl_listeners.insert(name.to_owned(), listener);
        Ok(())
    }),
    key(
        "ssl_handshake_timeout",
        "milliseconds",
        "5000",
        "how long a client may take for its TLS handshake",
        |config, _, value| {
            config.ssl_handshake_timeout_ms = milliseconds(value, 1)?;
            Ok(())
        },
    ),
    key(
        "ssl_cert_login_from",
        "distinguished_name, common_name, subject_alternative_name",
        "distinguished_name",
        "part of the client certificate that has the user's name, for logins with EXTERNAL",
        |config, _, value| {
            config.certificate_login.from = match value {
                "distinguished_name" => CertificateName::DistinguishedName,
                "common_name" => CertificateName::CommonName,
                "subject_alternative_name" | "subject_alt_name" => CertificateName::SubjectAlternativeName,
                _ => {
                    return Err(format!(
                        "expected distinguished_name, common_name or subject_alternative_name, got '{value}'"
                    ));
                }
            };
            Ok(())
        },
    ),
    key(
        "ssl_cert_login_san_type",
        "dns, ip, email, uri, other_name",
        "dns",
        "type of the subject alternative name that has the user's name",
        |config, _, value| {
            config.certificate_login.san_type = match value {
                "dns" => AlternativeName::Dns,
                "ip" => AlternativeName::Ip,
                "email" => AlternativeName::Email,
                "uri" => AlternativeName::Uri,
                "other_name" => AlternativeName::Other,
                _ => return Err(format!("expected dns, ip, email, uri or other_name, got '{value}'")),
            };
            Ok(())
        },
    ),
    key(
        "ssl_cert_login_san_index",
        "integer",
        "0",
        "index of that name among the names of its type, from 0",
        |config, _, value| {
            config.certificate_login.san_index = integer(value, 0, 255)? as usize;
            Ok(())
        },
    ),
    key(
        "management.ssl.port",
        "port",
        "15671",
        "port of the HTTP API with TLS; 0 for any free one",
        |config, _, value| {
            management(config).endpoint.port = port(value)?;
            Ok(())
        },
    ),
    key("management.ssl.ip", "address", "all", "address of the HTTP API with TLS", |config, _, value| {
        management(config).endpoint.ip = Some(value.to_owned());
        Ok(())
    }),
    key(
        "prometheus.ssl.port",
        "port",
        "15691",
        "port of the metrics with TLS; 0 for any free one",
        |config, _, value| {
            prometheus(config).endpoint.port = port(value)?;
            Ok(())
        },
    ),
    key("prometheus.ssl.ip", "address", "all", "address of the metrics with TLS", |config, _, value| {
        prometheus(config).endpoint.ip = Some(value.to_owned());
        Ok(())
    }),
];
