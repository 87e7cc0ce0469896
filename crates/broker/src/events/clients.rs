//! Events of connections, channels, consumers, logins and alarms.

use leveret_message::own::HeaderTable;
use leveret_model::{Arguments, Value};

use super::{Event, address, process};
use crate::alarms::AlarmSource;
use crate::notices::Notices;
use crate::peer::Peer;
use crate::time::Now;
use crate::views::{Client, ConnectionView};

/// The protocol's version, as Erlang shows it.
fn version(protocol: &str) -> &'static str {
    if protocol.contains("0-9-1") { "{0,9,1}" } else { "{1,0}" }
}

/// The name that a client gave its connection.
fn provided_name(properties: &Arguments) -> Option<&str> {
    properties.get("connection_name").and_then(Value::as_str)
}

/// A connection was opened.
pub fn connection_opened(notices: &Notices, view: &ConnectionView, now: Now) {
    notices.event("connection.created", || opened(notices.node(), view, now));
}

fn opened(node: &str, view: &ConnectionView, now: Now) -> HeaderTable {
    let ConnectionView { client, peer, protocol, .. } = view;
    let encryption = peer.encryption.as_ref();
    let certificate = peer.certificate();
    let of_tls = |text: fn(&crate::Encryption) -> &'static str| encryption.map_or("", text);
    let mut event = Event::new()
        .text("type", "network")
        .text("pid", process(node, client.id.counter(), 0))
        .text("name", &*client.name)
        .number("port", peer.local.port())
        .number("peer_port", peer.address.port())
        .text("host", address(peer.local.ip()))
        .text("peer_host", address(peer.address.ip()))
        .flag("ssl", encryption.is_some())
        .text("peer_cert_subject", certificate.map_or("", |known| &known.subject))
        .text("peer_cert_issuer", certificate.map_or("", |known| &known.issuer))
        .text("peer_cert_serial_number", certificate.map_or("", |known| &known.serial_number))
        .text("peer_cert_validity", certificate.map_or("", |known| &known.validity))
        .text("auth_mechanism", &*view.mechanism)
        .text("ssl_protocol", of_tls(crate::Encryption::protocol))
        .text("ssl_key_exchange", of_tls(crate::Encryption::key_exchange))
        .text("ssl_cipher", of_tls(crate::Encryption::cipher))
        .text("ssl_hash", of_tls(crate::Encryption::hash))
        .text("protocol", version(protocol.name))
        .text("user", &*client.user)
        .text("vhost", &*client.vhost)
        .number("timeout", view.timeout_s)
        .number("frame_max", view.frame_max)
        .number("channel_max", view.channel_max)
        .arguments("client_properties", &view.client_properties)
        .number("connected_at", now.wall_ms_at(view.connected))
        .text("node", node)
        .by(&client.user);
    if let Some(container) = &view.container_id {
        event = event.text("container_id", &**container);
    }
    named(event, view).table()
}

fn named(event: Event, view: &ConnectionView) -> Event {
    match provided_name(&view.client_properties) {
        Some(name) => event.text("user_provided_name", name),
        None => event,
    }
}

/// A connection was closed, by whomever.
pub fn connection_closed(notices: &Notices, view: &ConnectionView) {
    notices.event("connection.closed", || {
        let event = Event::new()
            .text("name", &*view.client.name)
            .text("pid", process(notices.node(), view.client.id.counter(), 0))
            .text("node", notices.node())
            .arguments("client_properties", &view.client_properties);
        named(event, view).table()
    });
}

/// A user logged in, over this protocol.
pub fn logged_in(notices: &Notices, user: &str, client: &Client, protocol: &str, (peer, mechanism): (&Peer, &str)) {
    notices.event("user.authentication.success", || login(user, client, protocol, peer, mechanism).table());
}

/// A login failed, for this reason.
pub fn login_failed(
    notices: &Notices,
    (user, reason): (&str, &str),
    client: &Client,
    protocol: &str,
    (peer, mechanism): (&Peer, &str),
) {
    notices.event("user.authentication.failure", || {
        // Without the words that the log has before it.
        let reason = reason.split_once(" login refused: ").map_or(reason, |(_, reason)| reason);
        login(user, client, protocol, peer, mechanism).text("error", reason).table()
    });
}

fn login(user: &str, client: &Client, protocol: &str, peer: &Peer, mechanism: &str) -> Event {
    Event::new()
        .text("connection_type", "network")
        .text("name", user)
        .text("connection_name", &*client.name)
        .text("host", address(peer.local.ip()))
        .text("peer_host", address(peer.address.ip()))
        .number("peer_port", peer.address.port())
        .text("protocol", version(protocol))
        .text("auth_mechanism", mechanism)
        .flag("ssl", peer.encryption.is_some())
}

/// A channel or session was opened.
pub fn channel_opened(notices: &Notices, client: &Client, number: u16) {
    notices.event("channel.created", || {
        Event::new()
            .text("pid", process(notices.node(), client.id.counter(), number))
            .text("name", format!("{} ({number})", client.name))
            .text("connection", process(notices.node(), client.id.counter(), 0))
            .number("number", number)
            .text("user", &*client.user)
            .text("vhost", &*client.vhost)
            .by(&client.user)
            .table()
    });
}

/// A channel or session was closed, with this number of consumers.
pub fn channel_closed(notices: &Notices, client: &Client, number: u16, consumers: usize) {
    notices.event("channel.closed", || {
        Event::new()
            .text("pid", process(notices.node(), client.id.counter(), number))
            .number("consumer_count", consumers as u64)
            .by(&client.user)
            .table()
    });
}

/// The consumer of an event.
#[derive(Clone, Copy)]
pub struct ConsumerEvent<'a> {
    /// The number of its channel or session.
    pub channel: u16,
    /// Its tag, or the name of its link.
    pub tag: &'a [u8],
    /// The name of its queue.
    pub queue: &'a str,
}

impl ConsumerEvent<'_> {
    fn event(&self, node: &str, client: &Client) -> Event {
        Event::new()
            .text("consumer_tag", self.tag)
            .text("channel", process(node, client.id.counter(), self.channel))
            .text("queue", self.queue)
            .text("vhost", &*client.vhost)
            .by(&client.user)
    }
}

/// A consumer was added.
pub fn consumer_added(
    notices: &Notices,
    client: &Client,
    consumer: &ConsumerEvent<'_>,
    (exclusive, no_ack, prefetch): (bool, bool, u16),
    arguments: &Arguments,
) {
    notices.event("consumer.created", || {
        consumer
            .event(notices.node(), client)
            .flag("exclusive", exclusive)
            .flag("ack_required", !no_ack)
            .number("prefetch_count", prefetch)
            .arguments("arguments", arguments)
            .table()
    });
}

/// A consumer ended.
pub fn consumer_removed(notices: &Notices, client: &Client, consumer: &ConsumerEvent<'_>) {
    notices.event("consumer.deleted", || consumer.event(notices.node(), client).table());
}

/// An alarm was raised or cleared.
pub fn alarm_changed(notices: &Notices, source: AlarmSource, raised: bool) {
    notices.event(if raised { "alarm.set" } else { "alarm.cleared" }, || {
        Event::new().text("source", source.name()).text("node", notices.node()).table()
    });
}
