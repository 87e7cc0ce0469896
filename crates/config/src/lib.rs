//! The configuration of a node: the grammar of rabbitmq.conf, one table of all keys, and the typed [`Config`] derived
//! from them.
//!
//! Keys are RabbitMQ's. A key that is meaningless here is accepted with a warning. A key that isn't supported yet
//! gives a warning, or an error if running without it would betray the user. An unknown key is an error with its line
//! and the nearest known key.
//!
//! This crate must not know of files or the environment: its input is text, its output a `Config`.

mod advanced;
mod amqp10;
mod backends;
mod cluster;
mod config;
mod credentials;
mod deprecated;
mod environment;
mod error;
mod event_exchange;
mod example;
mod grammar;
mod http;
mod interceptors;
mod keys;
mod listener;
mod listeners;
mod logging;
mod mqtt;
mod plugins;
mod plugins_file;
mod quotas;
mod reload;
mod stream;
mod suggest;
mod tls;
mod units;
mod vhost_defaults;

pub use amqp10::Amqp10Settings;
pub use backends::{
    BackendKind, CacheSettings, Chain, ChainEntry, ClientTls, HttpServiceSettings, LoginBackends, OAuth2Settings,
    ProviderSettings, ResourceServerSettings,
};
pub use cluster::{AlarmScope, CLUSTER_PORT, ClusterConfig, DiscoveryBackend, LeaderLocator};
pub use config::{
    Config, DefaultUser, DiskFreeLimit, Durability, Limits, MAX_MESSAGE_SIZE_CAP, MemoryWatermark, MetricsPages,
    TcpOptions,
};
pub use credentials::{CredentialValidator, ValidationBackend};
pub use deprecated::DeprecatedSettings;
pub use environment::{Variable, environment_file};
pub use error::{ConfigError, Warning};
pub use event_exchange::EventExchange;
pub use example::example;
pub use http::{HttpLimits, ManagementApi};
pub use interceptors::Interceptors;
pub use keys::{KeyDoc, KeyState, documented, is_secret};
pub use listener::{Endpoint, Listener};
pub use logging::{
    CategoryLog, ConsoleLog, ExchangeLog, Facility, FieldMap, FileLog, Format, JournaldField, JournaldFields,
    JournaldLog, LevelFormat, Levels, LogCategory, LogLevel, LogPlace, LogPlaces, Logging, Output, Period, Piece,
    Rotation, RotationDate, Syslog, SyslogLog, SyslogProtocol, Target, TimeFormat, Transport,
};
pub use mqtt::MqttConfig;
pub use plugins::EnabledPlugins;
pub use quotas::{Quota, Quotas, UNLIMITED};
pub use reload::Reloaded;
pub use stream::StreamConfig;
pub use tls::{AlternativeName, CertificateLogin, CertificateName, CrlCheck, CrlSource, Tls, TlsEndpoint, TlsVersion};
pub use vhost_defaults::{
    DefaultOperatorPolicy, DefaultQueueType, DefaultVhostLimits, DefaultVhostUser, QueueTypes, VhostDefaults,
};
