use super::{CategoryLog, Format, JournaldFields, LogCategory, LogLevel, LogPlace, Logging, Rotation, Syslog, is_on};

/// Default places of log files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlaces {
    /// Directory of files whose name isn't a path.
    pub directory: String,
    /// Default name of the file with all lines.
    pub file: String,
    /// Whether lines go to that file if no output is configured, rather than to standard output.
    pub is_installed: bool,
}

/// A configured output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its destination.
    pub target: Target,
    /// The levels of lines that go to it.
    pub levels: Levels,
    /// The format of lines.
    pub format: Format,
}

/// The destination of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output, with colours at a terminal.
    Stdout {
        /// Whether to use colours at a terminal.
        colors: bool,
    },
    /// Standard error.
    Stderr {
        /// Whether to use colours at a terminal.
        colors: bool,
    },
    /// A file.
    File {
        /// Its path.
        path: String,
        /// The conditions for rotating it.
        rotation: Rotation,
    },
    /// A syslog server.
    Syslog(Box<Syslog>),
    /// The journal of systemd.
    Journald(JournaldFields),
    /// The exchange for log lines.
    Exchange,
}

/// The level of each category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels([LogLevel; LogCategory::COUNT]);

impl Levels {
    /// The same level for all categories.
    pub fn all(level: LogLevel) -> Self {
        Self([level; LogCategory::COUNT])
    }

    /// The level of this category.
    pub fn of(&self, category: LogCategory) -> LogLevel {
        self.0[category as usize]
    }

    /// Sets the level of a category.
    pub fn set(&mut self, category: LogCategory, level: LogLevel) {
        self.0[category as usize] = level;
    }

    /// This level for all categories that aren't switched off, as set by `rabbitmqctl set_log_level`.
    #[must_use]
    pub fn at(&self, level: LogLevel) -> Self {
        Self(self.0.map(|own| if own == LogLevel::None { own } else { level }))
    }
}

impl Logging {
    /// The outputs that RabbitMQ derives from the same keys. An output is on if it or its level was set; if none was,
    /// there is one default output. A category's level replaces those of the outputs, and a category with a file goes
    /// only there.
    pub fn outputs(&self, places: &LogPlaces) -> Vec<Output> {
        let mut outputs = self.main(places);
        for (category, log) in &self.categories {
            match &log.file {
                None => {
                    let Some(level) = log.level else { continue };
                    outputs.iter_mut().for_each(|output| output.levels.set(*category, level));
                }
                Some(name) => self.give_to_file(&mut outputs, *category, log, path(&self.directory_of(places), name)),
            }
        }
        outputs
    }

    /// Removes a category's lines from the general outputs, except from the file that it shares with them.
    fn give_to_file(&self, outputs: &mut Vec<Output>, category: LogCategory, log: &CategoryLog, own: String) {
        let mut is_there = false;
        for output in outputs.iter_mut() {
            if matches!(&output.target, Target::File { path, .. } if *path == own) {
                is_there = true;
                let level = log.level.unwrap_or(output.levels.of(LogCategory::Default).max(LogLevel::Info));
                output.levels.set(category, level);
            } else {
                output.levels.set(category, LogLevel::None);
            }
        }
        if !is_there {
            let mut levels = Levels::all(LogLevel::None);
            levels.set(category, log.level.unwrap_or(LogLevel::Info));
            let target = Target::File { path: own, rotation: log.rotation };
            outputs.push(Output { target, levels, format: self.file.format.clone() });
        }
    }

    fn main(&self, places: &LogPlaces) -> Vec<Output> {
        let level = self.level;
        let named = |level: Option<LogLevel>| level.is_some_and(|level| level != LogLevel::None);
        let mut found = Vec::new();
        match &self.only {
            Some(place) => found.push(place.clone()),
            None => {
                if is_on(self.console.enabled, self.console.level) {
                    found.push(if self.console.stderr { LogPlace::Stderr } else { LogPlace::Stdout });
                }
                if is_on(self.syslog.enabled, self.syslog.level) {
                    found.push(LogPlace::Syslog);
                }
                if is_on(self.journald.enabled, self.journald.level) {
                    found.push(LogPlace::Journald);
                }
                let file = || LogPlace::File(places.file.clone());
                match &self.file.name {
                    Some(Some(name)) => found.push(LogPlace::File(name.clone())),
                    Some(None) => {}
                    None if named(self.file.level) => found.push(file()),
                    None if found.is_empty() && self.console.enabled.is_none() => {
                        found.push(if places.is_installed { file() } else { LogPlace::Stdout });
                    }
                    None if found.is_empty() && places.is_installed => found.push(file()),
                    None => {}
                }
            }
        }
        // An exchange replaces no other output: it has readers only if someone binds a queue to it.
        if self.exchange.is_on() {
            found.push(LogPlace::Exchange);
        }
        let directory = self.directory_of(places);
        found.into_iter().map(|place| self.output(place, level, &directory)).collect()
    }

    fn output(&self, place: LogPlace, level: LogLevel, directory: &str) -> Output {
        let colors = self.console.colors;
        let (target, own, format) = match place {
            LogPlace::Stdout => (Target::Stdout { colors }, self.console.level, &self.console.format),
            LogPlace::Stderr => (Target::Stderr { colors }, self.console.level, &self.console.format),
            LogPlace::File(name) => {
                let target = Target::File { path: path(directory, &name), rotation: self.file.rotation };
                (target, self.file.level, &self.file.format)
            }
            LogPlace::Syslog => {
                (Target::Syslog(Box::new(self.syslog.server.clone())), self.syslog.level, &self.syslog.format)
            }
            LogPlace::Journald => {
                (Target::Journald(self.journald.fields.clone()), self.journald.level, &self.console.format)
            }
            LogPlace::Exchange => (Target::Exchange, self.exchange.level, &self.exchange.format),
        };
        Output { target, levels: Levels::all(own.unwrap_or(level)), format: format.clone() }
    }

    fn directory_of(&self, places: &LogPlaces) -> String {
        self.directory.clone().unwrap_or_else(|| places.directory.clone())
    }
}

fn path(directory: &str, name: &str) -> String {
    if name.starts_with('/') { name.to_owned() } else { format!("{}/{name}", directory.trim_end_matches('/')) }
}
