//! A small service over HTTP or HTTPS, whose answers a test chooses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use leveret_tests::tls::TlsIdentity;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct ServiceRequest {
    pub(crate) path: String,
    pub(crate) fields: BTreeMap<String, String>,
}

impl ServiceRequest {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// An answer.
pub(crate) enum ServiceReply {
    Text(&'static str),
    Body(String),
    Status(u16, &'static str),
    After(Duration, &'static str),
    /// No answer.
    Silence,
    /// The connection is closed in the middle of the answer.
    Cut,
    /// Bytes that are no HTTP.
    Nonsense,
}

type Handler = dyn Fn(&ServiceRequest) -> ServiceReply + Send + Sync;

/// The service. It ends with the test.
pub(crate) struct Service {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<ServiceRequest>>>,
    connections: Arc<AtomicUsize>,
    handler: Arc<Mutex<Arc<Handler>>>,
}

impl Service {
    pub(crate) fn start(handler: impl Fn(&ServiceRequest) -> ServiceReply + Send + Sync + 'static) -> Self {
        Self::start_with(None, handler)
    }

    pub(crate) fn start_tls(
        identity: &TlsIdentity,
        handler: impl Fn(&ServiceRequest) -> ServiceReply + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("an identity");
        Self::start_with(Some(Arc::new(config)), handler)
    }

    fn start_with(
        tls: Option<Arc<ServerConfig>>,
        handler: impl Fn(&ServiceRequest) -> ServiceReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let this = Self {
            port,
            asked: Arc::default(),
            connections: Arc::default(),
            handler: Arc::new(Mutex::new(Arc::new(handler))),
        };
        let (asked, connections, handler) = (this.asked.clone(), this.connections.clone(), this.handler.clone());
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (asked, handler, tls) = (asked.clone(), handler.clone(), tls.clone());
                connections.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || match tls {
                    None => serve(socket, &asked, &handler),
                    Some(config) => {
                        let session = ServerConnection::new(config).expect("a session");
                        serve(StreamOwned::new(session, socket), &asked, &handler);
                    }
                });
            }
        });
        this
    }

    /// From now on it answers otherwise.
    pub(crate) fn answer(&self, handler: impl Fn(&ServiceRequest) -> ServiceReply + Send + Sync + 'static) {
        *self.handler.lock().expect("no panic") = Arc::new(handler);
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<ServiceRequest> {
        self.asked.lock().expect("no panic").clone()
    }

    /// Requests to this path so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.asked().iter().filter(|asked| asked.path == path).count()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn serve(socket: impl Read + Write, asked: &Mutex<Vec<ServiceRequest>>, handler: &Mutex<Arc<Handler>>) {
    let mut socket = BufReader::new(socket);
    while let Some(request) = read(&mut socket) {
        asked.lock().expect("no panic").push(request.clone());
        let handler = handler.lock().expect("no panic").clone();
        let (status, body) = match handler(&request) {
            ServiceReply::Text(text) => (200, text.to_owned()),
            ServiceReply::Body(text) => (200, text),
            ServiceReply::Status(status, text) => (status, text.to_owned()),
            ServiceReply::After(time, text) => {
                thread::sleep(time);
                (200, text.to_owned())
            }
            ServiceReply::Silence => {
                thread::sleep(Duration::from_secs(60));
                return;
            }
            ServiceReply::Cut => {
                let _ = socket.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nallow");
                return;
            }
            ServiceReply::Nonsense => {
                let _ = socket.get_mut().write_all(b"\x01\x02 SMTP ready\r\n\r\n");
                return;
            }
        };
        let answer =
            format!("HTTP/1.1 {status} Ok\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if socket.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(socket: &mut impl BufRead) -> Option<ServiceRequest> {
    let mut first = String::new();
    socket.read_line(&mut first).ok().filter(|count| *count > 0)?;
    let target = first.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let form = if body.is_empty() { query.to_owned() } else { String::from_utf8(body).ok()? };
    let fields = form.split('&').filter_map(|field| field.split_once('='));
    Some(ServiceRequest {
        path: path.to_owned(),
        fields: fields.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                u8::from_str_radix(std::str::from_utf8(&digits).expect("digits"), 16).expect("a byte")
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether nobody listens at a port of this machine.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    port
}
