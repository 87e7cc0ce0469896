//! Helpers shared by the scenarios: connections, links, checks, and the lines to the harness.

use std::fmt::Debug;
use std::future::Future;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, process};

use fe2o3_amqp::connection::{ConnectionHandle, OpenError};
use fe2o3_amqp::link::delivery::{Delivery, Sendable};
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{self, Body, Data, Header, Message, Source};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value as Json, json};
use tokio_rustls::TlsConnector;

/// A scenario's end: nothing, or why it failed.
pub(crate) type Outcome<T = ()> = Result<T, String>;

pub(crate) type Handle = SessionHandle<()>;
pub(crate) type Received = Delivery<Body<Value>>;

const PATIENCE: Duration = Duration::from_secs(30);

/// The broker's address and the names of this run's objects.
pub(crate) struct Cell {
    pub(crate) uri: String,
    pub(crate) prefix: String,
    links: AtomicU32,
}

/// Additional options of a connection.
#[derive(Default)]
pub(crate) struct Asked<'a> {
    pub(crate) hostname: Option<&'a str>,
    pub(crate) max_frame_size: Option<u32>,
    pub(crate) anonymous: bool,
}

/// A connection with a session. The connection closes when it is dropped.
pub(crate) struct Client {
    pub(crate) connection: ConnectionHandle<()>,
    pub(crate) session: Handle,
}

impl Cell {
    pub(crate) fn new(uri: &str, scenario: &str) -> Self {
        let uri = uri.trim_end_matches("/%2F").to_owned();
        Self { uri, prefix: format!("cell.{scenario}.{}", process::id()), links: AtomicU32::new(0) }
    }

    /// A name that no other link or container of this run has.
    pub(crate) fn unique(&self) -> String {
        format!("{}.{}", self.prefix, self.links.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn connect(&self) -> Outcome<Client> {
        client(self.open(&self.uri, Asked::default()).await.map_err(text)?).await
    }

    /// Opens a connection, over TLS where there is an authority to trust.
    pub(crate) async fn open(&self, uri: &str, asked: Asked<'_>) -> Result<ConnectionHandle<()>, OpenError> {
        let mut builder = Connection::builder().container_id(self.unique()).hostname(asked.hostname);
        if let Some(bytes) = asked.max_frame_size {
            builder = builder.max_frame_size(bytes);
        }
        if asked.anonymous {
            builder = builder.sasl_profile(SaslProfile::Anonymous);
        }
        match env::var_os("LEVERET_TEST_CA") {
            None => builder.open(uri).await,
            // The broker's port has TLS from the first byte, as AMQP's `amqps` has.
            Some(file) => builder.rustls_connector(trusting(file.as_ref())).alt_tls_establishment(true).open(uri).await,
        }
    }

    /// Declares a durable queue: its name and its address.
    pub(crate) async fn queue(&self, name: &str, arguments: Json) -> Outcome<(String, String)> {
        let name = format!("{}.{name}", self.prefix);
        peer(json!({"do": "declare", "queue": name, "arguments": arguments})).await?;
        Ok((name.clone(), format!("/queues/{name}")))
    }

    pub(crate) async fn sender(&self, session: &mut Handle, target: &str) -> Outcome<Sender> {
        within("attach", Sender::attach(session, self.unique(), target)).await?.map_err(debug)
    }

    /// A receiver without credit.
    pub(crate) async fn receiver(&self, session: &mut Handle, source: impl Into<Source>) -> Outcome<Receiver> {
        let builder =
            Receiver::builder().name(self.unique()).source(source).credit_mode(CreditMode::Manual).attach(session);
        within("attach", builder).await?.map_err(debug)
    }

    /// Takes and accepts one message over a link of its own.
    pub(crate) async fn get(&self, session: &mut Handle, source: &str) -> Outcome<Received> {
        let mut receiver = self.receiver(session, source).await?;
        receiver.set_credit(1).await.map_err(debug)?;
        let received = take(&mut receiver).await?;
        receiver.accept(&received).await.map_err(debug)?;
        receiver.close().await.map_err(debug)?;
        Ok(received)
    }
}

fn trusting(authority: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).expect("the authority")).expect("a root");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let versions = builder.with_safe_default_protocol_versions().expect("versions");
    Arc::new(versions.with_root_certificates(roots).with_no_client_auth()).into()
}

pub(crate) async fn client(mut connection: ConnectionHandle<()>) -> Outcome<Client> {
    let session = within("begin", Session::begin(&mut connection)).await?.map_err(debug)?;
    Ok(Client { connection, session })
}

pub(crate) fn text(error: impl ToString) -> String {
    error.to_string()
}

pub(crate) fn debug(error: impl Debug) -> String {
    format!("{error:?}")
}

pub(crate) fn check(condition: bool, what: impl ToString) -> Outcome {
    if condition { Ok(()) } else { Err(what.to_string()) }
}

pub(crate) fn equal<T: PartialEq + Debug>(received: T, expected: T, what: &str) -> Outcome {
    check(received == expected, format!("{what}: {received:?}, expected {expected:?}"))
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(PATIENCE, future).await.map_err(|_| format!("{what}: nothing came"))
}

/// Prints a line and waits for the harness's answer.
pub(crate) async fn ask(line: &str) -> Outcome<String> {
    println!("{line}");
    // The library's own tasks must go on meanwhile, so that the read has a thread of its own.
    let reply = tokio::task::spawn_blocking(|| {
        let mut reply = String::new();
        io::stdin().lock().read_line(&mut reply).map(|_| reply)
    });
    Ok(reply.await.map_err(text)?.map_err(text)?.trim().to_owned())
}

pub(crate) async fn peer(request: Json) -> Outcome<Json> {
    let answer: Json = serde_json::from_str(&ask(&format!("peer {request}")).await?).map_err(text)?;
    check(answer["error"].is_null(), format!("peer {request}: {answer}"))?;
    Ok(answer)
}

pub(crate) async fn count(name: &str) -> Outcome<u64> {
    let answer = peer(json!({"do": "count", "queue": name})).await?;
    answer["messages"].as_u64().ok_or_else(|| answer.to_string())
}

/// A durable message with one data section.
pub(crate) fn message(body: impl Into<Vec<u8>>) -> Message<Data> {
    Message::builder().header(Header { durable: true, ..Header::default() }).data(Binary::from(body.into())).build()
}

pub(crate) async fn send(sender: &mut Sender, message: impl Into<Sendable<Data>>) -> Outcome<messaging::Outcome> {
    within("an outcome", sender.send(message.into())).await?.map_err(debug)
}

pub(crate) async fn accepted(sender: &mut Sender, message: impl Into<Sendable<Data>>) -> Outcome {
    let outcome = send(sender, message).await?;
    check(outcome.is_accepted(), format!("outcome {outcome:?}"))
}

/// Sends the texts `first` to `last - 1`.
pub(crate) async fn send_numbers(sender: &mut Sender, first: u32, last: u32) -> Outcome {
    for number in first..last {
        accepted(sender, message(number.to_string())).await?;
    }
    Ok(())
}

/// The next message of a receiver, which must have the credit.
pub(crate) async fn take(receiver: &mut Receiver) -> Outcome<Received> {
    within("a delivery", receiver.recv()).await?.map_err(debug)
}

pub(crate) async fn take_text(receiver: &mut Receiver, expected: impl ToString) -> Outcome<Received> {
    let received = take(receiver).await?;
    equal(body(&received), expected.to_string(), "body")?;
    Ok(received)
}

/// The data sections of a message as text.
pub(crate) fn body(received: &Received) -> String {
    match received.body() {
        Body::Data(sections) => sections.iter().map(|data| String::from_utf8_lossy(&data.0).into_owned()).collect(),
        other => format!("{other:?}"),
    }
}

/// A string in the message annotations.
pub(crate) fn annotation(received: &Received, key: &str) -> String {
    let annotations = received.message().message_annotations.as_ref();
    let found = annotations.and_then(|annotations| {
        annotations.0.iter().find(|(name, _)| format!("{name:?}").contains(&format!("\"{key}\"")))
    });
    match found {
        Some((_, Value::String(text))) => text.clone(),
        Some((_, Value::Symbol(symbol))) => symbol.as_str().to_owned(),
        other => format!("{other:?}"),
    }
}

/// An error with this condition, by its name in the library, and these words.
pub(crate) fn fails<T>(result: Outcome<T>, condition: &str, words: &str) -> Outcome {
    let Err(error) = result else { return Err(format!("{condition} expected, nothing happened")) };
    check(error.contains(condition) && error.contains(words), format!("{error} isn't {condition} with '{words}'"))
}
