//! The configured files of a listener with TLS.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use leveret_config::Tls as Options;
use pkcs8::{EncryptedPrivateKeyInfo, SecretDocument};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::revocation;

/// RFC 1421's encryption, which old `PRIVATE KEY` blocks of OpenSSL have.
const LEGACY_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";
/// The begin of an encrypted key of PKCS #8 (RFC 7468, 11).
const ENCRYPTED_KEY: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_KEY_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// The reason why a listener can't use TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A required key is missing.
    #[error("{0}")]
    Missing(String),
    /// A file can't be read, or has other contents.
    #[error("cannot use {file}: {reason}")]
    File {
        /// Its path.
        file: String,
        /// The cause.
        reason: String,
    },
    /// The parts don't fit together.
    #[error("{0}")]
    Unfit(String),
    /// The same, with the prefix of the configuration keys.
    #[error("{prefix}: {error}")]
    Of {
        /// The prefix, such as `ssl_options`.
        prefix: &'static str,
        /// The error.
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

/// The certificate with its chain, and its key.
pub(crate) fn identity(options: &Options) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(named(options.certfile.as_ref(), "certfile", "the certificate")?)?;
    let file = named(options.keyfile.as_ref(), "keyfile", "the certificate's private key")?;
    let key = key(file, options.password.as_deref());
    Ok((chain, key.map_err(|reason| TlsError::File { file: file.to_owned(), reason })?))
}

/// The private key in a file, decrypted if necessary.
fn key(file: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    if text.contains(LEGACY_ENCRYPTION) {
        return Err(format!(
            "the key is encrypted in OpenSSL's old way, which is weak and isn't read; convert it with \
             'openssl pkcs8 -topk8 -v2 aes-256-cbc -in {file} -out new.pem'"
        ));
    }
    let Some(begin) = text.find(ENCRYPTED_KEY) else {
        return PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| error.to_string());
    };
    let password = password.ok_or("the key is encrypted, and password isn't set")?;
    let (_, encrypted) = SecretDocument::from_pem(pem_at(&text[begin..])).map_err(|error| error.to_string())?;
    let decrypted = EncryptedPrivateKeyInfo::try_from(encrypted.as_bytes())
        .and_then(|key| key.decrypt(password))
        .map_err(|error| match error {
            pkcs8::Error::EncryptedPrivateKey(_) => {
                format!("the key can't be decrypted: the password is wrong, or the cipher isn't AES by PBES2 ({error})")
            }
            error => error.to_string(),
        })?;
    Ok(PrivatePkcs8KeyDer::from(decrypted.as_bytes().to_vec()).into())
}

/// The first block of PEM, without the text after it.
fn pem_at(text: &str) -> &str {
    let end = text.find(ENCRYPTED_KEY_END).map_or(text.len(), |end| end + ENCRYPTED_KEY_END.len());
    &text[..end]
}

/// The roots that the peers' certificates are checked against.
pub(crate) fn roots(options: &Options) -> Result<RootCertStore, TlsError> {
    let file = named(options.cacertfile.as_ref(), "cacertfile", "the roots of certificates")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| TlsError::File { file: file.to_owned(), reason: error.to_string() })?;
    }
    Ok(roots)
}

/// The state of files, by which changes are found: inode, length and times of each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<Option<(u64, u64, i64, i64)>>);

impl Stamps {
    pub(crate) fn of(options: &Options) -> Self {
        let files = [&options.certfile, &options.keyfile, &options.cacertfile];
        let files = files.map(|file| file.as_ref().map(PathBuf::from)).into_iter();
        let lists = revocation::files(options).into_iter().map(Some);
        let stamp = |file: PathBuf| {
            let metadata = fs::metadata(file).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
        };
        Self(files.chain(lists).map(|file| file.and_then(stamp)).collect())
    }
}

#[cfg(test)]
mod tests {
    use pkcs8::pkcs5::pbes2::Parameters;
    use pkcs8::{LineEnding, PrivateKeyInfo};
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn an_encrypted_key_needs_its_password_legacy_ones_are_refused() {
        let plain = KeyPair::generate().expect("a key");
        let der = plain.serialize_der();
        let params = Parameters::pbkdf2_sha256_aes256cbc(1000, b"salt of a test", &[7; 16]).expect("parameters");
        let info = PrivateKeyInfo::try_from(der.as_slice()).expect("a key");
        let encrypted = info.encrypt_with_params(params, "hush").expect("is encrypted");
        let encrypted = encrypted.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF).expect("PEM");
        let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&plain).expect("a certificate").pem();

        let files = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = files.path().join(name);
            fs::write(&path, text).expect("is written");
            Some(path.display().to_string())
        };
        let with = |keyfile: Option<String>, password: Option<&str>| {
            let certfile = file("node.pem", &certificate);
            let options = Options { certfile, keyfile, password: password.map(str::to_owned), ..Options::default() };
            identity(&options).map(|(_, key)| key.secret_der().to_vec()).map_err(|error| error.to_string())
        };
        // Between other blocks, as OpenSSL writes it.
        let keyfile = file("node.key", &format!("{certificate}{}{certificate}", encrypted.as_str()));
        assert_eq!(with(keyfile.clone(), Some("hush")), Ok(der));
        let error = with(keyfile.clone(), Some("hash")).expect_err("another password");
        assert!(error.contains("the password is wrong"), "{error}");
        let error = with(keyfile, None).expect_err("no password");
        assert!(error.contains("the key is encrypted, and password isn't set"), "{error}");

        let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----\n";
        let error = with(file("old.key", old), Some("hush")).expect_err("the old way");
        assert!(error.contains("convert it with 'openssl pkcs8 -topk8 -v2 aes-256-cbc -in"), "{error}");
        // An unnecessary password does no harm.
        assert!(with(file("plain.key", &plain.serialize_pem()), Some("hush")).is_ok());
    }
}
