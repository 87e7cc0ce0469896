//! TLS of the links between nodes: 1.3, on both sides.
//!
//! Without files each start makes a certificate of its own, which nobody verifies: the proof of the cookie is made over keying material of
//! the connection, so that somebody in between can't hand it on. With files both sides verify that the other one's certificate is below the
//! configured root. Names in certificates aren't compared: nodes are reached by many names, and the cookie is asked as well.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_config::{Tls as Options, TlsVersion};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, InvalidMessage,
    ServerConfig, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tracing::{error, info};

use crate::tls::{Stamps, TlsError, identity, roots, server_config};

/// The label of the keying material that proofs are made over (RFC 5705).
const EXPORTER: &[u8] = b"EXPORTER-leveret-peer";
/// The name that is asked for. No one has it, and no one has to.
const NAME: &str = "leveret";
/// Interval at which files are checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const PREFIX: &str = "cluster.ssl_options";

/// Both sides' configuration.
#[derive(Clone)]
struct Sides {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Sides {
    /// Links stay for as long as both nodes do, and each handshake is made in full: nothing is kept to begin another one from.
    fn new(mut server: ServerConfig, mut client: ClientConfig) -> Sides {
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        Sides { server: Arc::new(server), client: Arc::new(client) }
    }
}

/// The files that it is read from.
struct Files {
    options: Options,
    seen: Stamps,
    looked: Instant,
}

/// TLS of a node's links.
pub(crate) struct ClusterTls {
    sides: RefCell<Sides>,
    files: RefCell<Option<Files>>,
    renewals: Cell<u64>,
}

/// A connection of TLS, and keying material that only its two sides have.
pub(crate) type Secured = (TlsStream<TcpStream>, [u8; 32]);

impl ClusterTls {
    /// With a certificate that is made now.
    ///
    /// # Errors
    /// None can be made.
    pub(crate) fn own() -> Result<ClusterTls, TlsError> {
        let unfit = |error: &dyn std::fmt::Display| TlsError::Unfit(format!("cannot make a certificate: {error}"));
        let key = rcgen::KeyPair::generate().map_err(|error| unfit(&error))?;
        let certificate = rcgen::CertificateParams::new([NAME.to_owned()]).and_then(|params| params.self_signed(&key));
        let certificate = certificate.map_err(|error| unfit(&error))?.der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| unfit(&error))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(|error| unfit(&error))?;
        let verifier = Arc::new(AnyCertificate(provider.clone()));
        let client = client_with(&provider, verifier)?.with_no_client_auth();
        Ok(Self::of(Sides::new(server, client), None))
    }

    /// With configured files: certificate, key, and the root of all nodes' certificates.
    ///
    /// # Errors
    /// A file is missing, can't be read, or the contents don't fit together.
    pub(crate) fn configured(options: &Options) -> Result<ClusterTls, TlsError> {
        let seen = Stamps::of(options);
        let sides = read(options)?;
        let files = Files { options: options.clone(), seen, looked: Instant::now() };
        Ok(Self::of(sides, Some(files)))
    }

    fn of(sides: Sides, files: Option<Files>) -> ClusterTls {
        ClusterTls { sides: RefCell::new(sides), files: RefCell::new(files), renewals: Cell::new(0) }
    }

    /// Secures a connection that was accepted.
    ///
    /// # Errors
    /// The reason, in words.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<Secured, String> {
        let acceptor = TlsAcceptor::from(self.current().server);
        let stream = acceptor.accept(stream).await.map_err(|error| in_words(&error))?;
        exported(TlsStream::from(stream))
    }

    /// Secures a connection that was dialled.
    ///
    /// # Errors
    /// The reason, in words.
    pub(crate) async fn connect(&self, stream: TcpStream) -> Result<Secured, String> {
        let connector = TlsConnector::from(self.current().client);
        let name = ServerName::try_from(NAME).map_err(|error| error.to_string())?;
        let stream = connector.connect(name, stream).await.map_err(|error| in_words(&error))?;
        exported(TlsStream::from(stream))
    }

    fn current(&self) -> Sides {
        self.renew();
        self.sides.borrow().clone()
    }

    /// Reads the files again if one of them has changed. Unusable ones are reported once, and the contents before stay.
    fn renew(&self) {
        let mut files = self.files.borrow_mut();
        let Some(files) = files.as_mut().filter(|files| files.looked.elapsed() >= LOOK_EVERY) else { return };
        files.looked = Instant::now();
        let now = Stamps::of(&files.options);
        if files.seen == now {
            return;
        }
        files.seen = now;
        match read(&files.options) {
            Ok(sides) => {
                *self.sides.borrow_mut() = sides;
                self.renewals.set(self.renewals.get() + 1);
                info!("{PREFIX}: certificates were read again");
            }
            Err(reason) => {
                error!("{PREFIX}: the changed files are of no use, the old certificate stays: {reason}");
            }
        }
    }
}

fn exported(stream: TlsStream<TcpStream>) -> Result<Secured, String> {
    let bytes = match &stream {
        TlsStream::Client(stream) => stream.get_ref().1.export_keying_material([0; 32], EXPORTER, None),
        TlsStream::Server(stream) => stream.get_ref().1.export_keying_material([0; 32], EXPORTER, None),
    };
    Ok((stream, bytes.map_err(|error| error.to_string())?))
}

fn read(options: &Options) -> Result<Sides, TlsError> {
    let behind = |error: TlsError| TlsError::Of { prefix: PREFIX, error: Box::new(error) };
    let mut both = options.clone();
    both.versions = [("1".to_owned(), TlsVersion::V13)].into();
    (both.verify_peer, both.fail_if_no_peer_cert) = (true, true);
    let server = server_config(&both).map_err(behind)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots(&both).map_err(behind)?), provider.clone());
    let verifier = verifier.build().map_err(|error| behind(TlsError::Unfit(format!("cacertfile: {error}"))))?;
    let (chain, key) = identity(&both).map_err(behind)?;
    let client = client_with(&provider, Arc::new(AnyName(verifier)))?
        .with_client_auth_cert(chain, key)
        .map_err(|error| behind(TlsError::Unfit(format!("certfile and keyfile don't fit together: {error}"))))?;
    Ok(Sides::new(server, client))
}

/// A builder of clients with a verifier of ours.
fn client_with(
    provider: &Arc<CryptoProvider>,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(|error| TlsError::Unfit(error.to_string()))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier))
}

/// The reason why a connection couldn't be secured.
fn in_words(error: &std::io::Error) -> String {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    match tls {
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it doesn't speak TLS; set cluster.tls to the same value on all nodes".to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "TLS failed: its certificate isn't issued by any authority in cluster.ssl_options.cacertfile; give all nodes certificates of one \
             authority, and its root"
                .to_owned()
        }
        Some(Error::AlertReceived(AlertDescription::UnknownCA)) => {
            "TLS failed: it doesn't know the authority of this node's certificate; give all nodes certificates of one authority, and its \
             root as cluster.ssl_options.cacertfile"
                .to_owned()
        }
        Some(error) => format!("TLS failed: {error}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "it closed the connection during the handshake of TLS; its log may say why".to_owned()
        }
        None => format!("TLS failed: {error}"),
    }
}

/// Takes any certificate; only that its owner has the key is verified.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("links between nodes speak TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies everything but the name, which is verified last.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
