use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use leveret_config::{Config, ConfigError, Warning};

use crate::arguments::Start;

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what is wrong with files in the format of rabbitmq.conf, of advanced.config by that end of the name, or of
    /// enabled_plugins by that name
    Check {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Print a file with every key that takes effect, its default and what it does
    Example,
}

/// Exits with 1 if a file can't be taken.
pub(crate) fn run(arguments: &ConfigArguments) -> ExitCode {
    match &arguments.command {
        ConfigCommand::Example => {
            print!("{}", leveret_config::example());
            ExitCode::SUCCESS
        }
        ConfigCommand::Check { files } => match check(files) {
            Ok((_, warnings)) => {
                warnings.iter().for_each(|warning| println!("{warning}"));
                ExitCode::SUCCESS
            }
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| eprintln!("leveret: {mistake}"));
                ExitCode::FAILURE
            }
        },
    }
}

/// What a node is configured with. Later ones win: rabbitmq.conf, conf.d, advanced.config, rabbitmq-env.conf, the
/// environment, `--set`; what stands in enabled_plugins stands nowhere else.
///
/// # Errors
/// Every mistake, not only the first.
pub(crate) fn of_start(start: &Start) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let mut reading = Reading::default();
    start.config.iter().for_each(|path| reading.file(&with_extension(path, "conf"), read_conf));
    match start.config_dir.as_deref().map(files_of).transpose() {
        Ok(files) => files.into_iter().flatten().for_each(|path| reading.file(&path, read_conf)),
        Err(mistake) => reading.mistakes.push(mistake),
    }
    if let Some(path) = &start.advanced_config {
        reading.file(&with_extension(path, "config"), Config::read_advanced);
    }
    // Where there is none, nobody has chosen.
    if let Some(path) = start.enabled_plugins.as_ref().filter(|path| path.exists()) {
        reading.file(path, Config::read_plugins);
    }
    let told = reading.config.read_variables(start.variables.clone());
    reading.take(told);
    for assignment in &start.set {
        let told = reading.config.set(assignment);
        reading.take(told.map(Vec::from_iter).map_err(|mistake| vec![mistake]));
    }
    reading.finish()
}

/// A file in the format of rabbitmq.conf, with the environment's variables in place of `$(NAME)`.
fn read_conf(config: &mut Config, source: &str, text: &str) -> Result<Vec<Warning>, Vec<ConfigError>> {
    config.read_with(source, text, &|name| std::env::var(name).ok())
}

/// A configuration being put together.
#[derive(Default)]
struct Reading {
    config: Config,
    warnings: Vec<Warning>,
    mistakes: Vec<String>,
}

impl Reading {
    fn file(
        &mut self,
        path: &Path,
        read: impl FnOnce(&mut Config, &str, &str) -> Result<Vec<Warning>, Vec<ConfigError>>,
    ) {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let told = read(&mut self.config, &path.display().to_string(), &text);
                self.take(told);
            }
            Err(reason) => self.mistakes.push(format!("cannot read {}: {reason}", path.display())),
        }
    }

    fn take(&mut self, told: Result<Vec<Warning>, Vec<ConfigError>>) {
        match told {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(mistakes) => self.mistakes.extend(mistakes.iter().map(ToString::to_string)),
        }
    }

    fn finish(self) -> Result<(Config, Vec<Warning>), Vec<String>> {
        if self.mistakes.is_empty() { Ok((self.config, self.warnings)) } else { Err(self.mistakes) }
    }
}

/// `RABBITMQ_CONFIG_FILE` may leave out the end of the name.
fn with_extension(path: &Path, extension: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(".");
    longer.push(extension);
    let longer = PathBuf::from(longer);
    if !path.exists() && longer.exists() { longer } else { path.to_owned() }
}

/// The files of conf.d, in the order of their names: those of a directory that end in .conf, or those that a pattern such as
/// `/etc/rabbitmq/conf.d/*.conf` matches.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    let pattern = path.file_name().and_then(OsStr::to_str).filter(|name| !path.is_dir() && name.contains(['*', '?']));
    let Some(pattern) = pattern else { return files_in(path, "*.conf") };
    if pattern.contains(['[', '{', '\\']) {
        return Err(format!("cannot read the pattern {}: only * and ? are known", path.display()));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    files_in(directory.unwrap_or(Path::new(".")), pattern)
}

fn files_in(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let unreadable = |reason| format!("cannot read the directory {}: {reason}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut paths = paths.map_err(unreadable)?;
    paths.retain(|path| path.file_name().and_then(OsStr::to_str).is_some_and(|name| matches(pattern, name)));
    paths.sort();
    Ok(paths)
}

/// Whether a name fits a pattern, in which `*` stands for any letters and `?` for one. A dot at the beginning has to be
/// written, as in a shell.
fn matches(pattern: &str, name: &str) -> bool {
    fn rest(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            (['*', others @ ..], _) => (0..=name.len()).any(|at| rest(others, &name[at..])),
            (['?', others @ ..], [_, name @ ..]) => rest(others, name),
            ([letter, others @ ..], [first, name @ ..]) => letter == first && rest(others, name),
            ([], []) => true,
            _ => false,
        }
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    name.starts_with(&['.']) == pattern.starts_with(&['.']) && rest(&pattern, &name)
}

/// Files in the format of rabbitmq.conf, or of advanced.config or enabled_plugins if they are called so.
fn check(files: &[PathBuf]) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let mut reading = Reading::default();
    for path in files {
        let is_plugins = path.file_name().is_some_and(|name| name == "enabled_plugins");
        match path.extension().is_some_and(|extension| extension == "config") {
            _ if is_plugins => reading.file(path, Config::read_plugins),
            true => reading.file(path, Config::read_advanced),
            false => reading.file(path, read_conf),
        }
    }
    reading.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_the_order_of_their_names_and_only_those() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("is written");
        write("20-b.conf", "heartbeat = 20");
        write("10-a.conf", "heartbeat = 10\nframe_max = 8192");
        write("30-c.conf.bak", "heartbeat = 30");
        let files = files_of(directory.path()).expect("is there");
        let (config, _) = check(&files).expect("is right");
        let mut expected = Config::default();
        expected.set("heartbeat = 20").expect("a key");
        expected.set("frame_max = 8192").expect("a key");
        assert_eq!(config, expected);
        let bare = directory.path().join("20-b");
        assert_eq!(with_extension(&bare, "conf"), directory.path().join("20-b.conf"));
        assert_eq!(with_extension(Path::new("/no/such"), "conf"), Path::new("/no/such"));
        write("40-d.conf", "nonsense = 1\nheartbeat = x");
        let files = files_of(directory.path()).expect("is there");
        assert_eq!(check(&files).expect_err("is wrong").len(), 2);
        assert!(files_of(&directory.path().join("none")).expect_err("isn't there").contains("none"));
    }

    #[test]
    fn files_are_those_that_a_pattern_matches() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["20-b.conf", "10-a.conf", "30-c.conf.bak", ".40-d.conf", "5-e.conf"] {
            std::fs::write(directory.path().join(name), "").expect("is written");
        }
        let names = |pattern: &str| {
            let files = files_of(&directory.path().join(pattern)).expect("is a pattern");
            let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
            files.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names("*.conf"), ["10-a.conf", "20-b.conf", "5-e.conf"]);
        assert_eq!(names("?0-*.conf*"), ["10-a.conf", "20-b.conf", "30-c.conf.bak"]);
        assert!(names("*.none").is_empty());
        assert!(files_of(&directory.path().join("[1-2]*")).is_err_and(|mistake| mistake.contains("cannot read")));
        assert!(files_of(&directory.path().join("*[1-2]")).is_err_and(|mistake| mistake.contains("only * and ?")));
    }
}
