use std::fmt;

/// An error in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, or `--set`.
    pub source_name: String,
    /// The line, from 1; `None` outside of files.
    pub line: Option<u32>,
    /// The text of the error.
    pub text: String,
}

/// A warning about a setting without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file, or `--set`.
    pub source_name: String,
    /// The line, from 1; `None` outside of files.
    pub line: Option<u32>,
    /// The setting without effect, and the reason.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.source_name, self.line, &self.text)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.source_name, self.line, &self.text)
    }
}

fn place(f: &mut fmt::Formatter<'_>, source: &str, line: Option<u32>, text: &str) -> fmt::Result {
    match line {
        Some(line) => write!(f, "{source}:{line}: {text}"),
        None => write!(f, "{source}: {text}"),
    }
}
