//! The journal of systemd: a datagram per line, as systemd.io/JOURNAL_NATIVE_PROTOCOL describes it.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use leveret_config::{Format, JournaldField, JournaldFields, LogLevel};
use serde_json::Value;

use super::calendar::Moment;
use super::format::{field, text};
use super::line::Line;

const SOCKET: &str = "/run/systemd/journal/socket";
/// Largest message, less than a socket takes in one datagram by default; longer messages are cut.
const MESSAGE_BYTES_MAX: usize = 128 << 10;

pub(super) struct Journal {
    socket: UnixDatagram,
    fields: JournaldFields,
    format: Format,
    lost: u64,
}

impl Journal {
    /// # Errors
    /// The journal doesn't listen there.
    pub(super) fn open(fields: JournaldFields) -> io::Result<Self> {
        Self::at(Path::new(SOCKET), fields)
    }

    fn at(path: &Path, fields: JournaldFields) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self { socket, fields, format: Format::default(), lost: 0 })
    }

    pub(super) fn write(&mut self, line: &Line) {
        let mut entry = Vec::new();
        let mut message = text(&self.format, line);
        if self.lost != 0 {
            message.push_str(&format!(" ({} lines before it are lost)", self.lost));
        }
        append(&mut entry, "MESSAGE", cut(&message));
        for wanted in &self.fields.0 {
            match wanted {
                JournaldField::Text(name, text) => append(&mut entry, name, text),
                JournaldField::Field(name, of) => {
                    if let Some(value) = self.value(of, line) {
                        append(&mut entry, name, cut(&value));
                    }
                }
            }
        }
        match self.socket.send(&entry) {
            Ok(_) => self.lost = 0,
            Err(_) => self.lost += 1,
        }
    }

    fn value(&self, name: &str, line: &Line) -> Option<String> {
        match name {
            "priority" => Some(priority(line.level).to_string()),
            "syslog_pid" => Some(std::process::id().to_string()),
            "syslog_timestamp" => Some(Moment::of(line.time).rfc3339('T')),
            _ => field(name, &self.format, line).map(|value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            }),
        }
    }
}

/// The severity in syslog (RFC 5424, 6.2.1).
pub(super) fn priority(level: LogLevel) -> u8 {
    match level {
        LogLevel::None | LogLevel::Critical => 2,
        LogLevel::Error => 3,
        LogLevel::Warning => 4,
        LogLevel::Info => 6,
        LogLevel::Debug => 7,
    }
}

/// Appends a field. A value with line ends is written with its length.
fn append(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use leveret_config::LogCategory;

    use super::*;

    fn line(message: &str) -> Line {
        Line {
            time: SystemTime::UNIX_EPOCH,
            level: LogLevel::Warning,
            category: LogCategory::Queue,
            message: message.to_owned(),
            pid: 5,
            fields: Vec::new(),
            source: Some(("a.rs", 3)),
        }
    }

    #[test]
    fn an_entry_has_its_message_and_the_fields_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        assert!(Journal::at(&path, JournaldFields::default()).is_err(), "nobody listens");
        let journald = UnixDatagram::bind(&path).expect("a socket");
        let mut journal = Journal::at(&path, JournaldFields::default()).expect("somebody listens");
        let mut datagram = vec![0; 1 << 18];
        let mut received = || {
            let length = journald.recv(&mut datagram).expect("a datagram");
            datagram[..length].to_vec()
        };

        journal.write(&line("hello"));
        let expected = format!(
            "MESSAGE=hello\nSYSLOG_IDENTIFIER=rabbitmq-server\nSYSLOG_TIMESTAMP=1970-01-01T00:00:00.000000+00:00\n\
             SYSLOG_PID={}\nPRIORITY=4\nERL_PID=<0.5.0>\nCODE_FILE=a.rs\nCODE_LINE=3\n",
            std::process::id()
        );
        assert_eq!(String::from_utf8(received()).expect("is text"), expected);

        journal.write(&line("two\nlines"));
        assert!(received().starts_with(b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\nSYSLOG_IDENTIFIER="));

        journal.write(&line(&"ä".repeat(200_000)));
        assert!(received().starts_with(format!("MESSAGE={}\nSYSLOG", "ä".repeat(64 << 10)).as_bytes()));
    }
}
