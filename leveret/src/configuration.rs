use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use leveret_config::{Config, Warning};

use crate::server::ServerArguments;

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what is wrong with files in the format of rabbitmq.conf; later ones win
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
        ConfigCommand::Check { files } => match read(files, &[]) {
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

/// What a node is configured with.
///
/// # Errors
/// Every mistake, not only the first.
pub(crate) fn of_server(arguments: &ServerArguments) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let mut files: Vec<PathBuf> = arguments.config.iter().map(|path| with_extension(path)).collect();
    if let Some(directory) = &arguments.config_dir {
        files.extend(files_of(directory).map_err(|reason| vec![reason])?);
    }
    read(&files, &arguments.set)
}

/// `RABBITMQ_CONFIG_FILE` may leave out the end of the name.
fn with_extension(path: &Path) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(".conf");
    let longer = PathBuf::from(longer);
    if !path.exists() && longer.exists() { longer } else { path.to_owned() }
}

/// The files of conf.d, in the order of their names.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |reason| format!("cannot read the directory {}: {reason}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut paths = paths.map_err(unreadable)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    paths.sort();
    Ok(paths)
}

/// Files first, then assignments.
fn read(files: &[PathBuf], assignments: &[String]) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let (mut config, mut warnings, mut mistakes) = (Config::default(), Vec::new(), Vec::new());
    for path in files {
        match std::fs::read_to_string(path) {
            Ok(text) => match config.read(&path.display().to_string(), &text) {
                Ok(found) => warnings.extend(found),
                Err(found) => mistakes.extend(found.iter().map(ToString::to_string)),
            },
            Err(reason) => mistakes.push(format!("cannot read {}: {reason}", path.display())),
        }
    }
    for assignment in assignments {
        match config.set(assignment) {
            Ok(warning) => warnings.extend(warning),
            Err(mistake) => mistakes.push(mistake.to_string()),
        }
    }
    if mistakes.is_empty() { Ok((config, warnings)) } else { Err(mistakes) }
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
        let (config, _) = read(&files, &[]).expect("is right");
        let mut expected = Config::default();
        expected.set("heartbeat = 20").expect("a key");
        expected.set("frame_max = 8192").expect("a key");
        assert_eq!(config, expected);
        let bare = directory.path().join("20-b");
        assert_eq!(with_extension(&bare), directory.path().join("20-b.conf"));
        assert_eq!(with_extension(Path::new("/no/such")), Path::new("/no/such"));
        write("40-d.conf", "nonsense = 1\nheartbeat = x");
        let files = files_of(directory.path()).expect("is there");
        assert_eq!(read(&files, &["other = 1".to_owned()]).expect_err("is wrong").len(), 3);
        assert!(files_of(&directory.path().join("none")).expect_err("isn't there").contains("none"));
    }
}
