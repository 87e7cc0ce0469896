//! Values determined by the scene, which have to equal RabbitMQ's in addition to their types.

/// The paths of a response whose values have to be as recorded.
pub(crate) fn fixed(answer: &str) -> impl Iterator<Item = &'static str> {
    let paths = FIXED.iter().find(|(name, _)| *name == answer).map_or("", |(_, paths)| paths);
    paths.split_whitespace()
}

const FIXED: &[(&str, &str)] = &[
    (
        "queue",
        "messages messages_ready messages_unacknowledged message_bytes message_bytes_ready \
         message_bytes_unacknowledged message_bytes_persistent consumers durable auto_delete exclusive type \
         state vhost name arguments.x-queue-type message_stats.publish message_stats.deliver \
         message_stats.deliver_get message_stats.ack consumer_details.0.prefetch_count \
         consumer_details.0.ack_required consumer_details.0.consumer_tag \
         consumer_details.0.channel_details.number",
    ),
    (
        "queue-arguments",
        "messages messages_unacknowledged arguments.x-max-length arguments.x-dead-letter-exchange consumers",
    ),
    (
        "exchange",
        "type durable auto_delete internal user_who_performed_action message_stats.publish_in \
         message_stats.publish_out",
    ),
    (
        "channel",
        "prefetch_count messages_unacknowledged messages_unconfirmed acks_uncommitted confirm transactional \
         number user vhost consumer_count message_stats.publish message_stats.confirm message_stats.deliver",
    ),
    (
        "connection-091",
        "user vhost protocol channels type ssl auth_mechanism state client_properties.connection_name \
         user_provided_name",
    ),
    ("connection-10", "user vhost protocol type ssl auth_mechanism state channel_max channels"),
    (
        "connection-sessions",
        "0.channel_number 0.handle_max 0.incoming_links.0.target_address 0.incoming_links.0.snd_settle_mode \
         0.incoming_links.0.max_message_size 0.outgoing_links.0.queue_name 0.outgoing_links.0.source_address \
         0.outgoing_links.0.send_settled 0.outgoing_links.0.credit 0.outgoing_links.0.delivery_count \
         0.outgoing_unsettled_deliveries",
    ),
    ("binding", "routing_key properties_key source destination destination_type"),
    ("queue-bindings", "0.routing_key 1.routing_key 1.properties_key 1.source"),
    ("vhost", "name description tags.0 tags.1"),
    ("user", "name hashing_algorithm tags.0"),
    ("permission", "configure write read"),
    ("topic-permission", "exchange write read"),
    ("vhost-limits-one", "0.value.max-queues"),
    ("user-limits-one", "0.value.max-channels"),
    ("whoami", "name tags.0"),
    ("queues-page", "filtered_count page page_size item_count page_count items.0.name"),
    ("health-alarms", "status"),
    ("health-port-none", "status missing reason"),
    ("put-queue-inequivalent", "error reason"),
    ("put-queue-bad-type", "error"),
    ("not-json", "error reason"),
    ("none-queue", "error reason"),
    ("get-bad-ackmode", "error reason"),
    ("publish", "routed"),
    ("publish-default-exchange", "routed"),
    (
        "get-messages",
        "0.payload 0.payload_bytes 0.payload_encoding 0.redelivered 0.exchange 0.routing_key 0.message_count \
         0.properties.delivery_mode 1.payload 1.message_count",
    ),
];
