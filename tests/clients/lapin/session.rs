//! Helpers shared by the scenarios: connections, checks, and the lines to the harness.

use std::fmt::Debug;
use std::future::Future;
use std::io::{self, BufRead};
use std::time::Duration;
use std::{env, fs, process};

use futures_lite::StreamExt as _;
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::runtime::default_runtime;
use lapin::tcp::OwnedTLSConfig;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ErrorKind, Event};

/// A scenario's end: nothing, or why it failed.
pub(crate) type Outcome<T = ()> = Result<T, String>;

const PATIENCE: Duration = Duration::from_secs(20);

/// The broker's address and the names of this run's objects.
pub(crate) struct Session {
    pub(crate) uri: String,
    pub(crate) prefix: String,
}

impl Session {
    pub(crate) fn new(uri: &str, scenario: &str) -> Self {
        Self { uri: uri.to_owned(), prefix: format!("cell.{scenario}.{}", process::id()) }
    }

    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        connect(&self.uri).await.map_err(text)
    }

    /// A channel with confirms on a connection of its own.
    pub(crate) async fn confirming(&self) -> Outcome<Channel> {
        confirming(&self.connect().await?).await
    }

    /// Declares a durable queue.
    pub(crate) async fn queue(&self, channel: &Channel) -> Outcome<String> {
        let name = format!("{}.q", self.prefix);
        channel.queue_declare(name.as_str().into(), durable(), FieldTable::default()).await.map_err(text)?;
        Ok(name)
    }

    /// Declares an exclusive queue.
    pub(crate) async fn exclusive_queue(&self, channel: &Channel, suffix: &str) -> Outcome<String> {
        let name = format!("{}.{suffix}", self.prefix);
        channel
            .queue_declare(name.as_str().into(), QueueDeclareOptions::exclusive(), FieldTable::default())
            .await
            .map_err(text)?;
        Ok(name)
    }
}

/// Over TLS where there is an authority to trust.
pub(crate) async fn connect(uri: &str) -> lapin::Result<Connection> {
    let trusted = env::var_os("LEVERET_TEST_CA").map(|file| fs::read_to_string(file).expect("the authority"));
    let tls = OwnedTLSConfig { identity: None, cert_chain: trusted };
    Connection::connect_with_config(uri, ConnectionProperties::default(), tls, default_runtime()?).await
}

pub(crate) async fn confirming(connection: &Connection) -> Outcome<Channel> {
    let channel = connection.create_channel().await.map_err(text)?;
    channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(text)?;
    Ok(channel)
}

pub(crate) fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
}

pub(crate) fn text(error: impl ToString) -> String {
    error.to_string()
}

pub(crate) fn check(condition: bool, what: impl ToString) -> Outcome {
    if condition { Ok(()) } else { Err(what.to_string()) }
}

pub(crate) fn equal<T: PartialEq + Debug>(received: T, expected: T, what: &str) -> Outcome {
    check(received == expected, format!("{what}: {received:?}, expected {expected:?}"))
}

/// Prints a line and waits for the harness's answer.
pub(crate) async fn ask(line: &str, answer: &str) -> Outcome {
    println!("{line}");
    // lapin's own tasks must go on meanwhile, so that the read has a thread of its own.
    let reply = tokio::task::spawn_blocking(|| {
        let mut reply = String::new();
        io::stdin().lock().read_line(&mut reply).map(|_| reply)
    });
    let reply = reply.await.map_err(text)?.map_err(text)?;
    equal(reply.trim(), answer, "control")
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(PATIENCE, future).await.map_err(|_| format!("{what}: nothing came"))
}

pub(crate) async fn count(channel: &Channel, queue: &str) -> Outcome<u32> {
    let options = durable().passive();
    Ok(channel.queue_declare(queue.into(), options, FieldTable::default()).await.map_err(text)?.message_count())
}

pub(crate) fn mandatory() -> BasicPublishOptions {
    BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() }
}

/// Publishes persistent messages one by one, each confirmed.
pub(crate) async fn send(channel: &Channel, queue: &str, bodies: &[&[u8]]) -> Outcome {
    for body in bodies {
        let properties = BasicProperties::default().with_delivery_mode(2);
        let confirm =
            channel.basic_publish("".into(), queue.into(), mandatory(), body, properties).await.map_err(text)?;
        let confirmation = within("a confirm", confirm).await?.map_err(text)?;
        check(confirmation.is_ack(), "a publish was refused")?;
        check(confirmation.take_message().is_none(), "a publish came back")?;
    }
    Ok(())
}

pub(crate) async fn take(channel: &Channel, queue: &str, no_ack: bool) -> Outcome<BasicGetMessage> {
    let message = channel.basic_get(queue.into(), BasicGetOptions { no_ack }).await.map_err(text)?;
    message.ok_or_else(|| "the queue is empty".to_owned())
}

pub(crate) async fn empty(channel: &Channel, queue: &str) -> Outcome {
    let message = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.map_err(text)?;
    check(message.is_none(), "the queue isn't empty")
}

pub(crate) fn body(message: &BasicGetMessage) -> String {
    String::from_utf8_lossy(&message.delivery.data).into_owned()
}

pub(crate) async fn consume(channel: &Channel, queue: &str, tag: &str) -> lapin::Result<Consumer> {
    channel.basic_consume(queue.into(), tag.into(), BasicConsumeOptions::default(), FieldTable::default()).await
}

pub(crate) async fn barrier(connection: &Connection) -> Outcome {
    let channel = connection.create_channel().await.map_err(text)?;
    channel.queue_declare("".into(), QueueDeclareOptions::exclusive(), FieldTable::default()).await.map_err(text)?;
    Ok(())
}

/// `act(channel)` on a channel of its own ends with this code and these first words.
pub(crate) async fn fails<T, F: Future<Output = T>>(
    connection: &Connection,
    code: u16,
    words: &str,
    act: impl FnOnce(Channel) -> F,
) -> Outcome {
    let channel = connection.create_channel().await.map_err(text)?;
    let mut events = Box::pin(connection.events_listener());
    // The event repeats the error of the call, also for methods without a reply.
    let (_, error) = tokio::join!(act(channel), async {
        while let Some(event) = events.next().await {
            if let Event::Error(error) = event {
                return Some(error);
            }
        }
        None
    });
    is(error.ok_or("the connection closed without an error")?.kind(), code, words)
}

/// A protocol error with this code and these first words.
pub(crate) fn is(kind: &ErrorKind, code: u16, words: &str) -> Outcome {
    let ErrorKind::ProtocolError(error) = kind else {
        return Err(format!("{code} expected, got {kind:?}"));
    };
    let message = error.get_message().to_string();
    equal(error.get_id(), code, &format!("code ({message})"))?;
    check(message.starts_with(words), format!("text '{message}' doesn't start with '{words}'"))
}
