//! The validity of certificates.

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::files::TlsError;

/// The time at which the first of them expires, in seconds of Unix time; none if there are none.
pub(super) fn first_end(certificates: &[CertificateDer<'_>], file: &str) -> Result<Option<u64>, TlsError> {
    let end = |certificate: &CertificateDer<'_>| {
        let read = Certificate::from_der(certificate)
            .map_err(|error| TlsError::File { file: file.to_owned(), reason: error.to_string() })?;
        Ok(read.tbs_certificate.validity.not_after.to_unix_duration().as_secs())
    };
    certificates.iter().map(end).try_fold(None, |first: Option<u64>, end| {
        let end = end?;
        Ok(Some(first.map_or(end, |first| first.min(end))))
    })
}
