use super::{CategoryLog, Format, JournaldFields, LogCategory, LogLevel, Logging, Place, Rotation, Syslog};

/// Where files go whose place nobody has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlaces {
    /// Where files are whose name isn't a path.
    pub directory: String,
    /// The file of everything, as it is named if nothing else is.
    pub file: String,
    /// Whether lines go into it if no output was asked for, rather than to standard output.
    pub is_installed: bool,
}

/// One place that lines go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where.
    pub target: Target,
    /// Which.
    pub levels: Levels,
    /// How.
    pub format: Format,
}

/// A place that lines go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output, with colours at a terminal.
    Stdout {
        /// Whether at a terminal.
        colors: bool,
    },
    /// Standard error.
    Stderr {
        /// Whether at a terminal.
        colors: bool,
    },
    /// A file.
    File {
        /// Its path.
        path: String,
        /// When it is put aside.
        rotation: Rotation,
    },
    /// A syslog server.
    Syslog(Box<Syslog>),
    /// The journal of systemd.
    Journald(JournaldFields),
}

/// How much of each category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels([LogLevel; LogCategory::COUNT]);

impl Levels {
    /// The same for all.
    pub fn all(level: LogLevel) -> Self {
        Self([level; LogCategory::COUNT])
    }

    /// How much of this one.
    pub fn of(&self, category: LogCategory) -> LogLevel {
        self.0[category as usize]
    }

    /// Changes one.
    pub fn set(&mut self, category: LogCategory, level: LogLevel) {
        self.0[category as usize] = level;
    }

    /// This level for all that aren't switched off here, as `rabbitmqctl set_log_level` does it.
    #[must_use]
    pub fn at(&self, level: LogLevel) -> Self {
        Self(self.0.map(|own| if own == LogLevel::None { own } else { level }))
    }
}

impl Logging {
    /// What RabbitMQ makes of the same keys: an output is on if it or a level of it was named; without any there is one,
    /// a category's level stands in for those of the outputs, and a category with a file goes there alone.
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

    /// A category's lines leave the outputs of everything, but the file that it shares with them.
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
        let is_on = |enabled: Option<bool>, level| enabled.unwrap_or(named(level));
        let mut found = Vec::new();
        match &self.only {
            Some(place) => found.push(place.clone()),
            None => {
                if is_on(self.console.enabled, self.console.level) {
                    found.push(if self.console.stderr { Place::Stderr } else { Place::Stdout });
                }
                if is_on(self.syslog.enabled, self.syslog.level) {
                    found.push(Place::Syslog);
                }
                if is_on(self.journald.enabled, self.journald.level) {
                    found.push(Place::Journald);
                }
                let file = || Place::File(places.file.clone());
                match &self.file.name {
                    Some(Some(name)) => found.push(Place::File(name.clone())),
                    Some(None) => {}
                    None if named(self.file.level) => found.push(file()),
                    None if found.is_empty() && self.console.enabled.is_none() => {
                        found.push(if places.is_installed { file() } else { Place::Stdout });
                    }
                    None if found.is_empty() && places.is_installed => found.push(file()),
                    None => {}
                }
            }
        }
        let directory = self.directory_of(places);
        found.into_iter().map(|place| self.output(place, level, &directory)).collect()
    }

    fn output(&self, place: Place, level: LogLevel, directory: &str) -> Output {
        let colors = self.console.colors;
        let (target, own, format) = match place {
            Place::Stdout => (Target::Stdout { colors }, self.console.level, &self.console.format),
            Place::Stderr => (Target::Stderr { colors }, self.console.level, &self.console.format),
            Place::File(name) => {
                let target = Target::File { path: path(directory, &name), rotation: self.file.rotation };
                (target, self.file.level, &self.file.format)
            }
            Place::Syslog => {
                (Target::Syslog(Box::new(self.syslog.server.clone())), self.syslog.level, &self.syslog.format)
            }
            Place::Journald => {
                (Target::Journald(self.journald.fields.clone()), self.journald.level, &self.console.format)
            }
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
