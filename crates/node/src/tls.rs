//! TLS of listeners: what their files hold, read again when they change, and what a handshake came to.

mod ciphers;
mod files;
mod listener;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use leveret_config::{Tls as Options, TlsVersion};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use tokio_rustls::TlsAcceptor;
use tracing::{error, info};

pub use self::files::TlsError;
pub use self::listener::{HttpsStream, TlsListener};

use self::files::Stamps;

/// How often it is looked whether files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A listener's side of TLS: its certificate, key and roots as they were when they last fitted together.
pub struct Tls {
    /// The prefix of its keys, such as `ssl_options`.
    prefix: &'static str,
    options: Options,
    patience: Duration,
    current: ArcSwap<ServerConfig>,
    /// Of the files as they were read, or as they were refused.
    seen: Mutex<Stamps>,
}

impl Tls {
    /// Reads the files that the configuration names; `patience` is how long a handshake may take.
    ///
    /// # Errors
    /// A key is missing, a file can't be read, or what the files hold doesn't fit together.
    pub fn load(prefix: &'static str, options: Options, patience: Duration) -> Result<Arc<Self>, TlsError> {
        // Before they are read: what changes meanwhile is read again.
        let seen = Stamps::of(&options);
        let current = ArcSwap::from_pointee(configuration(&options).map_err(|error| error.behind(prefix))?);
        Ok(Arc::new(Self { prefix, options, patience, current, seen: Mutex::new(seen) }))
    }

    /// What does the next handshake. Connections keep what theirs was done with.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// How long a handshake may take.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Reads the files again if one of them has changed. What can't be used is told once, and what was there stays.
    fn renew(&self) {
        let now = Stamps::of(&self.options);
        let mut seen = self.seen.lock();
        if *seen == now {
            return;
        }
        match configuration(&self.options) {
            Ok(configuration) => {
                self.current.store(Arc::new(configuration));
                info!("{}: certificates were read again", self.prefix);
            }
            Err(reason) => {
                error!("{}: the changed files are of no use, the old certificate stays: {reason}", self.prefix);
            }
        }
        *seen = now;
    }
}

/// Reads the files of these again whenever they change.
pub async fn watch(all: Vec<Arc<Tls>>) {
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

fn configuration(options: &Options) -> Result<ServerConfig, TlsError> {
    let provider = provider(options)?;
    let chosen: Vec<_> = match options.versions.is_empty() {
        true => vec![&TLS13, &TLS12],
        false => options
            .versions
            .values()
            .map(|version| match version {
                TlsVersion::V13 => &TLS13,
                TlsVersion::V12 => &TLS12,
            })
            .collect(),
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&chosen)
        .map_err(|error| TlsError::Unfit(format!("versions and ciphers leave nothing to speak: {error}")))?;
    let (chain, key) = files::identity(options)?;
    let mut configuration = builder
        .with_client_cert_verifier(verify::verifier(options, &provider)?)
        .with_single_cert(chain, key)
        .map_err(|error| TlsError::Unfit(format!("certfile and keyfile don't fit together: {error}")))?;
    configuration.ignore_client_order = options.honor_cipher_order;
    Ok(configuration)
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
