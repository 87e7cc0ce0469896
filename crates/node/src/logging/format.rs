//! The format of lines.

use std::io::Write;

use leveret_config::{Format, LevelFormat, LogLevel, Piece, TimeFormat};
use serde_json::{Map, Value};

use super::calendar::Moment;
use super::line::Line;

/// Appends a line with its end. If the message has several lines, each gets the prefix.
pub(super) fn render(format: &Format, line: &Line, color: &str, to: &mut Vec<u8>) {
    if format.json {
        return object(format, line, to);
    }
    let end = if color.is_empty() { "" } else { "\x1b[0m" };
    for message in text(format, line).split('\n') {
        to.extend_from_slice(color.as_bytes());
        pieces(&format.prefix, format, line, to);
        to.extend_from_slice(message.trim_end().as_bytes());
        pieces(&format.suffix, format, line, to);
        to.extend_from_slice(end.as_bytes());
        to.push(b'\n');
    }
}

/// The message with its fields, in the form for servers and journals.
pub(super) fn text(format: &Format, line: &Line) -> String {
    let mut text = line.message.clone();
    for (name, value) in &line.fields {
        text.push(' ');
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
    if format.single_line { single_line(&text) } else { text }
}

/// Replaces line ends by commas, as RabbitMQ does.
fn single_line(text: &str) -> String {
    let lines = text.split('\n').map(str::trim);
    lines.map(|line| line.trim_end_matches(',')).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}

fn pieces(pieces: &[Piece], format: &Format, line: &Line, to: &mut Vec<u8>) {
    for piece in pieces {
        // Writing into memory doesn't fail.
        let _ = match piece {
            Piece::Text(text) => write!(to, "{text}"),
            Piece::Field(name) => match field(name, format, line) {
                Some(Value::String(text)) => write!(to, "{text}"),
                Some(other) => write!(to, "{other}"),
                None => write!(to, "<unknown {name}>"),
            },
        };
    }
}

/// The value of a field: one that every line has, or one of its own.
pub(super) fn field(name: &str, format: &Format, line: &Line) -> Option<Value> {
    match name {
        "time" => Some(time(format.time, line, format.json)),
        "level" => Some(level(line.level, format.level).into()),
        "msg" => Some(text_of_object(format, line).into()),
        "domain" => Some(domain(line).into()),
        "pid" => Some(format!("<0.{}.0>", line.pid).into()),
        "file" => line.source.map(|(file, _)| file.into()),
        "line" => line.source.map(|(_, number)| number.into()),
        _ => line.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str().into()),
    }
}

fn text_of_object(format: &Format, line: &Line) -> String {
    if format.single_line { single_line(&line.message) } else { line.message.clone() }
}

fn domain(line: &Line) -> String {
    match line.category {
        leveret_config::LogCategory::Default => "rabbitmq".to_owned(),
        category => format!("rabbitmq.{}", category.name()),
    }
}

fn object(format: &Format, line: &Line, to: &mut Vec<u8>) {
    let own = line.fields.iter().map(|(name, _)| *name);
    let all = ["time", "level", "msg", "line", "pid", "file", "domain"].into_iter().chain(own);
    let mut left: Map<String, Value> =
        all.filter_map(|name| Some((name.to_owned(), field(name, format, line)?))).collect();
    if let Some(verbosity) = format.verbosity.get(&line.level) {
        left.insert("verbosity".to_owned(), (*verbosity).into());
    }
    to.push(b'{');
    let mut is_first = true;
    let mut write = |name: &str, value: &Value| {
        if !std::mem::replace(&mut is_first, false) {
            to.push(b',');
        }
        let _ = write!(to, "{}:{value}", Value::from(name));
    };
    for (from, name) in &format.fields.first {
        if let (Some(value), Some(name)) = (left.remove(from), name) {
            write(name, &value);
        }
    }
    if format.fields.rest {
        left.iter().for_each(|(name, value)| write(name, value));
    }
    to.extend_from_slice(b"}\n");
}

fn time(format: TimeFormat, line: &Line, is_json: bool) -> Value {
    let moment = Moment::of(line.time);
    match format {
        TimeFormat::Rfc3339(between) => moment.rfc3339(between).into(),
        TimeFormat::Lager => moment.milliseconds().into(),
        TimeFormat::EpochMicroseconds => moment.microseconds.into(),
        TimeFormat::EpochSeconds if is_json => (moment.microseconds / 1_000_000).into(),
        TimeFormat::EpochSeconds => {
            format!("{}.{:06}", moment.microseconds / 1_000_000, moment.microseconds % 1_000_000).into()
        }
    }
}

fn level(level: LogLevel, format: LevelFormat) -> String {
    let short = match (level, format.letters) {
        (LogLevel::Debug, Some(3)) => "dbg",
        (LogLevel::Info, Some(3)) => "inf",
        (LogLevel::Warning, Some(3)) => "wrn",
        (LogLevel::Error, Some(3)) => "err",
        (LogLevel::Critical, Some(3)) => "crt",
        (LogLevel::Debug, Some(4)) => "dbug",
        (LogLevel::Warning, Some(4)) => "warn",
        (LogLevel::Error, Some(4)) => "erro",
        (LogLevel::Critical, Some(4)) => "crit",
        (level, _) => level.name(),
    };
    if format.upper { short.to_uppercase() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use leveret_config::{Config, LogCategory};

    use super::*;

    fn line() -> Line {
        Line {
            time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_371_218_431_951),
            level: LogLevel::Warning,
            category: LogCategory::Connection,
            message: "closing it:\nit was closed".to_owned(),
            pid: 7,
            fields: vec![("queue", "a\"b".to_owned())],
            source: Some(("src/x.rs", 12)),
        }
    }

    fn rendered(keys: &str) -> String {
        let mut config = Config::default();
        config.read("rabbitmq.conf", keys).expect("is right");
        let mut to = Vec::new();
        render(&config.log.console.format, &line(), "", &mut to);
        String::from_utf8(to).expect("is text")
    }

    #[test]
    fn every_line_of_a_text_has_the_prefix() {
        assert_eq!(
            rendered(""),
            "2026-11-22 18:13:38.431951+00:00 [warning] <0.7.0> closing it:\n\
             2026-11-22 18:13:38.431951+00:00 [warning] <0.7.0> it was closed queue=a\"b\n"
        );
        let keys = "log.console.formatter.single_line = on\nlog.console.formatter.level_format = uc4\n\
                    log.console.formatter.time_format = epoch_secs\n\
                    log.console.formatter.plaintext.format = $level $time $domain $nothing: $msg ($line)\n";
        assert_eq!(
            rendered(keys),
            "WARN 1795371218.431951 rabbitmq.connection <unknown nothing>: closing it:, it was closed queue=a\"b (12)\n"
        );
        assert!(
            rendered("log.console.formatter.time_format = lager_default\n").starts_with("2026-11-22 18:13:38.431 [")
        );
        assert!(
            rendered("log.console.formatter.time_format = rfc3339_T\n").starts_with("2026-11-22T18:13:38.431951+00")
        );
    }

    #[test]
    fn objects_have_the_fields_in_the_order_asked_for() {
        assert_eq!(
            rendered("log.console.formatter = json\n"),
            "{\"time\":\"2026-11-22 18:13:38.431951+00:00\",\"level\":\"warning\",\
             \"msg\":\"closing it:\\nit was closed\",\"domain\":\"rabbitmq.connection\",\"file\":\"src/x.rs\",\"line\":12,\
             \"pid\":\"<0.7.0>\",\"queue\":\"a\\\"b\"}\n"
        );
        let keys = "log.console.formatter = json\nlog.console.formatter.json.field_map = level:severity pid:- time *:-\n\
                    log.console.formatter.time_format = epoch_usecs\n";
        assert_eq!(rendered(keys), "{\"severity\":\"warning\",\"time\":1795371218431951}\n");
        let keys = "log.console.formatter = json\nlog.console.formatter.json.field_map = verbosity:v *:-\n\
                    log.console.formatter.json.verbosity_map = warning:3 info:1\n";
        assert_eq!(rendered(keys), "{\"v\":3}\n");
    }
}
