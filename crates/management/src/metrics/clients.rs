//! Families of connections and channels. Nothing is stored for them: connections are asked, a few at a time, and each
//! response is reduced to a row of numbers.

use std::sync::Arc;

use leveret_broker::stats::{STATS, Stat};
use leveret_broker::views::{ChannelView, ConnectionView};
use leveret_metrics::Kind::{Counter, Gauge};

use super::family::{Family, Group};
use crate::api::Api;
use crate::connections::{BATCH, ask_briefly};

/// An open connection.
pub(super) struct ConnectionRow {
    name: Arc<str>,
    bytes: [u64; 2],
    packets: [u64; 2],
    pending: u64,
    channels: u64,
}

/// A channel of AMQP 0-9-1.
pub(super) struct ChannelRow {
    name: String,
    consumers: u64,
    prefetch: u64,
    shared_prefetch: u64,
    unacknowledged: u64,
    unconfirmed: u64,
    uncommitted: u64,
    acks_uncommitted: u64,
}

/// Counts of a channel for an exchange or a queue.
pub(super) struct CountedRow {
    channel: Arc<str>,
    vhost: Arc<str>,
    /// The exchange or queue.
    object: Arc<str>,
    counts: [u64; STATS],
}

impl ConnectionRow {
    fn of(view: &ConnectionView) -> Self {
        ConnectionRow {
            name: view.client.name.clone(),
            bytes: [view.totals.bytes_in, view.totals.bytes_out],
            packets: [view.totals.reads, view.totals.writes],
            pending: view.pending_frames as u64,
            channels: view.channel_count() as u64,
        }
    }
}

impl ChannelRow {
    fn of(view: &ConnectionView, channel: &ChannelView) -> Self {
        ChannelRow {
            name: format!("{} ({})", view.client.name, channel.number),
            consumers: channel.consumers as u64,
            prefetch: u64::from(channel.prefetch),
            shared_prefetch: u64::from(channel.shared_prefetch),
            unacknowledged: channel.unacknowledged as u64,
            unconfirmed: channel.unconfirmed,
            uncommitted: channel.uncommitted as u64,
            acks_uncommitted: channel.acks_uncommitted as u64,
        }
    }
}

impl CountedRow {
    fn count(&self, stat: Stat) -> u64 {
        self.counts[stat as usize]
    }
}

/// Counts of channels by exchange and by queue.
#[derive(Default)]
pub(super) struct Counted {
    pub exchanges: Vec<CountedRow>,
    pub queues: Vec<CountedRow>,
}

impl Counted {
    fn add(&mut self, view: &ConnectionView, channel: &ChannelView) {
        let Some(by_object) = channel.stats.by_object() else { return };
        let name: Arc<str> = format!("{} ({})", view.client.name, channel.number).into();
        let row = |(object, counts): (&Arc<str>, &[u64; STATS])| CountedRow {
            channel: name.clone(),
            vhost: view.client.vhost.clone(),
            object: object.clone(),
            counts: *counts,
        };
        self.exchanges.extend(by_object.exchanges().map(row));
        let began = self.queues.len();
        self.queues.extend(by_object.queues().map(row));
        self.queues[began..].sort_by(|a, b| a.object.cmp(&b.object));
    }
}

/// Sums over all connections and channels.
#[derive(Default)]
pub(super) struct ClientSums {
    pub connections: u64,
    pub channels: u64,
    pub sessions: u64,
    pub pending: u64,
    consumers: u64,
    prefetch: u64,
    shared_prefetch: u64,
    unacknowledged: u64,
    unconfirmed: u64,
    uncommitted: u64,
    acks_uncommitted: u64,
}

/// All connections and channels.
#[derive(Default)]
pub(super) struct Clients {
    pub sums: ClientSums,
    pub connections: Vec<ConnectionRow>,
    pub channels: Vec<ChannelRow>,
    pub counted: Counted,
}

/// Asks all connections; rows are only kept if wanted.
pub(super) async fn read(api: &Api, with_rows: bool) -> Clients {
    let all = api.broker().clients();
    let mut clients = Clients::default();
    clients.sums.connections = all.len() as u64;
    for batch in all.chunks(BATCH) {
        for view in ask_briefly(api, batch).await {
            clients.sums.pending += view.pending_frames as u64;
            clients.sums.sessions += view.sessions.len() as u64;
            for channel in &view.channels {
                clients.sums.add(channel);
                if with_rows {
                    clients.channels.push(ChannelRow::of(&view, channel));
                    clients.counted.add(&view, channel);
                }
            }
            if with_rows {
                clients.connections.push(ConnectionRow::of(&view));
            }
        }
    }
    clients
}

impl ClientSums {
    fn add(&mut self, channel: &ChannelView) {
        self.channels += 1;
        self.consumers += channel.consumers as u64;
        self.prefetch += u64::from(channel.prefetch);
        self.shared_prefetch += u64::from(channel.shared_prefetch);
        self.unacknowledged += channel.unacknowledged as u64;
        self.unconfirmed += channel.unconfirmed;
        self.uncommitted += channel.uncommitted as u64;
        self.acks_uncommitted += channel.acks_uncommitted as u64;
    }
}

type OfConnection = Family<ConnectionRow>;
type OfChannel = Family<ChannelRow>;
type OfCounted = Family<CountedRow>;

/// RabbitMQ's label of a connection has this name too. There it is an Erlang process, here the connection's name.
const CONNECTION_LABELS: &[&str] = &["channel"];

/// Bytes of connections.
pub(super) const BYTES: Group<ConnectionRow> = Group {
    name: "connection_coarse_metrics",
    labels: CONNECTION_LABELS,
    label: |row| vec![&row.name],
    families: &[
        OfConnection::both(
            "connection_incoming_bytes_total",
            Counter,
            "Total number of bytes received on a connection",
            |node| node.totals.bytes_in.into(),
            |row| Some(row.bytes[0].into()),
        ),
        OfConnection::both(
            "connection_outgoing_bytes_total",
            Counter,
            "Total number of bytes sent on a connection",
            |node| node.totals.bytes_out.into(),
            |row| Some(row.bytes[1].into()),
        ),
    ],
};

/// Other families of connections. Packets are reads and writes of the socket, as in RabbitMQ.
pub(super) const CONNECTIONS: Group<ConnectionRow> = Group {
    name: "connection_metrics",
    labels: CONNECTION_LABELS,
    label: |row| vec![&row.name],
    families: &[
        OfConnection::both(
            "connection_incoming_packets_total",
            Counter,
            "Total number of packets received on a connection",
            |node| node.totals.reads.into(),
            |row| Some(row.packets[0].into()),
        ),
        OfConnection::both(
            "connection_outgoing_packets_total",
            Counter,
            "Total number of packets sent on a connection",
            |node| node.totals.writes.into(),
            |row| Some(row.packets[1].into()),
        ),
        OfConnection::both(
            "connection_pending_packets",
            Gauge,
            "Number of packets waiting to be sent on a connection",
            |node| node.clients.pending.into(),
            |row| Some(row.pending.into()),
        ),
        OfConnection::both(
            "connection_channels",
            Gauge,
            "Channels on a connection",
            |node| (node.clients.channels + node.clients.sessions).into(),
            |row| Some(row.channels.into()),
        ),
    ],
};

/// Sizes of channels.
pub(super) const CHANNELS: Group<ChannelRow> = Group {
    name: "channel_metrics",
    labels: &["channel"],
    label: |row| vec![&row.name],
    families: &[
        OfChannel::both(
            "channel_consumers",
            Gauge,
            "Consumers on a channel",
            |node| node.clients.consumers.into(),
            |row| Some(row.consumers.into()),
        ),
        OfChannel::both(
            "channel_messages_unacked",
            Gauge,
            "Delivered but not yet acknowledged messages",
            |node| node.clients.unacknowledged.into(),
            |row| Some(row.unacknowledged.into()),
        ),
        OfChannel::both(
            "channel_messages_unconfirmed",
            Gauge,
            "Published but not yet confirmed messages",
            |node| node.clients.unconfirmed.into(),
            |row| Some(row.unconfirmed.into()),
        ),
        OfChannel::both(
            "channel_messages_uncommitted",
            Gauge,
            "Messages received in a transaction but not yet committed",
            |node| node.clients.uncommitted.into(),
            |row| Some(row.uncommitted.into()),
        ),
        OfChannel::both(
            "channel_acks_uncommitted",
            Gauge,
            "Message acknowledgements in a transaction not yet committed",
            |node| node.clients.acks_uncommitted.into(),
            |row| Some(row.acks_uncommitted.into()),
        ),
        OfChannel::both(
            "channel_prefetch",
            Gauge,
            "Total limit of unacknowledged messages for all consumers on a channel",
            |node| node.clients.shared_prefetch.into(),
            |row| Some(row.shared_prefetch.into()),
        ),
        OfChannel::both(
            "consumer_prefetch",
            Gauge,
            "Limit of unacknowledged messages for each consumer",
            |node| node.clients.prefetch.into(),
            |row| Some(row.prefetch.into()),
        ),
    ],
};

/// Publishes of channels; totals are counted by the node, so that they don't decrease when a channel closes.
pub(super) const CHANNEL_PUBLISHES: Group<CountedRow> = Group {
    name: "channel_exchange_metrics",
    labels: &["channel", "vhost", "exchange"],
    label: |row| vec![&row.channel, &row.vhost, &row.object],
    families: &[
        OfCounted::both(
            "channel_messages_published_total",
            Counter,
            "Total number of messages published into an exchange on a channel",
            |node| node.with_channels.published.into(),
            |row| Some(row.count(Stat::Publish).into()),
        ),
        OfCounted::both(
            "channel_messages_confirmed_total",
            Counter,
            "Total number of messages published into an exchange and confirmed on the channel",
            |node| node.with_channels.confirmed.into(),
            |row| Some(row.count(Stat::Confirm).into()),
        ),
        OfCounted::both(
            "channel_messages_unroutable_returned_total",
            Counter,
            "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
            |node| node.with_channels.unroutable_returned.into(),
            |row| Some(row.count(Stat::ReturnUnroutable).into()),
        ),
        OfCounted::both(
            "channel_messages_unroutable_dropped_total",
            Counter,
            "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
            |node| node.with_channels.unroutable_dropped.into(),
            |row| Some(row.count(Stat::DropUnroutable).into()),
        ),
    ],
};

/// Deliveries to channels.
pub(super) const CHANNEL_DELIVERIES: Group<CountedRow> = Group {
    name: "channel_queue_metrics",
    labels: &["channel", "vhost", "queue"],
    label: |row| vec![&row.channel, &row.vhost, &row.object],
    families: &[
        OfCounted::both(
            "channel_get_ack_total",
            Counter,
            "Total number of messages fetched with basic.get in manual acknowledgement mode",
            |node| node.with_channels.all_get_ack().into(),
            |row| Some(row.count(Stat::Get).into()),
        ),
        OfCounted::both(
            "channel_get_total",
            Counter,
            "Total number of messages fetched with basic.get in automatic acknowledgement mode",
            |node| node.with_channels.all_get_no_ack().into(),
            |row| Some(row.count(Stat::GetNoAck).into()),
        ),
        OfCounted::both(
            "channel_messages_delivered_ack_total",
            Counter,
            "Total number of messages delivered to consumers in manual acknowledgement mode",
            |node| node.with_channels.all_delivered_ack().into(),
            |row| Some(row.count(Stat::Deliver).into()),
        ),
        OfCounted::both(
            "channel_messages_delivered_total",
            Counter,
            "Total number of messages delivered to consumers in automatic acknowledgement mode",
            |node| node.with_channels.all_delivered_no_ack().into(),
            |row| Some(row.count(Stat::DeliverNoAck).into()),
        ),
        OfCounted::both(
            "channel_messages_redelivered_total",
            Counter,
            "Total number of messages redelivered to consumers",
            |node| node.with_channels.all_redelivered().into(),
            |row| Some(row.count(Stat::Redeliver).into()),
        ),
        OfCounted::both(
            "channel_messages_acked_total",
            Counter,
            "Total number of messages acknowledged by consumers",
            |node| node.with_channels.all_acked().into(),
            |row| Some(row.count(Stat::Ack).into()),
        ),
        OfCounted::both(
            "channel_get_empty_total",
            Counter,
            "Total number of times basic.get operations fetched no message",
            |node| node.with_channels.all_get_empty().into(),
            |row| Some(row.count(Stat::GetEmpty).into()),
        ),
    ],
};
