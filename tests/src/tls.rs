//! Certificates for tests, and the client's side of TLS: directly, or as a proxy for clients without TLS.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use crate::PATIENCE;

/// The host that certificates are issued for.
const HOST: &str = "localhost";

/// A certificate authority.
pub struct Authority {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new authority.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self { certificate: params.self_signed(&key).expect("a certificate"), key }
    }

    /// Its certificate in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate for `localhost` that is valid until the end of a year.
    pub fn issue(&self, name: &str, year: i32) -> TlsIdentity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.certificate, &self.key).expect("a certificate");
        TlsIdentity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// The TLS configuration of a client that trusts this authority, with a certificate of its own if `identity` is
    /// given.
    pub fn client(&self, identity: Option<&TlsIdentity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(vec![certificate], key).expect("an identity")
            }
        })
    }
}

impl TlsIdentity {
    /// Writes `NAME.pem` and `NAME.key` into a directory, each in one step.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let write = |ending: &str, text: &str| {
            let (path, fresh) = (directory.join(format!("{name}.{ending}")), directory.join("fresh"));
            std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path)).expect("is written");
            path
        };
        (write("pem", &self.certificate), write("key", &self.key))
    }

    /// The certificate in DER.
    pub fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM").to_vec()
    }
}

/// A client's connection after its handshake.
///
/// # Errors
/// The handshake failed, or with TLS 1.3 the first read after it.
pub fn connect(
    address: SocketAddr,
    client: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    connect_over(address, client, &[])
}

/// As [`connect`], with bytes sent before the handshake.
///
/// # Errors
/// As [`connect`].
pub fn connect_over(
    address: SocketAddr,
    client: &Arc<ClientConfig>,
    before: &[u8],
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut socket = TcpStream::connect(address)?;
    socket.write_all(before)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let name = ServerName::try_from(HOST).expect("a name");
    let mut session = ClientConnection::new(client.clone(), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(session, socket))
}

/// The server's certificate in a handshake.
///
/// # Errors
/// As [`connect`].
pub fn shown(address: SocketAddr, client: &Arc<ClientConfig>) -> io::Result<Vec<u8>> {
    let stream = connect(address, client)?;
    Ok(stream.conn.peer_certificates().and_then(|chain| chain.first()).expect("a certificate").to_vec())
}

/// Accepts connections without TLS and forwards them with TLS, until dropped.
#[derive(Debug)]
pub struct TlsProxy {
    /// Its address.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TlsProxy {
    /// Starts one in front of `server`.
    ///
    /// # Panics
    /// If it can't listen.
    pub fn start(server: SocketAddr, client: Arc<ClientConfig>) -> Self {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        socket.set_nonblocking(true).expect("a socket");
        let address = socket.local_addr().expect("bound");
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(socket).expect("a listener");
                let accept = async {
                    while let Ok((plain, _)) = listener.accept().await {
                        tokio::spawn(carry(plain, server, client.clone()));
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }
}

/// An error on either side ends both, which the test sees.
async fn carry(mut plain: tokio::net::TcpStream, server: SocketAddr, client: Arc<ClientConfig>) {
    let Ok(socket) = tokio::net::TcpStream::connect(server).await else { return };
    let name = ServerName::try_from(HOST).expect("a name");
    if let Ok(mut stream) = TlsConnector::from(client).connect(name, socket).await {
        let _ = tokio::io::copy_bidirectional(&mut plain, &mut stream).await;
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
