use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use leveret_config::{Config, ConfigError, Warning};
use leveret_node::harmless;

use crate::arguments::Start;
use crate::conf_files::files_of;

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

/// Runs `leveret config`. Exits with 1 if a file is invalid.
pub(crate) fn run(arguments: &ConfigArguments) -> ExitCode {
    match &arguments.command {
        ConfigCommand::Example => {
            print!("{}", leveret_config::example());
            ExitCode::SUCCESS
        }
        ConfigCommand::Check { files } => match check(files) {
            Ok((_, warnings)) => {
                warnings.iter().for_each(|warning| println!("{}", harmless(&warning.to_string())));
                ExitCode::SUCCESS
            }
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| eprintln!("leveret: {}", harmless(mistake)));
                ExitCode::FAILURE
            }
        },
    }
}

/// The configuration of a node. Later sources win: rabbitmq.conf, conf.d, advanced.config, rabbitmq-env.conf, the
/// environment, `--set`. Only enabled_plugins sets the enabled plugins.
///
/// # Errors
/// All errors, not only the first.
pub(crate) fn of_start(start: &Start) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let mut reading = Reading::default();
    if let Some(path) = &start.config {
        let path = main_file(path);
        match is_of_erlang(&path) {
            true => reading.file(&path, Config::read_advanced),
            false => reading.file(&path, read_conf),
        }
    }
    match start.config_dir.as_deref().map(files_of).transpose() {
        Ok(files) => files.into_iter().flatten().for_each(|path| reading.file(&path, read_conf)),
        Err(mistake) => reading.mistakes.push(mistake),
    }
    if let Some(path) = &start.advanced_config {
        reading.file(&with_extension(path, "config"), Config::read_advanced);
    }
    // Without the file, the operator hasn't chosen any plugins.
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

/// Reads a file in the format of rabbitmq.conf, with the environment's variables in place of `$(NAME)`.
fn read_conf(config: &mut Config, source: &str, text: &str) -> Result<Vec<Warning>, Vec<ConfigError>> {
    config.read_with(source, text, &|name| std::env::var(name).ok())
}

/// A configuration that is being assembled.
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

/// Adds the extension, which `RABBITMQ_CONFIG_FILE` may leave out.
fn with_extension(path: &Path, extension: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(".");
    longer.push(extension);
    let longer = PathBuf::from(longer);
    if !path.exists() && longer.exists() { longer } else { path.to_owned() }
}

/// The file that `RABBITMQ_CONFIG_FILE` names. RabbitMQ looks for it with `.conf` first, then with `.config`, which is
/// the form of Erlang's terms.
fn main_file(path: &Path) -> PathBuf {
    let found = with_extension(path, "conf");
    if found.exists() { found } else { with_extension(path, "config") }
}

/// Whether a file has Erlang's terms, by its name.
fn is_of_erlang(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "config")
}

/// Checks files in the format of rabbitmq.conf, or of advanced.config or enabled_plugins if they have that name.
fn check(files: &[PathBuf]) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let mut reading = Reading::default();
    for path in files {
        let is_plugins = path.file_name().is_some_and(|name| name == "enabled_plugins");
        match is_of_erlang(path) {
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
        assert_eq!(main_file(&bare), directory.path().join("20-b.conf"));
        write("erlang.config", "[{rabbit, [{heartbeat, 20}]}].");
        let erlang = directory.path().join("erlang");
        assert_eq!(main_file(&erlang), directory.path().join("erlang.config"));
        assert!(is_of_erlang(&main_file(&erlang)) && !is_of_erlang(&main_file(&bare)));
        write("40-d.conf", "nonsense = 1\nheartbeat = x");
        let files = files_of(directory.path()).expect("is there");
        assert_eq!(check(&files).expect_err("is wrong").len(), 2);
        let missing = files_of(&directory.path().join("none")).expect("is looked for when it is read");
        assert!(
            check(&missing).is_err_and(|mistakes| mistakes[0].contains("cannot read") && mistakes[0].contains("none"))
        );
    }
}
