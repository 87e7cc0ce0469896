//! Requests over HTTP and HTTPS: connections that are kept, bounded in number, with limits on time and bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use leveret_config::ClientTls;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::runtime::leave_core;

/// Most connections to one host.
const CONNECTIONS_MAX: usize = 256;

/// How long a connection is kept open without use: servers close theirs after 5 s and more.
const IDLE_FOR: Duration = Duration::from_secs(4);

/// Makes TLS of its settings. The node reads the files.
pub type ConnectTls<'a> = &'a dyn Fn(&ClientTls) -> Result<ClientConfig, String>;

/// Limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// Of a new connection, with TLS.
    pub(crate) connect: Duration,
    /// Of the request with its answer, after that.
    pub(crate) whole: Duration,
    /// Most bytes of an answer's body.
    pub(crate) bytes_max: usize,
    /// Connections that are kept open without use. With any, the client may only be used for one host.
    pub(crate) idle_max: usize,
}

/// The address of a service.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
    is_tls: bool,
    /// The path, and the query if there is one.
    path: String,
}

impl Address {
    /// Parses a URL with `http` or `https`.
    ///
    /// # Errors
    /// It is something else, or has no host.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("'{url}' is no URL: {error}"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(format!("'{url}' begins neither with http:// nor with https://")),
        };
        let host = uri.host().ok_or_else(|| format!("'{url}' has no host"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("a URL with a user name isn't taken".to_owned());
        }
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            is_tls,
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Whether connections to one lead to the other.
    pub(crate) fn is_same_host(&self, other: &Self) -> bool {
        (&self.host, self.port, self.is_tls) == (&other.host, other.port, other.is_tls)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    fn authority(&self) -> String {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        format!("{open}{}{close}:{}", self.host, self.port)
    }
}

/// Fields of a request, and where they are.
pub(crate) enum Form<'a> {
    Get,
    /// Fields behind the path.
    Query(&'a str),
    /// Fields in the body.
    Post(&'a str),
}

/// Connections to one host.
pub(crate) struct HttpClient {
    limits: RequestLimits,
    tls: Option<(TlsConnector, Option<String>)>,
    permits: Semaphore,
    idle: Mutex<Vec<(Instant, SendRequest<Full<Bytes>>)>>,
}

impl HttpClient {
    /// A client of a host.
    ///
    /// # Errors
    /// Its TLS can't be used.
    pub(crate) fn new(
        limits: RequestLimits,
        settings: &ClientTls,
        tls: Option<ConnectTls<'_>>,
    ) -> Result<Self, String> {
        let connector = |make: ConnectTls<'_>| {
            make(settings).map(|config| (TlsConnector::from(Arc::new(config)), settings.server_name.clone()))
        };
        Ok(Self {
            limits,
            tls: tls.map(connector).transpose()?,
            permits: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
        })
    }

    /// Status and body of the answer. A request that left is never sent again. Redirects aren't followed.
    ///
    /// # Errors
    /// No answer came, or it is too long. The text never has what was sent.
    pub(crate) async fn request(&self, to: &Address, form: Form<'_>) -> Result<(u16, Vec<u8>), String> {
        leave_core().await;
        let _permit = self.permits.acquire().await.map_err(|_| "the node stops".to_owned())?;
        let mut request = Some(request(to, form)?);
        loop {
            let kept = self.kept();
            let is_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => timeout(self.limits.connect, self.connect(to))
                    .await
                    .map_err(|_| format!("no connection to {} within {:?}", to.authority(), self.limits.connect))??,
            };
            let Some(sent) = request.take() else { return Err("the request is gone".to_owned()) };
            match timeout(self.limits.whole, self.exchange(&mut sender, sent)).await {
                Err(_) => return Err(format!("{} hasn't answered within {:?}", to.authority(), self.limits.whole)),
                Ok(Ok(answer)) => {
                    self.keep(sender);
                    return Ok(answer);
                }
                // It never left: the server had closed the connection that was kept.
                Ok(Err((Some(unsent), _))) if is_kept => request = Some(unsent),
                Ok(Err((_, reason))) => return Err(format!("{}: {reason}", to.authority())),
            }
        }
    }

    async fn exchange(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
    ) -> Result<(u16, Vec<u8>), (Option<Request<Full<Bytes>>>, String)> {
        let response = sender.try_send_request(request).await.map_err(|mut error| {
            let unsent = error.take_message();
            (unsent, full(&error.into_error()))
        })?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), self.limits.bytes_max).collect().await;
        let body = body.map_err(|error| (None, format!("the answer was cut or is too long: {error}")))?;
        Ok((status, body.to_bytes().into()))
    }

    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock();
        while let Some((since, sender)) = idle.pop() {
            if since.elapsed() < IDLE_FOR && sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock();
        if idle.len() < self.limits.idle_max && !sender.is_closed() {
            idle.push((Instant::now(), sender));
        }
    }

    async fn connect(&self, to: &Address) -> Result<SendRequest<Full<Bytes>>, String> {
        let cannot = |error: String| format!("cannot connect to {}: {error}", to.authority());
        let stream = TcpStream::connect((&*to.host, to.port)).await.map_err(|error| cannot(error.to_string()))?;
        let _ = stream.set_nodelay(true);
        if !to.is_tls {
            return shake_hands(TokioIo::new(stream)).await.map_err(cannot);
        }
        let Some((connector, server_name)) = &self.tls else { return Err("TLS isn't set up".to_owned()) };
        let name = server_name.as_deref().unwrap_or(&to.host).to_owned();
        let name = ServerName::try_from(name).map_err(|error| cannot(error.to_string()))?;
        let stream = connector.connect(name, stream).await.map_err(|error| cannot(error.to_string()))?;
        shake_hands(TokioIo::new(stream)).await.map_err(cannot)
    }
}

async fn shake_hands<T>(io: T) -> Result<SendRequest<Full<Bytes>>, String>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await.map_err(|error| full(&error))?;
    // It ends with the sender, or when the server closes it.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn request(to: &Address, form: Form<'_>) -> Result<Request<Full<Bytes>>, String> {
    let (method, path, body) = match form {
        Form::Get => (Method::GET, to.path.clone(), Bytes::new()),
        Form::Query(fields) => {
            let mark = if to.path.contains('?') { '&' } else { '?' };
            (Method::GET, format!("{}{mark}{fields}", to.path), Bytes::new())
        }
        Form::Post(fields) => (Method::POST, to.path.clone(), Bytes::from(fields.to_owned())),
    };
    let mut request = Request::builder().method(&method).uri(path).header(HOST, to.authority());
    if method == Method::POST {
        request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    }
    request.body(Full::new(body)).map_err(|_| "the request can't be written".to_owned())
}

/// An error with its causes.
fn full(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A field of a form, encoded.
pub(crate) fn put_field(form: &mut String, name: &str, value: &[u8]) {
    use std::fmt::Write;
    if !form.is_empty() {
        form.push('&');
    }
    form.push_str(name);
    form.push('=');
    for &byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => form.push(char::from(byte)),
            b' ' => form.push('+'),
            _ => _ = write!(form, "%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_host_port_and_path() {
        let address = Address::parse("https://auth.example:8443/a/b?c=d").expect("is one");
        assert_eq!(
            (&*address.host, address.port, address.is_tls, &*address.path),
            ("auth.example", 8443, true, "/a/b?c=d")
        );
        let address = Address::parse("http://[::1]").expect("is one");
        assert_eq!((&*address.host, address.port, &*address.authority()), ("::1", 80, "[::1]:80"));
        for wrong in ["ftp://x/", "x", "http://", "http://a b/", "http://u:p@h/"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_are_encoded() {
        let mut form = String::new();
        put_field(&mut form, "username", "a b&c=ü/".as_bytes());
        put_field(&mut form, "password", b"\xff+%");
        assert_eq!(form, "username=a+b%26c%3D%C3%BC%2F&password=%FF%2B%25");
    }
}
