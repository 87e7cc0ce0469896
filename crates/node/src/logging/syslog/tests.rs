use std::io::Read;
use std::net::TcpListener;
use std::thread;
use std::time::SystemTime;

use leveret_config::{Config, LogCategory, LogLevel};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::*;

fn line(message: &str) -> Line {
    Line {
        time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_371_218_431_951),
        level: LogLevel::Error,
        category: LogCategory::Connection,
        message: message.to_owned(),
        pid: 5,
        fields: Vec::new(),
        source: None,
    }
}

fn server(port: u16, keys: &str) -> SyslogServer {
    let mut config = Config::default();
    config.read("rabbitmq.conf", &format!("log.syslog = true\nlog.syslog.port = {port}\n{keys}")).expect("is right");
    let mut server = SyslogServer::new(&config.log.syslog.server, config.log.syslog.format).expect("is right");
    server.host_name = "here".to_owned();
    server
}

#[test]
fn datagrams_of_either_form_come_one_per_line() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = socket.local_addr().expect("is bound").port();
    let mut buffer = [0; 2000];
    let mut received = || {
        let length = socket.recv(&mut buffer).expect("a datagram");
        String::from_utf8(buffer[..length].to_vec()).expect("is text")
    };
    let process = std::process::id();

    server(port, "").write(&line("one\ntwo"));
    assert_eq!(received(), format!("<27>Nov 22 18:13:38 here rabbitmq-server[{process}]: one"));
    assert_eq!(received(), format!("<27>Nov 22 18:13:38 here rabbitmq-server[{process}]: two"));

    let keys = "log.syslog.protocol = rfc5424\nlog.syslog.facility = local0\nlog.syslog.identity = me\n\
                log.syslog.multiline_mode = true\n";
    server(port, keys).write(&line("one\ntwo"));
    assert_eq!(received(), format!("<131>1 2026-11-22T18:13:38.431951Z here me {process} connection - one\ntwo"));
}

#[test]
fn tcp_messages_have_their_length_and_report_lost_lines() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("is bound").port();
    drop(listener);
    let mut server = server(port, "log.syslog.transport = tcp\n");
    server.write(&line("lost"));
    server.write(&line("lost too"));
    assert_eq!(server.lost, 2);

    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    server.next_try = None;
    server.write(&line("hello"));
    drop(server);
    let mut text = String::new();
    listener.accept().expect("a connection").0.read_to_string(&mut text).expect("is text");
    let told =
        format!("<27>Nov 22 18:13:38 here rabbitmq-server[{}]: hello (2 lines before it are lost)", std::process::id());
    assert_eq!(text, format!("{} {told}", told.len()));
}

/// A server that takes two connections with TLS, and the text that it read from each. Its certificate is written to
/// `roots`.
fn two_connections(
    roots: &std::path::Path,
    versions: &[&'static SupportedProtocolVersion],
) -> (u16, thread::JoinHandle<Vec<String>>) {
    let CertifiedKey { cert, key_pair } = generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(roots, cert.pem()).expect("is written");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key_pair.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .expect("are there")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("fits");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("is bound").port();
    let accepting = thread::spawn(move || {
        let mut texts = Vec::new();
        for _ in 0..2 {
            let (stream, _) = listener.accept().expect("a connection");
            let session = ServerConnection::new(config.clone()).expect("a session");
            let mut text = Vec::new();
            // It ends without a TLS close, or with an alert.
            let _ = StreamOwned::new(session, stream).read_to_end(&mut text);
            texts.push(String::from_utf8(text).expect("is text"));
        }
        texts
    });
    (port, accepting)
}

#[test]
fn a_tls_server_needs_a_certificate_of_a_configured_root() {
    let directory = tempfile::tempdir().expect("a directory");
    let roots = directory.path().join("ca.pem");
    let (port, accepting) = two_connections(&roots, rustls::ALL_VERSIONS);
    let tls = "log.syslog.transport = tls\nlog.syslog.host = localhost\n";
    let mut strangers = server(port, tls);
    strangers.write(&line("nobody may read this"));
    assert_eq!(strangers.lost, 1);
    drop(strangers);
    let mut server = server(port, &format!("{tls}log.syslog.ssl_options.cacertfile = {}\n", roots.display()));
    server.write(&line("hello"));
    server.flush();
    drop(server);
    let texts = accepting.join().expect("no panic");
    assert_eq!(texts[0], "");
    let told =
        format!("<27>1 2026-11-22T18:13:38.431951Z here rabbitmq-server {} connection - hello", std::process::id());
    assert_eq!(texts[1], format!("{} {told}", told.len()));
}

#[test]
fn tls_only_uses_the_configured_versions() {
    let directory = tempfile::tempdir().expect("a directory");
    let roots = directory.path().join("ca.pem");
    let (port, accepting) = two_connections(&roots, &[&rustls::version::TLS12]);
    let lost = ["tlsv1.3", "tlsv1.2"].map(|version| {
        let mut server = server(
            port,
            &format!(
                "log.syslog.transport = tls\nlog.syslog.host = localhost\nlog.syslog.ssl_options.cacertfile = {}\n\
                 log.syslog.ssl_options.versions.1 = {version}\n",
                roots.display()
            ),
        );
        server.write(&line("hello"));
        server.flush();
        server.lost
    });
    let texts = accepting.join().expect("no panic");
    assert!(texts[0].is_empty() && texts[1].ends_with("hello"), "{texts:?}");
    assert_eq!(lost, [1, 0]);
}
