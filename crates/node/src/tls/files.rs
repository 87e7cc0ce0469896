//! The files that a listener with TLS is configured with.

use std::fs;
use std::os::unix::fs::MetadataExt;

use leveret_config::Tls as Options;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a listener can't speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A key that is needed isn't there.
    #[error("{0}")]
    Missing(String),
    /// A file can't be read, or holds something else.
    #[error("cannot use {file}: {reason}")]
    File {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The parts don't fit together.
    #[error("{0}")]
    Unfit(String),
    /// The same, with the prefix of the keys that it is about.
    #[error("{prefix}: {error}")]
    Of {
        /// Such as `ssl_options`.
        prefix: &'static str,
        /// What is wrong.
        error: Box<TlsError>,
    },
}

impl TlsError {
    pub(super) fn behind(self, prefix: &'static str) -> Self {
        Self::Of { prefix, error: Box::new(self) }
    }
}

fn named<'a>(file: Option<&'a String>, key: &str, what: &str) -> Result<&'a str, TlsError> {
    file.map(String::as_str).ok_or_else(|| TlsError::Missing(format!("{key} isn't set; it names the file with {what}")))
}

pub(super) fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |reason: String| TlsError::File { file: file.to_owned(), reason };
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() { Err(wrong("there is no certificate in it".to_owned())) } else { Ok(found) }
}

/// The certificate with those behind it, and its key.
pub(super) fn identity(options: &Options) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(named(options.certfile.as_ref(), "certfile", "the certificate")?)?;
    let file = named(options.keyfile.as_ref(), "keyfile", "the certificate's private key")?;
    let key = PrivateKeyDer::from_pem_file(file).map_err(|error| {
        let encrypted = fs::read_to_string(file).is_ok_and(|text| text.contains("ENCRYPTED"));
        let reason = match encrypted {
            true => "the key is encrypted; write it without a password, readable by the node's user only".to_owned(),
            false => error.to_string(),
        };
        TlsError::File { file: file.to_owned(), reason }
    })?;
    Ok((chain, key))
}

/// The roots of the certificates of those whom we speak to.
pub(super) fn roots(options: &Options) -> Result<RootCertStore, TlsError> {
    let file = named(options.cacertfile.as_ref(), "cacertfile", "the roots of certificates")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| TlsError::File { file: file.to_owned(), reason: error.to_string() })?;
    }
    Ok(roots)
}

/// What tells whether files have changed: inode, length and times of each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps(Vec<Option<(u64, u64, i64, i64)>>);

impl Stamps {
    pub(super) fn of(options: &Options) -> Self {
        let files = [&options.certfile, &options.keyfile, &options.cacertfile];
        let stamp = |file: &String| {
            let metadata = fs::metadata(file).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
        };
        Self(files.into_iter().map(|file| file.as_ref().and_then(stamp)).collect())
    }
}
