//! Keys of commands, without bit 15, which marks a response.

macro_rules! keys {
    ($($(#[$doc:meta])* $constant:ident = $number:literal $name:literal,)*) => {
        $($(#[$doc])* pub const $constant: u16 = $number;)*

        /// The name of a key, for logs and error texts.
        #[must_use]
        pub const fn name(key: u16) -> Option<&'static str> {
            match key {
                $($number => Some($name),)*
                _ => None,
            }
        }
    };
}

keys! {
    /// A client declares a publisher.
    DECLARE_PUBLISHER = 1 "declare_publisher",
    /// A client publishes messages.
    PUBLISH = 2 "publish",
    /// The server confirms messages.
    PUBLISH_CONFIRM = 3 "publish_confirm",
    /// The server refuses messages.
    PUBLISH_ERROR = 4 "publish_error",
    /// A client asks for the last publishing id of a named publisher.
    QUERY_PUBLISHER_SEQUENCE = 5 "query_publisher_sequence",
    /// A client deletes a publisher.
    DELETE_PUBLISHER = 6 "delete_publisher",
    /// A client subscribes to a stream.
    SUBSCRIBE = 7 "subscribe",
    /// The server delivers a chunk.
    DELIVER = 8 "deliver",
    /// A client grants credit. The response is sent only if it is refused.
    CREDIT = 9 "credit",
    /// A client stores an offset.
    STORE_OFFSET = 10 "store_offset",
    /// A client asks for a stored offset.
    QUERY_OFFSET = 11 "query_offset",
    /// A client ends a subscription.
    UNSUBSCRIBE = 12 "unsubscribe",
    /// A client creates a stream.
    CREATE = 13 "create",
    /// A client deletes a stream.
    DELETE = 14 "delete",
    /// A client asks for leaders and replicas of streams.
    METADATA = 15 "metadata",
    /// The server reports that a stream isn't available any more.
    METADATA_UPDATE = 16 "metadata_update",
    /// Client and server exchange their properties.
    PEER_PROPERTIES = 17 "peer_properties",
    /// A client asks for the SASL mechanisms.
    SASL_HANDSHAKE = 18 "sasl_handshake",
    /// A client authenticates.
    SASL_AUTHENTICATE = 19 "sasl_authenticate",
    /// Server and client agree on the largest frame and the heartbeat.
    TUNE = 20 "tune",
    /// A client enters a virtual host.
    OPEN = 21 "open",
    /// Either side closes the connection.
    CLOSE = 22 "close",
    /// A heartbeat of either side.
    HEARTBEAT = 23 "heartbeat",
    /// A client asks for the streams of a routing key.
    ROUTE = 24 "route",
    /// A client asks for the partitions of a super stream.
    PARTITIONS = 25 "partitions",
    /// The server makes a consumer of a group active or inactive; the client answers where to begin.
    CONSUMER_UPDATE = 26 "consumer_update",
    /// Client and server exchange the versions of commands that they speak.
    EXCHANGE_COMMAND_VERSIONS = 27 "exchange_command_versions",
    /// A client asks for statistics of a stream.
    STREAM_STATS = 28 "stream_stats",
    /// A client creates a super stream.
    CREATE_SUPER_STREAM = 29 "create_super_stream",
    /// A client deletes a super stream.
    DELETE_SUPER_STREAM = 30 "delete_super_stream",
    /// A client asks for the offset that an offset specification means.
    RESOLVE_OFFSET_SPEC = 31 "resolve_offset_spec",
}

/// The keys that a server of RabbitMQ 4.3 names in its answer to [`EXCHANGE_COMMAND_VERSIONS`], each with its lowest
/// and highest version.
pub const VERSIONS: &[(u16, u16, u16)] = &[
    (DECLARE_PUBLISHER, 1, 1),
    (PUBLISH, 1, 2),
    (QUERY_PUBLISHER_SEQUENCE, 1, 1),
    (DELETE_PUBLISHER, 1, 1),
    (SUBSCRIBE, 1, 1),
    (CREDIT, 1, 1),
    (STORE_OFFSET, 1, 1),
    (QUERY_OFFSET, 1, 1),
    (UNSUBSCRIBE, 1, 1),
    (CREATE, 1, 1),
    (DELETE, 1, 1),
    (METADATA, 1, 1),
    (CLOSE, 1, 1),
    (HEARTBEAT, 1, 1),
    (ROUTE, 1, 1),
    (PARTITIONS, 1, 1),
    (STREAM_STATS, 1, 1),
    (CREATE_SUPER_STREAM, 1, 1),
    (DELETE_SUPER_STREAM, 1, 1),
    (RESOLVE_OFFSET_SPEC, 1, 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_1_to_31_have_names_and_others_have_none() {
        for key in 1..=31 {
            assert!(name(key).is_some(), "{key}");
        }
        assert_eq!((name(0), name(32), name(0x8001)), (None, None, None));
        assert_eq!((name(PUBLISH), name(RESOLVE_OFFSET_SPEC)), (Some("publish"), Some("resolve_offset_spec")));
    }

    #[test]
    fn the_versions_rise_by_key_and_only_publish_has_two() {
        assert!(VERSIONS.is_sorted_by(|a, b| a.0 < b.0));
        let two: Vec<u16> = VERSIONS.iter().filter(|(_, low, high)| low != high).map(|version| version.0).collect();
        assert_eq!(two, [PUBLISH]);
    }
}
