//! The keys `log.*`.

use super::Key;
use super::working::key;
use crate::config::Config;
use crate::logging::{
    CategoryLog, Facility, FieldMap, Format, JournaldFields, LevelFormat, LogCategory, LogLevel, RotationDate,
    SyslogProtocol, TimeFormat, Transport,
};
use crate::units::{boolean, bytes, integer};

const LEVELS: &str = "debug, info, warning, error, critical, none";
/// Most old log files kept; more than any user needs.
const COUNT_MAX: u64 = 100_000;

fn console(config: &mut Config) -> &mut Format {
    &mut config.log.console.format
}

fn file(config: &mut Config) -> &mut Format {
    &mut config.log.file.format
}

fn syslog(config: &mut Config) -> &mut Format {
    &mut config.log.syslog.format
}

fn level(value: &str) -> Result<LogLevel, String> {
    LogLevel::named(value)
        .ok_or_else(|| format!("expected debug, info, notice, warning, error, critical or none, got '{value}'"))
}

fn category<'c>(config: &'c mut Config, name: &str) -> Result<&'c mut CategoryLog, String> {
    let category = LogCategory::named(name).filter(|category| *category != LogCategory::Default);
    let category = category.ok_or_else(|| {
        let all = LogCategory::ALL.iter().skip(1).map(|category| category.name());
        format!("'{name}' is no category of lines; there are {}", all.collect::<Vec<_>>().join(", "))
    })?;
    Ok(config.log.categories.entry(category).or_default())
}

fn name(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("must name a file".to_owned()) } else { Ok(value.to_owned()) }
}

fn exchange(config: &mut Config) -> &mut Format {
    &mut config.log.exchange.format
}

/// The keys of a formatter after `$prefix`, which set fields of `$format`.
macro_rules! formatter {
    ($prefix:literal, $format:expr) => {
        [
            key(
                $prefix,
                "plaintext, json",
                "plaintext",
                "whether a line is text or an object of JSON",
                |config, _, value| {
                    $format(config).json = match value {
                        "json" => true,
                        "plaintext" => false,
                        other => return Err(format!("'{other}' is neither plaintext nor json")),
                    };
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".time_format"),
                "rfc3339_space, rfc3339_T, epoch_usecs, epoch_secs, lager_default",
                "rfc3339_space",
                "format of times, which are in UTC",
                |config, _, value| {
                    $format(config).time = TimeFormat::named(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".level_format"),
                "lc, uc, lc3, uc3, lc4, uc4",
                "lc",
                "format of the level's name: lower or upper case, and its full length or 3 or 4 letters",
                |config, _, value| {
                    $format(config).level = LevelFormat::named(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".single_line"),
                "boolean",
                "off",
                "whether a message of several lines becomes one",
                |config, _, value| {
                    $format(config).single_line = boolean(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".plaintext.format"),
                "text",
                "$time [$level] $pid $msg",
                "format of a line of text; `$` precedes a field",
                |config, _, value| $format(config).set_text(value),
            ),
            key(
                concat!($prefix, ".json.field_map"),
                "fields",
                "time level msg",
                "first fields of an object; `a:b` renames a field, `a:-` leaves it out, `*:-` leaves out all others",
                |config, _, value| {
                    $format(config).fields = FieldMap::parse(value)?;
                    Ok(())
                },
            ),
            key(
                concat!($prefix, ".json.verbosity_map"),
                "level:number ...",
                "",
                "numbers of levels, for a field `verbosity`",
                |config, _, value| $format(config).set_verbosity(value),
            ),
        ]
    };
}

pub(super) const CONSOLE_FORMATTER: &[Key] = &formatter!("log.console.formatter", console);
pub(super) const FILE_FORMATTER: &[Key] = &formatter!("log.file.formatter", file);
pub(super) const SYSLOG_FORMATTER: &[Key] = &formatter!("log.syslog.formatter", syslog);
pub(super) const EXCHANGE_FORMATTER: &[Key] = &formatter!("log.exchange.formatter", exchange);

pub(super) const KEYS: &[Key] = &[
    key(
        "log.dir",
        "path",
        "/var/log/rabbitmq, or `log` in the data directory",
        "directory of logs whose name isn't a path",
        |config, _, value| {
            config.log.directory = Some(name(value)?);
            Ok(())
        },
    ),
    key(
        "log.level",
        LEVELS,
        "info",
        "level from which lines are logged, unless another key says otherwise",
        |config, _, value| {
            config.log.level = level(value)?;
            Ok(())
        },
    ),
    key("log.default.level", LEVELS, "info", "the same as log.level", |config, _, value| {
        config.log.level = level(value)?;
        Ok(())
    }),
    key("log.console", "boolean", "true, if there is no other output", "log to standard output", |config, _, value| {
        config.log.console.enabled = Some(boolean(value)?);
        Ok(())
    }),
    key("log.console.level", LEVELS, "log.level", "level from which lines are logged there", |config, _, value| {
        config.log.console.level = Some(level(value)?);
        Ok(())
    }),
    key("log.console.stdio", "stdout, stderr", "stdout", "the output", |config, _, value| {
        config.log.console.stderr = match value {
            "stdout" => false,
            "stderr" => true,
            other => return Err(format!("'{other}' is neither stdout nor stderr")),
        };
        Ok(())
    }),
    key("log.console.use_colors", "boolean", "on", "colours at a terminal", |config, _, value| {
        config.log.console.colors = boolean(value)?;
        Ok(())
    }),
    key(
        "log.file",
        "name, false",
        "NODE.log if installed",
        "log to a file, in log.dir if that is no path",
        |config, _, value| {
            config.log.file.name = Some(if value == "false" { None } else { Some(name(value)?) });
            Ok(())
        },
    ),
    key("log.file.level", LEVELS, "log.level", "level from which lines are logged there", |config, _, value| {
        config.log.file.level = Some(level(value)?);
        Ok(())
    }),
    key(
        "log.file.rotation.size",
        "bytes",
        "0",
        "size at which the file is rotated; 0 for never",
        |config, _, value| {
            config.log.file.rotation.size = Some(bytes(value)?).filter(|size| *size != 0);
            Ok(())
        },
    ),
    key(
        "log.file.rotation.date",
        "date",
        "",
        "time at which the file is rotated, in UTC: $D0 each midnight, $W5D16 Fridays at 16, $M1D0 the first of a month, $H0 hourly",
        |config, _, value| {
            config.log.file.rotation.date = RotationDate::parse(value)?;
            Ok(())
        },
    ),
    key(
        "log.file.rotation.count",
        "integer",
        "0",
        "number of rotated files that are kept, as NAME.0 (the newest), NAME.1 ...",
        |config, _, value| {
            config.log.file.rotation.count = integer(value, 0, COUNT_MAX)? as u32;
            Ok(())
        },
    ),
    key(
        "log.file.rotation.compress",
        "boolean",
        "false",
        "whether rotated files are compressed, as NAME.0.gz",
        |config, _, value| {
            config.log.file.rotation.compress = boolean(value)?;
            Ok(())
        },
    ),
    key("log.journald", "boolean", "true, if its level is set", "log to the journal of systemd", |config, _, value| {
        config.log.journald.enabled = Some(boolean(value)?);
        Ok(())
    }),
    key("log.journald.level", LEVELS, "log.level", "level from which lines are logged there", |config, _, value| {
        config.log.journald.level = Some(level(value)?);
        Ok(())
    }),
    key(
        "log.journald.fields",
        "fields",
        "SYSLOG_IDENTIFIER=\"rabbitmq-server\" syslog_timestamp syslog_pid priority ERL_PID=pid CODE_FILE=file CODE_LINE=line CODE_MFA=mfa",
        "fields of an entry besides its message: `NAME=\"text\"`, `NAME=field` or `field`",
        |config, _, value| {
            config.log.journald.fields = JournaldFields::parse(value)?;
            Ok(())
        },
    ),
    key(
        "log.exchange",
        "boolean",
        "true, if its level is set",
        "publish log lines to `amq.rabbitmq.log` in `default_vhost`; their level is the routing key",
        |config, _, value| {
            config.log.exchange.enabled = Some(boolean(value)?);
            Ok(())
        },
    ),
    key("log.exchange.level", LEVELS, "log.level", "level from which lines are published there", |config, _, value| {
        config.log.exchange.level = Some(level(value)?);
        Ok(())
    }),
    key("log.syslog", "boolean", "true, if its level is set", "log to a syslog server", |config, _, value| {
        config.log.syslog.enabled = Some(boolean(value)?);
        Ok(())
    }),
    key("log.syslog.level", LEVELS, "log.level", "level from which lines are logged there", |config, _, value| {
        config.log.syslog.level = Some(level(value)?);
        Ok(())
    }),
    key("log.syslog.host", "host", "127.0.0.1", "the server's name or address", |config, _, value| {
        config.log.syslog.server.host = value.to_owned();
        Ok(())
    }),
    key("log.syslog.ip", "address", "127.0.0.1", "the server's address", |config, _, value| {
        let address: Result<core::net::IpAddr, _> = value.parse();
        config.log.syslog.server.host = address.map_err(|_| format!("'{value}' is no address"))?.to_string();
        Ok(())
    }),
    key("log.syslog.port", "port", "514, 6514 with TLS", "its port", |config, _, value| {
        config.log.syslog.server.port = Some(integer(value, 1, 65_535)? as u16);
        Ok(())
    }),
    key("log.syslog.transport", "udp, tcp, tls", "udp", "transport to the server", |config, _, value| {
        config.log.syslog.server.transport = Transport::named(value)?;
        config.log.syslog.server.check()
    }),
    key(
        "log.syslog.protocol",
        "rfc3164, rfc5424",
        "rfc3164, rfc5424 with TLS",
        "format of the lines",
        |config, _, value| {
            config.log.syslog.server.protocol = Some(SyslogProtocol::named(value)?);
            config.log.syslog.server.check()
        },
    ),
    key("log.syslog.identity", "name", "rabbitmq-server", "name of the program in each line", |config, _, value| {
        let is_word = !value.is_empty() && value.len() <= 48 && value.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word {
            return Err(format!("'{value}' is no word of at most 48 printable characters"));
        }
        config.log.syslog.server.identity = value.to_owned();
        Ok(())
    }),
    key("log.syslog.facility", "facility", "daemon", "syslog's facility", |config, _, value| {
        config.log.syslog.server.facility = Facility::named(value)?;
        Ok(())
    }),
    key(
        "log.syslog.multiline_mode",
        "boolean",
        "false",
        "whether a message of several lines is one of syslog",
        |config, _, value| {
            config.log.syslog.server.multiline = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "log.syslog.ssl_options.cacertfile",
        "file",
        "the system's",
        "the roots of the server's certificate in PEM",
        |config, _, value| {
            config.log.syslog.server.tls.cacertfile = Some(name(value)?);
            Ok(())
        },
    ),
    key(
        "log.syslog.ssl_options.certfile",
        "file",
        "",
        "a certificate of ours in PEM, if the server asks for one",
        |config, _, value| {
            config.log.syslog.server.tls.certfile = Some(name(value)?);
            Ok(())
        },
    ),
    key("log.syslog.ssl_options.keyfile", "file", "", "its private key in PEM", |config, _, value| {
        config.log.syslog.server.tls.keyfile = Some(name(value)?);
        Ok(())
    }),
    key(
        "log.syslog.ssl_options.versions.$n",
        "tlsv1.3, tlsv1.2",
        "both",
        "a version of TLS that is enabled",
        |config, name, value| {
            let version = super::tls::version(value)?;
            config.log.syslog.server.tls.versions.insert(name.to_owned(), version);
            Ok(())
        },
    ),
    key(
        "log.syslog.ssl_options.verify",
        "verify_peer",
        "verify_peer",
        "verification of the server's certificate, which can't be disabled",
        |_, _, value| match value {
            "verify_peer" => Ok(()),
            other => Err(format!("'{other}' isn't safe and isn't there; name the roots of the server by cacertfile")),
        },
    ),
    key(
        "log.$category.level",
        LEVELS,
        "the outputs'",
        "level from which lines of this category are logged: connection, channel, queue, user, upgrade, federation, mirroring, ra",
        |config, name, value| {
            category(config, name)?.level = Some(level(value)?);
            Ok(())
        },
    ),
    key(
        "log.$category.file",
        "name",
        "",
        "a file of their own for the lines of this category",
        |config, word, value| {
            category(config, word)?.file = Some(name(value)?);
            Ok(())
        },
    ),
    key("log.$category.rotation.size", "bytes", "0", "the same for that file", |config, name, value| {
        category(config, name)?.rotation.size = Some(bytes(value)?).filter(|size| *size != 0);
        Ok(())
    }),
    key("log.$category.rotation.date", "date", "", "the same for that file", |config, name, value| {
        category(config, name)?.rotation.date = RotationDate::parse(value)?;
        Ok(())
    }),
    key("log.$category.rotation.count", "integer", "0", "the same for that file", |config, name, value| {
        category(config, name)?.rotation.count = integer(value, 0, COUNT_MAX)? as u32;
        Ok(())
    }),
    key("log.$category.rotation.compress", "boolean", "false", "the same for that file", |config, name, value| {
        category(config, name)?.rotation.compress = boolean(value)?;
        Ok(())
    }),
];
