//! Lists of revoked certificates (RFC 5280, 5): `crl_check` and `crl_sources`.

use std::fs;
use std::path::PathBuf;

use leveret_config::{CrlCheck, Tls as Options};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::ClientCertVerifierBuilder;

use super::files::TlsError;

/// The first byte of DER: a sequence.
const DER: u8 = 0x30;

/// Adds the check of the lists, so that certificates on them are refused, if that is configured.
///
/// # Errors
/// There is no list, or one can't be read.
pub(super) fn checked(
    builder: ClientCertVerifierBuilder,
    options: &Options,
) -> Result<ClientCertVerifierBuilder, TlsError> {
    let lists = match options.crl_check {
        CrlCheck::Off => return Ok(builder),
        CrlCheck::BestEffort => lists(options)?,
        CrlCheck::Peer | CrlCheck::Chain => {
            let lists = lists(options)?;
            if lists.is_empty() {
                // Without a list nothing would be checked, although every client should be.
                let text =
                    "crl_check asks for lists of revoked certificates, and crl_sources names no directory with one";
                return Err(TlsError::Missing(text.to_owned()));
            }
            lists
        }
    };
    let builder = builder.with_crls(lists);
    Ok(match options.crl_check {
        CrlCheck::Peer => builder.only_check_end_entity_revocation(),
        CrlCheck::BestEffort => builder.allow_unknown_revocation_status(),
        CrlCheck::Chain | CrlCheck::Off => builder,
    })
}

/// The files of all directories, by name.
pub(super) fn files(options: &Options) -> Vec<PathBuf> {
    let directories = options.crl_sources.values().filter_map(|source| source.path.as_ref());
    let mut files: Vec<PathBuf> = directories
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn lists(options: &Options) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    for (name, source) in &options.crl_sources {
        let missing =
            || TlsError::Missing(format!("crl_sources.{name}.path isn't set; it names a directory with lists"));
        let directory = source.path.as_ref().ok_or_else(missing)?;
        fs::read_dir(directory)
            .map_err(|error| TlsError::File { file: directory.clone(), reason: error.to_string() })?;
    }
    let mut lists = Vec::new();
    for path in files(options) {
        let wrong = |reason: String| TlsError::File { file: path.display().to_string(), reason };
        let bytes = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        if bytes.first() == Some(&DER) {
            lists.push(bytes.into());
            continue;
        }
        let found = CertificateRevocationListDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
        let found = found.map_err(|error| wrong(error.to_string()))?;
        if found.is_empty() {
            return Err(wrong("there is no list of revoked certificates in it".to_owned()));
        }
        lists.extend(found);
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;

    use leveret_config::CrlSource;
    use rcgen::{
        BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType, IsCa, KeyIdMethod,
        KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
    };
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::UnixTime;

    use super::super::verify::verifier;
    use super::*;

    struct Authority {
        certificate: Certificate,
        key: KeyPair,
    }

    impl Authority {
        fn new(name: &str) -> Self {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            Self { certificate: params.self_signed(&key).expect("a certificate"), key }
        }

        fn issue(&self, serial: u64) -> Certificate {
            let mut params = CertificateParams::new(["client".to_owned()]).expect("a name");
            params.serial_number = Some(SerialNumber::from(serial));
            let key = KeyPair::generate().expect("a key");
            params.signed_by(&key, &self.certificate, &self.key).expect("a certificate")
        }

        fn revoke(&self, serial: u64) -> rcgen::CertificateRevocationList {
            let revoked = RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2024, 1, 1),
                reason_code: None,
                invalidity_date: None,
            };
            let params = CertificateRevocationListParams {
                this_update: date_time_ymd(2024, 1, 1),
                next_update: date_time_ymd(2124, 1, 1),
                crl_number: SerialNumber::from(1),
                issuing_distribution_point: None,
                revoked_certs: vec![revoked],
                key_identifier_method: KeyIdMethod::Sha256,
            };
            params.signed_by(&self.certificate, &self.key).expect("a list")
        }
    }

    fn options(directory: &Path, check: CrlCheck) -> Options {
        let source = CrlSource { path: Some(directory.join("lists").display().to_string()) };
        Options {
            cacertfile: Some(directory.join("ca.pem").display().to_string()),
            verify_peer: true,
            crl_check: check,
            crl_sources: BTreeMap::from([("1".to_owned(), source)]),
            ..Options::default()
        }
    }

    #[test]
    fn a_revoked_certificate_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new("the authority");
        fs::write(directory.path().join("ca.pem"), authority.certificate.pem()).expect("is written");
        let lists = directory.path().join("lists");
        fs::create_dir(&lists).expect("is made");
        let accepts = |check: CrlCheck, serial: u64| {
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier = verifier(&options(directory.path(), check), &provider).map_err(|error| error.to_string())?;
            let shown = authority.issue(serial);
            Ok::<_, String>(verifier.verify_client_cert(shown.der(), &[], UnixTime::now()).is_ok())
        };
        for check in [CrlCheck::Peer, CrlCheck::Chain] {
            let error = accepts(check, 1).expect_err("there is no list");
            assert!(error.contains("crl_sources names no directory with one"), "{error}");
        }
        assert_eq!(accepts(CrlCheck::BestEffort, 1), Ok(true));

        for (name, bytes) in [
            ("a.pem", authority.revoke(7).pem().expect("PEM").into_bytes()),
            ("a.crl", authority.revoke(7).der().to_vec()),
        ] {
            fs::write(lists.join(name), bytes).expect("is written");
            for check in [CrlCheck::Peer, CrlCheck::BestEffort, CrlCheck::Chain] {
                assert_eq!((accepts(check, 7), accepts(check, 8)), (Ok(false), Ok(true)), "{name}: {check:?}");
            }
            assert_eq!(accepts(CrlCheck::Off, 7), Ok(true));
            fs::remove_file(lists.join(name)).expect("was there");
        }

        // A list of another authority doesn't apply to these certificates.
        fs::write(lists.join("b.pem"), Authority::new("another").revoke(7).pem().expect("PEM")).expect("is written");
        assert_eq!((accepts(CrlCheck::Peer, 7), accepts(CrlCheck::BestEffort, 7)), (Ok(false), Ok(true)));
        fs::write(lists.join("b.pem"), "nothing").expect("is written");
        let error = accepts(CrlCheck::Peer, 7).expect_err("no list");
        assert!(error.contains("there is no list of revoked certificates in it"), "{error}");
    }
}
