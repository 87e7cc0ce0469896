//! The outputs of lines.

use std::sync::Arc;
use std::time::SystemTime;

use leveret_config::{Format, Target};

use super::LogError;
use super::console::Console;
use super::exchange::{LogExchange, Publisher};
use super::file::LogFile;
use super::journald::Journal;
use super::line::Line;
use super::syslog::SyslogServer;

/// An output, owned by its thread. Lines that can't be written are counted, and the loss is reported once that is
/// possible.
pub(super) enum Sink {
    Console(Console),
    File(LogFile),
    Syslog(Box<SyslogServer>),
    Journald(Journal),
    Exchange(LogExchange),
}

impl Sink {
    /// # Errors
    /// It doesn't exist, or can't be used. A server that doesn't answer may come later and is no error.
    pub(super) fn open(target: &Target, format: &Format, publisher: &Arc<Publisher>) -> Result<Self, LogError> {
        match target {
            Target::Stdout { colors } => Ok(Sink::Console(Console::stdout(*colors, format.clone()))),
            Target::Stderr { colors } => Ok(Sink::Console(Console::stderr(*colors, format.clone()))),
            Target::File { path, rotation } => {
                let file = LogFile::open(path.into(), *rotation, format.clone());
                file.map(Sink::File).map_err(|source| LogError::File { path: path.clone(), source })
            }
            Target::Syslog(server) => SyslogServer::new(server, format.clone()).map(Box::new).map(Sink::Syslog),
            Target::Exchange => Ok(Sink::Exchange(LogExchange::new(publisher.clone(), format.clone()))),
            Target::Journald(fields) => Journal::open(fields.clone()).map(Sink::Journald).map_err(LogError::Journal),
        }
    }

    pub(super) fn write(&mut self, line: &Line) {
        match self {
            Sink::Console(console) => console.write(line),
            Sink::File(file) => file.write(line),
            Sink::Syslog(server) => server.write(line),
            Sink::Journald(journal) => journal.write(line),
            Sink::Exchange(exchange) => exchange.write(line),
        }
    }

    pub(super) fn flush(&mut self) {
        match self {
            Sink::Console(console) => console.flush(),
            Sink::File(file) => file.flush(),
            Sink::Syslog(server) => server.flush(),
            Sink::Journald(_) | Sink::Exchange(_) => {}
        }
    }

    pub(super) fn look_at_clock(&mut self, now: SystemTime) {
        if let Sink::File(file) = self {
            file.look_at_clock(now);
        }
    }

    pub(super) fn rotate(&mut self) {
        if let Sink::File(file) = self {
            file.rotate_now();
        }
    }

    pub(super) fn reopen(&mut self) {
        if let Sink::File(file) = self {
            file.reopen();
        }
    }
}
