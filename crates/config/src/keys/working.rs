use super::{Key, Set};
use crate::config::{DiskFreeLimit, Durability, MAX_MESSAGE_SIZE_CAP, MemoryWatermark};
use crate::credentials::ValidationBackend;
use crate::listener::Listener;
use crate::units::{boolean, bytes, float, integer, milliseconds};
use crate::vhost_defaults::DefaultQueueType;

pub(super) const fn key(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    doc: &'static str,
    set: Set,
) -> Key {
    Key { name, kind, default, doc, set }
}

/// Longest timeout of consumers, about 3000 years: some set a very long one in order to have none.
const CONSUMER_TIMEOUT_MS_MAX: u64 = 100_000_000_000_000;

/// Every key that takes effect.
pub(super) const KEYS: &[Key] = &[
    key("listeners.tcp", "none", "", "no listener without TLS", |config, _, value| {
        config.tcp_listeners = Some(none(value)?);
        Ok(())
    }),
    key("listeners.tcp.$name", "[address:]port", "5672", "a listener for AMQP", |config, name, value| {
        let listener = listener(value)?;
        config.tcp_listeners.get_or_insert_default().insert(name.to_owned(), listener);
        Ok(())
    }),
    key(
        "tcp_listen_options.backlog",
        "integer",
        "128",
        "connections that may wait to be accepted",
        |config, _, value| {
            config.tcp_options.backlog = integer(value, 1, 65_535)? as u32;
            Ok(())
        },
    ),
    key("tcp_listen_options.nodelay", "boolean", "true", "send small segments at once", |config, _, value| {
        config.tcp_options.nodelay = boolean(value)?;
        Ok(())
    }),
    key(
        "proxy_protocol",
        "boolean",
        "false",
        "whether every connection of AMQP begins with the header of a proxy (PROXY protocol 1 or 2), before TLS",
        |config, _, value| {
            config.proxy_protocol = boolean(value)?;
            Ok(())
        },
    ),
    key("tcp_listen_options.sndbuf", "bytes", "the system's", "send buffer of a socket", |config, _, value| {
        config.tcp_options.sndbuf = Some(socket_buffer(value)?);
        Ok(())
    }),
    key("tcp_listen_options.recbuf", "bytes", "the system's", "receive buffer of a socket", |config, _, value| {
        config.tcp_options.recbuf = Some(socket_buffer(value)?);
        Ok(())
    }),
    key(
        "tcp_listen_options.keepalive",
        "boolean",
        "false",
        "let the system probe idle connections",
        |config, _, value| {
            config.tcp_options.keepalive = boolean(value)?;
            Ok(())
        },
    ),
    key("management.tcp.port", "port", "15672", "port of the HTTP API; 0 for any free one", |config, _, value| {
        config.management.port = port(value)?;
        Ok(())
    }),
    key("management.tcp.ip", "address", "all", "address of the HTTP API", |config, _, value| {
        config.management.ip = Some(value.to_owned());
        Ok(())
    }),
    key(
        "management.path_prefix",
        "path",
        "",
        "prefix of every path of the HTTP API, such as /rabbitmq",
        |config, _, value| {
            let prefix = value.trim_end_matches('/');
            if !prefix.is_empty() && !prefix.starts_with('/') {
                return Err(format!("'{value}' doesn't begin with a slash"));
            }
            config.management_path_prefix = prefix.to_owned();
            Ok(())
        },
    ),
    key("management.listener.port", "port", "15672", "the older name of management.tcp.port", |config, _, value| {
        config.management.port = port(value)?;
        Ok(())
    }),
    key("management.listener.ip", "address", "all", "the older name of management.tcp.ip", |config, _, value| {
        config.management.ip = Some(value.to_owned());
        Ok(())
    }),
    key("prometheus.tcp.port", "port", "15692", "port of the metrics; 0 for any free one", |config, _, value| {
        config.prometheus.port = port(value)?;
        Ok(())
    }),
    key("prometheus.tcp.ip", "address", "all", "address of the metrics", |config, _, value| {
        config.prometheus.ip = Some(value.to_owned());
        Ok(())
    }),
    key("prometheus.path", "path", "/metrics", "path of the metrics pages", |config, _, value| {
        if !value.starts_with('/') {
            return Err("must begin with a slash".to_owned());
        }
        config.metrics.path = value.trim_end_matches('/').to_owned();
        Ok(())
    }),
    key(
        "prometheus.return_per_object_metrics",
        "boolean",
        "false",
        "whether the main page has lines for each object instead of sums",
        |config, _, value| {
            config.metrics.per_object = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "prometheus.authentication.enabled",
        "boolean",
        "false",
        "whether the metrics require a user with the tag monitoring or a higher one",
        |config, _, value| {
            config.metrics.authentication = boolean(value)?;
            Ok(())
        },
    ),
    key("loopback_users", "none", "", "every user may log in from other machines", |config, _, value| {
        none::<()>(value)?;
        config.loopback_users.clear();
        Ok(())
    }),
    key(
        "loopback_users.$user",
        "boolean",
        "guest = true",
        "whether the user may log in from this machine only",
        |config, user, value| {
            config.loopback_users.retain(|have| have != user);
            if boolean(value)? {
                config.loopback_users.push(user.to_owned());
            }
            Ok(())
        },
    ),
    key("default_user", "name", "guest", "user that is created on an empty data directory", |config, _, value| {
        config.default_user.name = value.to_owned();
        Ok(())
    }),
    key("default_pass", "text", "guest", "its password", |config, _, value| {
        config.default_user.password = value.to_owned();
        Ok(())
    }),
    key("default_vhost", "name", "/", "vhost that is created on an empty data directory", |config, _, value| {
        config.default_user.vhost = value.to_owned();
        Ok(())
    }),
    key(
        "default_permissions.configure",
        "pattern",
        ".*",
        "names of objects that this user may declare and delete",
        |config, _, value| {
            config.default_user.configure = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_permissions.write",
        "pattern",
        ".*",
        "names of objects that this user may publish to",
        |config, _, value| {
            config.default_user.write = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_permissions.read",
        "pattern",
        ".*",
        "names of objects that this user may consume from",
        |config, _, value| {
            config.default_user.read = value.to_owned();
            Ok(())
        },
    ),
    key(
        "default_user_tags.$tag",
        "boolean",
        "administrator = true",
        "whether that user has the tag",
        |config, tag, value| {
            config.default_user.tags.retain(|have| have != tag);
            if boolean(value)? {
                config.default_user.tags.push(tag.to_owned());
            }
            Ok(())
        },
    ),
    key("heartbeat", "seconds", "60", "heartbeat that the server proposes; 0 for none", |config, _, value| {
        let seconds = milliseconds(value, 1000)? / 1000;
        config.heartbeat_s = u16::try_from(seconds).map_err(|_| format!("at most 65535 seconds, got '{value}'"))?;
        Ok(())
    }),
    key("frame_max", "bytes", "131072", "largest frame", |config, _, value| {
        // 4096 is the minimum of the protocol; far more than 128 KiB only costs memory.
        config.frame_max = in_bytes(value, 4096, 16 << 20)? as u32;
        Ok(())
    }),
    key(
        "initial_frame_max",
        "bytes",
        "73728",
        "largest frame before the limits are negotiated (AMQP 0-9-1: tune-ok; 1.0: open): tokens have to fit",
        |config, _, value| {
            config.initial_frame_max = in_bytes(value, 4096, 16 << 20)? as u32;
            Ok(())
        },
    ),
    key(
        "max_channels_per_connection",
        "integer",
        "2047",
        "channels of a connection; 0 for no limit",
        |config, _, value| {
            config.channel_max = integer(value, 0, 65_535)? as u16;
            Ok(())
        },
    ),
    key("channel_max", "integer", "2047", "the older name of max_channels_per_connection", |config, _, value| {
        config.channel_max = integer(value, 0, 65_535)? as u16;
        Ok(())
    }),
    key("max_connections", "integer or infinity", "200000", "connections of the node", |config, _, value| {
        config.max_connections = connections(value)?;
        Ok(())
    }),
    key("connection_max", "integer or infinity", "200000", "the older name of max_connections", |config, _, value| {
        config.max_connections = connections(value)?;
        Ok(())
    }),
    key(
        "handshake_timeout",
        "milliseconds",
        "10000",
        "time after which a socket that hasn't logged in is closed",
        |config, _, value| {
            config.handshake_timeout_ms = integer(&milliseconds(value, 1)?.to_string(), 100, 600_000)?;
            Ok(())
        },
    ),
    key(
        "unauthenticated_bytes_max_per_node",
        "bytes",
        "67108864",
        "memory that sockets without a login may use together; above it the oldest are closed",
        |config, _, value| {
            config.limits.unauthenticated_bytes_max = in_bytes(value, 16 << 10, 1 << 40)?;
            Ok(())
        },
    ),
    key("max_message_size", "bytes", "16777216", "largest body, at most 512 MiB", |config, _, value| {
        let size = bytes(value)?;
        if size > MAX_MESSAGE_SIZE_CAP {
            return Err(format!(
                "'{value}' is more than 512 MiB ({MAX_MESSAGE_SIZE_CAP} bytes), the most that is built"
            ));
        }
        config.limits.max_message_size = size;
        Ok(())
    }),
    key(
        "partial_message_bytes_max_per_connection",
        "bytes",
        "67108864",
        "memory of the unfinished messages of a connection; one message of the largest size always fits",
        |config, _, value| {
            config.limits.partial_message_bytes_max = in_bytes(value, 64 << 10, 1 << 40)?;
            Ok(())
        },
    ),
    key(
        "default_queue_durability",
        "synced, os or memory",
        "synced",
        "guarantee of a confirm in durable queues that were declared without x-durability",
        |config, _, value| {
            config.queue_durability = match value {
                "synced" => Durability::Synced,
                "os" => Durability::Os,
                "memory" => Durability::Memory,
                _ => return Err(format!("expected synced, os or memory, got '{value}'")),
            };
            Ok(())
        },
    ),
    key(
        "default_queue_type",
        "classic, quorum or stream",
        "classic",
        "type of queues that are declared without one, in vhosts that are created from now on",
        |config, _, value| {
            config.vhost_defaults.queue_type = match value {
                "classic" | "rabbit_classic_queue" => DefaultQueueType::Classic,
                "quorum" | "rabbit_quorum_queue" => DefaultQueueType::Quorum,
                "stream" | "rabbit_stream_queue" => DefaultQueueType::Stream,
                _ => return Err(format!("expected classic, quorum or stream, got '{value}'")),
            };
            Ok(())
        },
    ),
    key(
        "credential_validator.validation_backend",
        "name",
        "rabbit_credential_validator_accept_everything",
        "the rule for passwords that are set over HTTP, by the command line or by definitions: \
         `rabbit_credential_validator_min_password_length` (then `min_length` is needed), \
         `rabbit_credential_validator_password_regexp` (`regexp`), or none",
        |config, _, value| {
            config.credential_validator.backend = ValidationBackend::parse(value)?;
            Ok(())
        },
    ),
    key("credential_validator.min_length", "bytes", "", "the least length of a password", |config, _, value| {
        let length = value.parse().map_err(|_| format!("expected a number of bytes, got '{value}'"))?;
        config.credential_validator.min_length = Some(length);
        Ok(())
    }),
    key(
        "credential_validator.regexp",
        "regular expression",
        "",
        "an expression that a part of each password has to match; look-around and back-references work, with a limit of steps",
        |config, _, value| {
            config.credential_validator.regexp = Some(value.to_owned());
            Ok(())
        },
    ),
    key(
        "exchange_types.local_random.enabled",
        "boolean",
        "true",
        "whether local random exchanges (`x-local-random`) can be declared; those that exist stay",
        |config, _, value| {
            config.local_random_exchanges = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "queue_types.classic.enabled",
        "boolean",
        "true",
        "whether classic queues can be declared, exclusive and server-named ones included; those that exist stay",
        |config, _, value| {
            config.vhost_defaults.queue_types.classic = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "queue_types.quorum.enabled",
        "boolean",
        "true",
        "whether quorum queues can be declared; those that exist stay",
        |config, _, value| {
            config.vhost_defaults.queue_types.quorum = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "queue_types.stream.enabled",
        "boolean",
        "true",
        "whether streams can be declared; those that exist stay",
        |config, _, value| {
            config.vhost_defaults.queue_types.stream = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "default_consumer_prefetch",
        "integer",
        "0",
        "prefetch of consumers that set none; 0 for no limit",
        |config, _, value| {
            config.limits.default_consumer_prefetch = integer(value, 0, 65_535)? as u16;
            Ok(())
        },
    ),
    key(
        "consumer_disconnected_timeout",
        "time",
        "60s",
        "time for which a replicated quorum queue waits for its single active consumer while that one's node can't be reached, unless the \
         queue says otherwise; then the next one is active; a bare number is in milliseconds, see cluster.md",
        |config, _, value| {
            let milliseconds = milliseconds(value, 0)?.to_string();
            config.consumer_disconnected_timeout_ms = integer(&milliseconds, 0, CONSUMER_TIMEOUT_MS_MAX)?;
            Ok(())
        },
    ),
    key(
        "consumer_timeout",
        "time",
        "30min",
        "time for which a consumer of a quorum queue may leave a delivery unsettled, unless it or its queue says otherwise; then \
         the message is taken back; a bare number is in milliseconds, see quorum-queues.md",
        |config, _, value| {
            config.consumer_timeout_ms = integer(&milliseconds(value, 1)?.to_string(), 1, CONSUMER_TIMEOUT_MS_MAX)?;
            Ok(())
        },
    ),
    key(
        "disk_free_limit.absolute",
        "bytes",
        "50MB",
        "free disk space below which publishers wait",
        |config, _, value| {
            config.disk_free_limit = DiskFreeLimit::Absolute(bytes(value)?);
            Ok(())
        },
    ),
    key("disk_free_limit.relative", "number", "", "the same as a multiple of memory", |config, _, value| {
        config.disk_free_limit = DiskFreeLimit::Relative(float(value, 0.0, 100.0)?);
        Ok(())
    }),
    key(
        "vm_memory_high_watermark.relative",
        "number",
        "0.6",
        "share of memory above which publishers wait",
        |config, _, value| {
            config.memory_high_watermark = MemoryWatermark::Relative(float(value, 0.0, 1.0)?);
            Ok(())
        },
    ),
    key("vm_memory_high_watermark.absolute", "bytes", "", "the same in bytes", |config, _, value| {
        config.memory_high_watermark = MemoryWatermark::Absolute(bytes(value)?);
        Ok(())
    }),
    key(
        "total_memory_available_override_value",
        "bytes",
        "the system's",
        "memory that relative limits are shares of",
        |config, _, value| {
            config.total_memory_bytes = Some(bytes(value)?);
            Ok(())
        },
    ),
    key(
        "load_definitions",
        "path",
        "",
        "a file or folder with definitions to load at each start",
        |config, _, value| {
            config.load_definitions = Some(value.to_owned());
            Ok(())
        },
    ),
    key("management.load_definitions", "path", "", "the older name of load_definitions", |config, _, value| {
        config.load_definitions = Some(value.to_owned());
        Ok(())
    }),
    key("definitions.local.path", "path", "", "the same as load_definitions", |config, _, value| {
        config.load_definitions = Some(value.to_owned());
        Ok(())
    }),
    key("definitions.import_backend", "name", "local_filesystem", "source of definitions", |_, _, value| match value {
        "local_filesystem" | "local" | "rabbit_definitions_import_local_filesystem" => Ok(()),
        other => Err(format!("'{other}' isn't built yet; local_filesystem is")),
    }),
    key(
        "definitions.skip_if_unchanged",
        "boolean",
        "false",
        "don't load definitions that were loaded before and haven't changed since",
        |config, _, value| {
            config.definitions_skip_if_unchanged = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "definitions.skip_unsupported",
        "boolean",
        "false",
        "load definitions without the objects that can't be imported, which the log names; otherwise the node doesn't start",
        |config, _, value| {
            config.definitions_skip_unsupported = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "cluster_formation.target_cluster_size_hint",
        "integer",
        "1",
        "nodes of the cluster: definitions are loaded when it has so many; a node with more than 1 and no way to find others starts in maintenance and says why",
        |config, _, value| {
            config.target_cluster_size = integer(value, 1, 1_000)? as u32;
            Ok(())
        },
    ),
    key("cluster_name", "text", "made of the host name", "the name that clients see", |config, _, value| {
        config.cluster_name = Some(value.to_owned());
        Ok(())
    }),
    key(
        "strict_compat",
        "none | 4.3",
        "none",
        "version of RabbitMQ whose behaviour is kept in cases where the default differs, see differences.md",
        |config, _, value| {
            config.strict_compat = match value {
                "none" => false,
                "4.3" => true,
                _ => return Err("expected none or 4.3".into()),
            };
            Ok(())
        },
    ),
    key(
        "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration",
        "boolean",
        "false",
        "whether a quorum queue can be declared again as a classic one; the queue stays as it is",
        |config, _, value| {
            config.relaxed_quorum_redeclaration = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "flow.standing_delay_target",
        "time",
        "1ms",
        "time that messages may stand in a queue although its consumers take without pause; above it publishers are paced to \
         what these take; 0 never paces, see flow-control.md",
        |config, _, value| {
            config.standing_delay_target_ms = integer(&milliseconds(value, 1)?.to_string(), 0, 10_000)?;
            Ok(())
        },
    ),
    key(
        "identity.rabbitmq_compatible",
        "boolean",
        "true",
        "whether the server property product is RabbitMQ, so that clients treat the node as RabbitMQ",
        |config, _, value| {
            config.rabbitmq_compatible_identity = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "debug.alarms_file",
        "path",
        "",
        "a file with the words memory or disk: the alarms that are raised, for tests",
        |config, _, value| {
            config.alarms_file = Some(value.to_owned());
            Ok(())
        },
    ),
    key("debug.sync_delay_ms", "number", "0", "delay that is added to every sync, for tests", |config, _, value| {
        config.sync_delay_ms = float(value, 0.0, 60_000.0)?;
        Ok(())
    }),
    key(
        "debug.clock_ahead_ms",
        "integer",
        "0",
        "milliseconds by which the machine's clock is taken to be ahead of what it says, for tests",
        |config, _, value| {
            config.clock_ahead_ms = integer(value, 0, 86_400_000)?;
            Ok(())
        },
    ),
    key(
        "debug.refused_login_delay_ms",
        "number",
        "3000",
        "milliseconds after which refused logins are answered, for tests",
        |config, _, value| {
            config.refused_login_delay_ms = integer(value, 0, 60_000)?;
            Ok(())
        },
    ),
    key(
        "storage.reserve",
        "bytes",
        "two and a half files of the log",
        "space reserved on the disk for the time when it is full",
        |config, _, value| {
            config.storage_reserve = Some(in_bytes(value, 0, 1 << 40)?);
            Ok(())
        },
    ),
    key(
        "debug.wal_file_bytes",
        "bytes",
        "a 32nd of the volume, 64MiB at most",
        "length of a file of the write-ahead log, for tests",
        |config, _, value| {
            config.wal_file_bytes = Some(in_bytes(value, 16 << 10, 1 << 30)?);
            Ok(())
        },
    ),
    key("cores", "integer", "all that we may use", "threads that serve connections", |config, _, value| {
        config.cores = Some(integer(value, 1, 256)? as u16);
        Ok(())
    }),
];

pub(super) fn none<T: Default>(value: &str) -> Result<T, String> {
    match value {
        "none" => Ok(T::default()),
        _ => Err(format!("expected none, got '{value}'; single ones have a name behind a dot")),
    }
}

pub(super) fn port(value: &str) -> Result<u16, String> {
    Ok(integer(value, 0, 65_535)? as u16)
}

pub(super) fn in_bytes(value: &str, min: u64, max: u64) -> Result<u64, String> {
    integer(&bytes(value)?.to_string(), min, max)
}

fn socket_buffer(value: &str) -> Result<u32, String> {
    Ok(in_bytes(value, 1024, 1 << 30)? as u32)
}

pub(super) fn connections(value: &str) -> Result<Option<u32>, String> {
    if value == "infinity" { Ok(None) } else { Ok(Some(integer(value, 0, u64::from(u32::MAX))? as u32)) }
}

/// Parses a listener: `5672`, `127.0.0.1:5672`, `::1:5672` or `[::1]:5672`.
pub(super) fn listener(value: &str) -> Result<Listener, String> {
    let Some((host, number)) = value.rsplit_once(':') else {
        return Ok(Listener { host: None, port: port(value)? });
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(format!("expected a port or address:port, got '{value}'"));
    }
    Ok(Listener { host: Some(host.to_owned()), port: port(number)? })
}
