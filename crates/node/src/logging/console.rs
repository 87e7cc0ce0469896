//! Standard output and standard error.

use std::io::{IsTerminal, Write, stderr, stdout};

use leveret_config::{Format, LogLevel};

use super::format::render;
use super::line::Line;

/// Size at which the buffer is written at once.
const BUFFER_BYTES: usize = 64 << 10;

pub(super) struct Console {
    to: Box<dyn Write + Send>,
    format: Format,
    is_colored: bool,
    buffer: Vec<u8>,
}

impl Console {
    pub(super) fn stdout(colors: bool, format: Format) -> Self {
        let is_colored = colors && stdout().is_terminal();
        Self { to: Box::new(stdout()), format, is_colored, buffer: Vec::new() }
    }

    pub(super) fn stderr(colors: bool, format: Format) -> Self {
        let is_colored = colors && stderr().is_terminal();
        Self { to: Box::new(stderr()), format, is_colored, buffer: Vec::new() }
    }

    pub(super) fn write(&mut self, line: &Line) {
        let color = if self.is_colored && !self.format.json { color(line.level) } else { "" };
        render(&self.format, line, color, &mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Writes the buffer. Errors are ignored: a lost terminal can't be reported anywhere.
    pub(super) fn flush(&mut self) {
        let _ = self.to.write_all(&self.buffer).and_then(|()| self.to.flush());
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES);
    }
}

/// RabbitMQ's colours.
fn color(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "\x1b[38;5;246m",
        LogLevel::Info | LogLevel::None => "",
        LogLevel::Warning => "\x1b[38;5;214m",
        LogLevel::Error => "\x1b[38;5;160m",
        LogLevel::Critical => "\x1b[1;37m\x1b[48;5;20m",
    }
}
