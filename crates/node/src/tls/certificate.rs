//! The contents of a client's certificate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use leveret_broker::PeerCertificate;
use leveret_config::{AlternativeName, CertificateLogin, CertificateName};
use rustls::pki_types::CertificateDer;
use tracing::warn;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Validity;

use super::name::{common_names, distinguished_name, text};

/// Reads a verified certificate. A certificate that can't be read names no user.
pub(super) fn read(shown: &CertificateDer<'_>, login: CertificateLogin) -> PeerCertificate {
    let certificate = match Certificate::from_der(shown) {
        Ok(certificate) => certificate,
        Err(reason) => {
            warn!("cannot read the certificate of a client: {reason}");
            return PeerCertificate::default();
        }
    };
    let content = &certificate.tbs_certificate;
    PeerCertificate {
        subject: distinguished_name(&content.subject),
        issuer: distinguished_name(&content.issuer),
        validity: validity(&content.validity),
        serial_number: hexadecimal(content.serial_number.as_bytes()),
        user: user(&certificate, login).filter(|name| !name.is_empty()),
    }
}

fn user(certificate: &Certificate, login: CertificateLogin) -> Option<String> {
    let content = &certificate.tbs_certificate;
    match login.from {
        CertificateName::DistinguishedName => Some(distinguished_name(&content.subject)),
        CertificateName::CommonName => common_names(&content.subject),
        CertificateName::SubjectAlternativeName => {
            let (_, names) = content.get::<SubjectAltName>().ok()??;
            names
                .0
                .iter()
                .filter(|name| type_of(name) == Some(login.san_type))
                .nth(login.san_index)
                .and_then(alternative)
        }
    }
}

fn type_of(name: &GeneralName) -> Option<AlternativeName> {
    match name {
        GeneralName::DnsName(_) => Some(AlternativeName::Dns),
        GeneralName::IpAddress(_) => Some(AlternativeName::Ip),
        GeneralName::Rfc822Name(_) => Some(AlternativeName::Email),
        GeneralName::UniformResourceIdentifier(_) => Some(AlternativeName::Uri),
        GeneralName::OtherName(_) => Some(AlternativeName::Other),
        GeneralName::DirectoryName(_) | GeneralName::EdiPartyName(_) | GeneralName::RegisteredId(_) => None,
    }
}

fn alternative(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) | GeneralName::Rfc822Name(name) | GeneralName::UniformResourceIdentifier(name) => {
            Some(name.to_string())
        }
        GeneralName::IpAddress(address) => {
            let four = || <[u8; 4]>::try_from(address.as_bytes()).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
            let sixteen =
                || <[u8; 16]>::try_from(address.as_bytes()).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
            four().or_else(sixteen).map(|address| address.to_string())
        }
        GeneralName::OtherName(other) => text(&other.value),
        GeneralName::DirectoryName(_) | GeneralName::EdiPartyName(_) | GeneralName::RegisteredId(_) => None,
    }
}

fn validity(validity: &Validity) -> String {
    format!("{} - {}", validity.not_before.to_date_time(), validity.not_after.to_date_time())
}

/// A number in hexadecimal, without leading zeros.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, Ia5String, KeyPair, SanType, SerialNumber, date_time_ymd};

    use super::*;

    fn certificate(names: Vec<SanType>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::OrganizationName, "Hares, Ltd");
        params.distinguished_name.push(DnType::CommonName, "one");
        params.serial_number = Some(SerialNumber::from(vec![0x0a, 0xbc]));
        (params.not_before, params.not_after) = (date_time_ymd(2024, 2, 29), date_time_ymd(2199, 12, 31));
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    fn names() -> Vec<SanType> {
        let ia5 = |text: &str| Ia5String::try_from(text).expect("ASCII");
        vec![
            SanType::DnsName(ia5("a.example")),
            SanType::Rfc822Name(ia5("one@b.example")),
            SanType::DnsName(ia5("c.example")),
            SanType::URI(ia5("urn:one")),
            SanType::IpAddress("10.1.2.3".parse().expect("an address")),
            SanType::IpAddress("fe80::1".parse().expect("an address")),
            SanType::OtherName((vec![1, 3, 6, 1, 4, 1, 311, 20, 2, 3], "one@REALM".into())),
        ]
    }

    fn user_of(
        names: Vec<SanType>,
        from: CertificateName,
        san_type: AlternativeName,
        san_index: usize,
    ) -> Option<String> {
        read(&certificate(names), CertificateLogin { from, san_type, san_index }).user
    }

    #[test]
    fn the_fields_for_listings_are_read() {
        let read = read(&certificate(Vec::new()), CertificateLogin::default());
        assert_eq!((&*read.subject, &*read.issuer), ("O=Hares\\, Ltd,CN=one", "O=Hares\\, Ltd,CN=one"));
        assert_eq!(read.validity, "2024-02-29T00:00:00Z - 2199-12-31T00:00:00Z");
        assert_eq!(read.serial_number, "ABC");
        assert_eq!(read.user, Some(read.subject));
    }

    #[test]
    fn the_configured_name_is_the_users() {
        use AlternativeName::{Dns, Email, Ip, Other, Uri};
        assert_eq!(user_of(names(), CertificateName::CommonName, Dns, 0).as_deref(), Some("one"));
        let cases = [
            (Dns, 0, Some("a.example")),
            (Dns, 1, Some("c.example")),
            (Dns, 2, None),
            (Email, 0, Some("one@b.example")),
            (Uri, 0, Some("urn:one")),
            (Ip, 0, Some("10.1.2.3")),
            (Ip, 1, Some("fe80::1")),
            (Other, 0, Some("one@REALM")),
        ];
        for (san_type, index, expected) in cases {
            let user = user_of(names(), CertificateName::SubjectAlternativeName, san_type, index);
            assert_eq!(user.as_deref(), expected, "{san_type:?} {index}");
        }
        assert_eq!(user_of(Vec::new(), CertificateName::SubjectAlternativeName, Dns, 0), None);
    }

    #[test]
    fn an_invalid_certificate_names_no_user() {
        assert_eq!(read(&CertificateDer::from(vec![0x30, 3, 1, 2, 3]), CertificateLogin::default()).user, None);
    }
}
