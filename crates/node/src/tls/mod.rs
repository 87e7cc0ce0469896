//! TLS of listeners: the contents of their files, reloaded when these change, and the results of handshakes.

mod certificate;
mod ciphers;
mod client;
mod expiry;
mod files;
mod handshake;
mod name;
mod revocation;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use leveret_broker::{Encryption, PeerCertificate};
use leveret_config::{CertificateLogin, Tls as Options, TlsVersion};
use parking_lot::Mutex;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;
use tracing::{error, info};

pub use self::ciphers::cipher_suites;
pub(crate) use self::client::{backend_config, client_config};
pub use self::files::TlsError;
pub(crate) use self::files::{Stamps, identity, roots};
pub use self::handshake::HttpsStream;

/// Interval at which files are checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A listener's side of TLS: its certificate, key and roots, as they were when they last fitted together.
pub struct Tls {
    /// The prefix of its configuration keys, such as `ssl_options`.
    prefix: &'static str,
    options: Options,
    patience: Duration,
    login: CertificateLogin,
    current: ArcSwap<Loaded>,
    /// Stamps of the files as they were last read, accepted or not.
    seen: Mutex<Stamps>,
}

/// The contents of the files.
struct Loaded {
    configuration: Arc<ServerConfig>,
    chain: Vec<CertificateDer<'static>>,
    roots: Vec<CertificateDer<'static>>,
    /// End of validity of the first certificate of `certfile` to expire, in seconds of Unix time.
    certificate_ends: Option<u64>,
    /// The same for `cacertfile`, if there is one.
    roots_end: Option<u64>,
}

impl Tls {
    /// Reads the files that the configuration names. `patience` is the longest time for a handshake, and `login` the
    /// place of user names in certificates of clients.
    ///
    /// # Errors
    /// A key is missing, a file can't be read, or the contents of the files don't fit together.
    pub fn load(
        prefix: &'static str,
        options: Options,
        patience: Duration,
        login: CertificateLogin,
    ) -> Result<Arc<Self>, TlsError> {
        // The stamps are taken before the files are read: a change in between leads to another read.
        let seen = Stamps::of(&options);
        let current = ArcSwap::from_pointee(Loaded::read(&options).map_err(|error| error.behind(prefix))?);
        Ok(Arc::new(Self { prefix, options, patience, login, current, seen: Mutex::new(seen) }))
    }

    /// The acceptor of the next handshake. Connections keep the one that theirs was done with.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load().configuration.clone())
    }

    /// The result of a handshake.
    pub(crate) fn outcome(&self, session: &ServerConnection) -> Encryption {
        let shown = session.peer_certificates().and_then(<[_]>::first);
        Encryption {
            version: session.protocol_version().map_or(0, u16::from),
            suite: session.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
            certificate: shown.map(|shown| Arc::new(certificate::read(shown, self.login))),
            server_name: session.server_name().map(str::to_owned),
        }
    }

    /// The prefix of its configuration keys, such as `ssl_options`.
    #[must_use]
    pub fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// The configured options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The ends of validity of the certificates of `certfile` and of `cacertfile` that expire first, in seconds of Unix
    /// time.
    #[must_use]
    pub fn ends(&self) -> (Option<u64>, Option<u64>) {
        let loaded = self.current.load();
        (loaded.certificate_ends, loaded.roots_end)
    }

    /// The certificates of `certfile` and of `cacertfile` in use.
    #[must_use]
    pub fn certificates(&self) -> (Vec<PeerCertificate>, Vec<PeerCertificate>) {
        let loaded = self.current.load();
        let read = |all: &[CertificateDer<'_>]| all.iter().map(|one| certificate::read(one, self.login)).collect();
        (read(&loaded.chain), read(&loaded.roots))
    }

    /// The longest time for a handshake.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Reloads the files if one of them has changed. Unusable files are reported once, and the loaded contents stay.
    fn renew(&self) {
        let now = Stamps::of(&self.options);
        let mut seen = self.seen.lock();
        if *seen == now {
            return;
        }
        match Loaded::read(&self.options) {
            Ok(loaded) => {
                self.current.store(Arc::new(loaded));
                info!("{}: certificates were read again", self.prefix);
            }
            Err(reason) => {
                error!("{}: the changed files are of no use, the old certificate stays: {reason}", self.prefix);
            }
        }
        *seen = now;
    }
}

/// Reloads the files of all of these whenever they change.
pub(crate) async fn watch(all: Vec<Arc<Tls>>) {
    if all.is_empty() {
        return;
    }
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        all.iter().for_each(|tls| tls.renew());
    }
}

impl Loaded {
    fn read(options: &Options) -> Result<Self, TlsError> {
        let (chain, key) = files::identity(options)?;
        let certificate_ends = expiry::first_end(&chain, options.certfile.as_deref().unwrap_or_default())?;
        let roots = options.cacertfile.as_deref().map(files::certificates).transpose()?.unwrap_or_default();
        let roots_end = expiry::first_end(&roots, options.cacertfile.as_deref().unwrap_or_default())?;
        let configuration = Arc::new(configuration(options, chain.clone(), key)?);
        Ok(Self { configuration, chain, roots, certificate_ends, roots_end })
    }
}

/// The configuration of a server with these files.
///
/// # Errors
/// A key is missing, a file can't be read, or the contents of the files don't fit together.
pub(crate) fn server_config(options: &Options) -> Result<ServerConfig, TlsError> {
    let (chain, key) = identity(options)?;
    configuration(options, chain, key)
}

fn configuration(
    options: &Options,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, TlsError> {
    let provider = provider(options)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(options))
        .map_err(|error| TlsError::Unfit(format!("versions and ciphers leave nothing to speak: {error}")))?;
    let mut configuration = builder
        .with_client_cert_verifier(verify::verifier(options, &provider)?)
        .with_single_cert(chain, key)
        .map_err(|error| TlsError::Unfit(format!("certfile and keyfile don't fit together: {error}")))?;
    configuration.ignore_client_order = options.honor_cipher_order;
    Ok(configuration)
}

/// The protocol versions that are allowed.
fn versions(options: &Options) -> Vec<&'static SupportedProtocolVersion> {
    let version = |version: &TlsVersion| match version {
        TlsVersion::V13 => &TLS13,
        TlsVersion::V12 => &TLS12,
    };
    match options.versions.is_empty() {
        true => vec![&TLS13, &TLS12],
        false => options.versions.values().map(version).collect(),
    }
}

/// All supported protocol versions, by the names of RabbitMQ's keys, the newest first.
#[must_use]
pub fn tls_versions() -> [&'static str; 2] {
    ["tlsv1.3", "tlsv1.2"]
}

fn provider(options: &Options) -> Result<Arc<CryptoProvider>, TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    if !options.ciphers.is_empty() {
        provider.cipher_suites = ciphers::chosen(options.ciphers.values(), &provider.cipher_suites)?;
    }
    Ok(Arc::new(provider))
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
