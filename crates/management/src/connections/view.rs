//! Connections, channels, sessions and links as JSON. Keys are RabbitMQ's, except our own `wait`, `why`, `queued_bytes` and
//! `pending_frames`.

use leveret_broker::PeerCertificate;
use leveret_broker::views::{ChannelView, ConnectionView, IncomingView, OutgoingView, SessionView};
use leveret_model::{Arguments, Value as Argument};
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::columns::Cell;
use crate::history::{Ranges, Subject};
use crate::queues::waiting;
use crate::statistics::{details, put};
use crate::time::idle_since;
use crate::why;

/// The label of the protocol whose connections have publishers and subscriptions.
pub(crate) const STREAM: &str = "stream";

pub(super) fn connection_with_past(api: &Api, view: &ConnectionView, ranges: Option<&Ranges>) -> Value {
    let mut body = connection(api, view);
    api.show_past(Subject::Connection(view.client.name.clone()), &mut body, ranges);
    body
}

pub(super) fn channel_with_past(
    api: &Api,
    view: &ConnectionView,
    channel: &ChannelView,
    ranges: Option<&Ranges>,
) -> Value {
    let mut body = self::channel(api, view, channel);
    api.show_past(Subject::Channel(view.client.name.clone(), channel.number), &mut body, ranges);
    body
}

pub(crate) fn connection(api: &Api, view: &ConnectionView) -> Value {
    let now = api.node().clock().now();
    let (peer, local, encryption) = (view.peer.address, view.peer.local, view.peer.encryption.as_ref());
    let certificate = |field: fn(&PeerCertificate) -> &str| view.peer.certificate().map_or("", field);
    let [incoming, outgoing] = view.octet_rates;
    let mut body = json!({
        "name": view.client.name,
        "node": api.name(),
        "user": view.client.user,
        "user_who_performed_action": view.client.user,
        "vhost": view.client.vhost,
        "protocol": view.protocol.name,
        "type": "network",
        "auth_mechanism": &*view.mechanism,
        "state": view.status.state.name(),
        "wait": view.status.wait.map(|wait| waiting(wait, now)),
        "why": why::of_connection(api, view.status.wait, view.paced_by, now),
        "connected_at": now.wall_ms_at(view.connected),
        "channels": view.channel_count(),
        "channel_max": view.channel_max,
        "frame_max": view.frame_max,
        "timeout": view.timeout_s,
        "client_properties": view.client_properties.to_json(),
        "host": local.ip().to_string(),
        "port": local.port(),
        "peer_host": peer.ip().to_string(),
        "peer_port": peer.port(),
        "recv_oct": view.totals.bytes_in,
        "recv_oct_details": details(incoming),
        "recv_cnt": view.totals.reads,
        "send_oct": view.totals.bytes_out,
        "send_oct_details": details(outgoing),
        "send_cnt": view.totals.writes,
        "send_pend": view.queued_bytes,
        "queued_bytes": view.queued_bytes,
        "pending_frames": view.pending_frames,
        "ssl": encryption.is_some(),
        "ssl_protocol": encryption.map_or("", |encryption| encryption.protocol()),
        "ssl_key_exchange": encryption.map_or("", |encryption| encryption.key_exchange()),
        "ssl_cipher": encryption.map_or("", |encryption| encryption.cipher()),
        "ssl_hash": encryption.map_or("", |encryption| encryption.hash()),
        "peer_cert_subject": certificate(|certificate| &certificate.subject),
        "peer_cert_issuer": certificate(|certificate| &certificate.issuer),
        "peer_cert_serial_number": certificate(|certificate| &certificate.serial_number),
        "peer_cert_validity": certificate(|certificate| &certificate.validity),
    });
    if let Some(name) = user_provided_name(&view.client_properties) {
        body["user_provided_name"] = json!(name);
    }
    if let Some(container) = &view.container_id {
        body["container_id"] = json!(&**container);
    }
    if view.protocol.label == STREAM {
        body["publishers"] = json!(view.publishers.len());
        body["subscriptions"] = json!(view.subscriptions.len());
    }
    if !view.protocol.has_channels {
        // Taken from the channels where the protocol has channels.
        body["message_stats"] = json!({
            "publish": view.totals.published,
            "confirm": view.totals.confirmed,
            "deliver": view.totals.all_delivered_ack(),
            "deliver_no_ack": view.totals.all_delivered_no_ack(),
            "redeliver": view.totals.all_redelivered(),
            "ack": view.totals.all_acked(),
            "return_unroutable": view.totals.unroutable_returned,
            "drop_unroutable": view.totals.unroutable_dropped,
        });
    }
    body
}

fn user_provided_name(properties: &Arguments) -> Option<&str> {
    properties.get("connection_name").and_then(Argument::as_str)
}

/// A column of a channel, as in [`channel`].
pub(super) fn channel_cell(api: &Api, view: &ConnectionView, channel: &ChannelView, column: &str) -> Cell {
    match column {
        "name" => format!("{} ({})", view.client.name, channel.number).into(),
        "number" => channel.number.into(),
        "node" => api.name().into(),
        "user" | "user_who_performed_action" => (&*view.client.user).into(),
        "vhost" => (&*view.client.vhost).into(),
        "state" => view.status.state.name().into(),
        "confirm" => channel.confirms.into(),
        "transactional" => channel.transactional.into(),
        "prefetch_count" => channel.prefetch.into(),
        "consumer_count" => json!(channel.consumers).into(),
        "messages_unacknowledged" => json!(channel.unacknowledged).into(),
        "messages_unconfirmed" => json!(channel.unconfirmed).into(),
        _ => Cell::Costly,
    }
}

pub(super) fn channel(api: &Api, view: &ConnectionView, channel: &ChannelView) -> Value {
    let name = format!("{} ({})", view.client.name, channel.number);
    let now = api.node().clock().now();
    let mut body = json!({
        "name": name,
        "number": channel.number,
        "node": api.name(),
        "user": view.client.user,
        "user_who_performed_action": view.client.user,
        "vhost": view.client.vhost,
        "connection_details": {
            "name": view.client.name,
            "peer_host": view.peer.address.ip().to_string(),
            "peer_port": view.peer.address.port(),
        },
        "state": view.status.state.name(),
        "wait": view.status.wait.map(|wait| waiting(wait, now)),
        "why": why::of_connection(api, view.status.wait, view.paced_by, now),
        "confirm": channel.confirms,
        "transactional": channel.transactional,
        "prefetch_count": channel.prefetch,
        "consumer_count": channel.consumers,
        "messages_unacknowledged": channel.unacknowledged,
        "messages_unconfirmed": channel.unconfirmed,
        "messages_uncommitted": channel.uncommitted,
        "acks_uncommitted": channel.acks_uncommitted,
        "pending_raft_commands": 0,
        "cached_segments": 0,
        "idle_since": idle_since(api, channel.stats.used()),
    });
    if channel.shared_prefetch > 0 {
        body["global_prefetch_count"] = channel.shared_prefetch.into();
    }
    if channel.stats.used() > 0 {
        let mut stats = Map::new();
        let (mut handed_out, mut rate_out) = (0, 0.0);
        for (stat, total, rate) in channel.stats.shown(now.monotonic) {
            put(&mut stats, stat.name(), total, rate);
            if matches!(stat.name(), "deliver" | "deliver_no_ack" | "get" | "get_no_ack") {
                handed_out += total;
                rate_out += rate;
            }
        }
        put(&mut stats, "deliver_get", handed_out, rate_out);
        body["message_stats"] = Value::Object(stats);
    }
    body
}

/// The sessions of a connection with their links, and the state of its writer.
pub(super) fn sessions(api: &Api, view: &ConnectionView) -> Value {
    let writer = json!({"queued_bytes": view.queued_bytes, "pending_frames": view.pending_frames});
    let shown = view.sessions.iter().map(|session| self::session(api, session, &writer));
    Value::Array(shown.collect())
}

fn session(api: &Api, session: &SessionView, writer: &Value) -> Value {
    json!({
        "channel_number": session.channel,
        "handle_max": session.handle_max,
        "next_incoming_id": session.next_incoming_id,
        "incoming_window": session.incoming_window,
        "next_outgoing_id": session.next_outgoing_id,
        "remote_incoming_window": session.remote_incoming_window,
        "remote_outgoing_window": session.remote_outgoing_window,
        "outgoing_unsettled_deliveries": session.unsettled,
        "pending_deliveries": session.pending,
        "writer": writer,
        "incoming_links": session.incoming.iter().map(incoming).collect::<Vec<_>>(),
        "outgoing_links": session.outgoing.iter().map(|link| outgoing(api, link)).collect::<Vec<_>>(),
    })
}

fn incoming(link: &IncomingView) -> Value {
    json!({
        "handle": link.handle,
        "link_name": &*link.name,
        "target_address": link.target.as_deref(),
        "snd_settle_mode": link.settle_mode,
        "max_message_size": link.max_message_size,
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "unconfirmed_messages": link.unconfirmed,
    })
}

fn outgoing(api: &Api, link: &OutgoingView) -> Value {
    let now = api.node().clock().now();
    json!({
        "handle": link.handle,
        "link_name": &*link.name,
        "source_address": &*link.source,
        "queue_name": link.queue.as_deref(),
        "send_settled": link.settled,
        "max_message_size": match link.max_message_size {
            0 => json!("unlimited"),
            bytes => json!(bytes),
        },
        "filter": [],
        "consumer_timeout": link.timeout_ms.map_or(json!(false), |milliseconds| json!(milliseconds)),
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "wait": link.wait.map(|wait| waiting(wait, now)),
    })
}
