//! Nodes with backends, and logins over each protocol.

use std::net::SocketAddr;
use std::process::Command;

use leveret_strict_client::amqp10::{Event, Mechanism, Options as Amqp10Options};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::mqtt::{Login as MqttLogin, MqttClient};
use leveret_tests::node::{Node, Options, binary};
use leveret_tests::stream::{Login as StreamLogin, StreamClient};
use leveret_tests::wire::{Frame, Login, PROTOCOL_HEADER, Tuning, Wire, declare_arguments, method, method_frame};

use crate::service::Service;

/// A refused login and a cancelled consumer are told.
const CAPABILITIES: [&str; 2] = ["authentication_failure_close", "consumer_cancel_notify"];

/// Options of a node with all protocols.
pub(crate) fn options() -> Options {
    Options::new().set("debug.refused_login_delay_ms", 0)
}

/// Options of a node that asks this service.
pub(crate) fn asking(service: &Service) -> Options {
    asking_at(service.port).set("auth_backends.1", "http").set("auth_backends.2", "internal")
}

/// The addresses of a service.
pub(crate) fn asking_at(port: u16) -> Options {
    let mut options = options();
    for path in ["user", "vhost", "resource", "topic"] {
        options = options.set(&format!("auth_http.{path}_path"), format!("http://127.0.0.1:{port}/{path}"));
    }
    options
}

/// A login over AMQP 0-9-1.
pub(crate) fn amqp091(address: SocketAddr, user: &str, password: &str) -> Result<Wire, Frame> {
    let mut wire = Wire::connect(address);
    wire.send(PROTOCOL_HEADER);
    let _ = wire.next_method(method::CONNECTION_START)?;
    wire.log_in(
        Tuning { frame_max: 0, heartbeat: 0 },
        &Login { user, password, capabilities: &CAPABILITIES, ..Login::default() },
    )?;
    wire.open_channel(1);
    Ok(wire)
}

/// Whether a login over AMQP 1.0 is accepted.
pub(crate) fn amqp10(address: SocketAddr, user: &str, password: &str) -> Option<Amqp10> {
    let mechanism = Mechanism::Plain { user: user.into(), password: password.into() };
    let mut client = Amqp10::connect(address, Amqp10Options { mechanism, ..Amqp10Options::default() });
    let seen = client.wait_any("an outcome", |event| matches!(event, Event::Opened { .. } | Event::SaslFailed(_)));
    matches!(seen.event, Event::Opened { .. }).then_some(client)
}

/// A login over the stream protocol.
pub(crate) fn stream(node: &Node, user: &str, password: &str) -> Result<StreamClient, u16> {
    let mut client = StreamClient::connect(node.streams());
    client.log_in(&StreamLogin { user, password, ..StreamLogin::default() }).map(|()| client)
}

/// Whether a login over MQTT is accepted.
pub(crate) fn mqtt(node: &Node, client_id: &str, user: &str, password: &str) -> Option<MqttClient> {
    let login = MqttLogin { user: Some((user, password)), ..MqttLogin::default() };
    let mut client = MqttClient::connect(node.mqtt(), client_id, login);
    let (code, _) = client.connack();
    (code.0 == 0).then_some(client)
}

/// The error with which the declaration of a queue is refused.
pub(crate) fn refused_declare(wire: &mut Wire, channel: u16, queue: &str) -> (u16, String) {
    wire.send(&method_frame(channel, method::QUEUE_DECLARE, &declare_arguments(queue, false)));
    let refused = wire.next_method(method::QUEUE_DECLARE_OK).expect_err("is refused");
    refused.reason().expect("a reason")
}

/// Runs `rabbitmqctl` with these words. Returns its exit status and all that it prints.
pub(crate) fn ctl(node: &Node, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(binary());
    command.arg("ctl").args(words).env("LEVERET_DATA_DIR", node.directory()).env_remove("RABBITMQ_NODENAME");
    let output = command.output().expect("run the binary");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code().expect("no signal"), text)
}
