//! The command line of a node, and its combination with RabbitMQ's variables and paths.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Args, FromArgMatches};
use leveret_config::{Config, LogPlaces, Variable, environment_file};
use leveret_node::node_name;

use crate::container::{self, data_folder, mounts};
use crate::secret_files;

#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArguments {
    /// A file in the format of rabbitmq.conf
    #[arg(long, value_name = "FILE", env = "RABBITMQ_CONFIG_FILE")]
    config: Option<PathBuf>,
    /// A directory whose files that end in .conf win over that file, later names over earlier ones; or a pattern, such as conf.d/*.conf; or one file
    #[arg(long, value_name = "DIR", env = "RABBITMQ_CONFIG_FILES")]
    config_dir: Option<PathBuf>,
    /// A file in the format of advanced.config, whose terms win over those files
    #[arg(long, value_name = "FILE", env = "RABBITMQ_ADVANCED_CONFIG_FILE")]
    advanced_config: Option<PathBuf>,
    /// A file with the plugins that are wanted, in the format of RabbitMQ's enabled_plugins: of what is built in, what it
    /// doesn't name is off. Where there is no such file, all is on
    #[arg(long, value_name = "FILE", env = "RABBITMQ_ENABLED_PLUGINS_FILE")]
    enabled_plugins: Option<PathBuf>,
    /// A file of variables, in the format of rabbitmq-env.conf; the environment wins over it
    #[arg(long, value_name = "FILE", env = "RABBITMQ_CONF_ENV_FILE")]
    env_file: Option<PathBuf>,
    /// Where everything is kept; made if it isn't there. RABBITMQ_MNESIA_DIR, or RABBITMQ_MNESIA_BASE with the node's name
    /// behind it, says so too; without any it is `data`
    #[arg(long, value_name = "DIR", env = "LEVERET_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// A key of rabbitmq.conf; wins over the files
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Whether RabbitMQ's paths are those of the node.
    #[arg(skip)]
    is_installed: bool,
}

/// The log directory of an installed node.
const LOG_DIRECTORY: &str = "/var/log/rabbitmq";

/// RabbitMQ's paths, the defaults of an installed node.
const CONFIG: &str = "/etc/rabbitmq/rabbitmq.conf";
const CONFIG_DIR: &str = "/etc/rabbitmq/conf.d";
const ADVANCED_CONFIG: &str = "/etc/rabbitmq/advanced.config";
const ENABLED_PLUGINS: &str = "/etc/rabbitmq/enabled_plugins";
const ENV_FILE: &str = "/etc/rabbitmq/rabbitmq-env.conf";
const DATA_DIR: &str = "/var/lib/rabbitmq/leveret";

/// All settings that a node starts with: from the command line, the environment, rabbitmq-env.conf and the default
/// paths.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) config: Option<PathBuf>,
    pub(crate) config_dir: Option<PathBuf>,
    pub(crate) advanced_config: Option<PathBuf>,
    pub(crate) enabled_plugins: Option<PathBuf>,
    pub(crate) data_dir: PathBuf,
    /// The file that the process id is written to.
    pub(crate) pid_file: Option<PathBuf>,
    /// Whether that file is kept when the node stops.
    pub(crate) keeps_pid_file: bool,
    /// RabbitMQ's variables: from rabbitmq-env.conf, and from the environment, which wins.
    pub(crate) variables: Vec<Variable>,
    /// Keys and values that win over all other settings.
    pub(crate) set: Vec<String>,
    /// Warnings about settings that have no effect.
    pub(crate) warnings: Vec<String>,
    is_installed: bool,
}

impl ServerArguments {
    /// The arguments of `rabbitmq-server`. RabbitMQ's paths are the defaults if they exist.
    pub(crate) fn installed(words: impl IntoIterator<Item = OsString>) -> Self {
        let matches = Self::installed_command().get_matches_from(words);
        let mut arguments = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let is_said = |name: &str| matches.value_source(name) != Some(ValueSource::DefaultValue);
        // A default is only used after the variables.
        arguments.config = arguments.config.filter(|_| is_said("config"));
        arguments.config_dir = arguments.config_dir.filter(|_| is_said("config_dir"));
        arguments.advanced_config = arguments.advanced_config.filter(|_| is_said("advanced_config"));
        arguments.enabled_plugins = arguments.enabled_plugins.filter(|_| is_said("enabled_plugins"));
        arguments.env_file = arguments.env_file.filter(|_| is_said("env_file"));
        arguments.data_dir = arguments.data_dir.filter(|_| is_said("data_dir"));
        arguments.is_installed = true;
        arguments
    }

    /// The command line of `rabbitmq-server`.
    pub(crate) fn installed_command() -> clap::Command {
        let command = clap::Command::new("rabbitmq-server").about("Starts a node with RabbitMQ's paths");
        Self::augment_args(command.version(env!("CARGO_PKG_VERSION")))
            .mut_arg("config", |config| config.default_value(CONFIG))
            .mut_arg("config_dir", |directory| directory.default_value(CONFIG_DIR))
            .mut_arg("advanced_config", |config| config.default_value(ADVANCED_CONFIG))
            .mut_arg("enabled_plugins", |file| file.default_value(ENABLED_PLUGINS))
            .mut_arg("env_file", |file| file.default_value(ENV_FILE))
            .mut_arg("data_dir", |directory| directory.default_value(DATA_DIR))
            .arg(
                clap::Arg::new("detached")
                    .long("detached")
                    .action(clap::ArgAction::SetTrue)
                    .help("Go on in the background once the node has started; RabbitMQ's -detached is the same"),
            )
    }

    /// Finds settings that the command line lacks: in the environment, in rabbitmq-env.conf, at RabbitMQ's paths.
    ///
    /// # Errors
    /// All errors in rabbitmq-env.conf.
    pub(crate) fn look_up(&self) -> Result<Start, Vec<String>> {
        let installed = |path: &str| Some(PathBuf::from(path)).filter(|path| self.is_installed && path.exists());
        let said = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let mut variables = match said(&self.env_file).or_else(|| installed(ENV_FILE)) {
            Some(path) => variables_of(&path)?,
            None => Vec::new(),
        };
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            let is_meant = name.starts_with("RABBITMQ_") && !value.is_empty();
            is_meant.then(|| Variable { source: "environment".to_owned(), line: None, name, value })
        });
        let environment: Vec<Variable> = environment.collect();
        variables.retain(|of_file| environment.iter().all(|variable| variable.name != of_file.name));
        variables.extend(environment);
        secret_files::resolve(&mut variables)?;

        let (data_dir, own_pid_file, warnings) = self.data_folder(&variables);
        // Only in the image it has an effect, which it has had by now.
        variables.retain(|variable| !container::is_image() || variable.name != "RABBITMQ_DATA_DIR");
        let value = |name: &str| value_of(&variables, name);
        let path = |name: &str| value(name).map(PathBuf::from);
        let is_yes = |value: &str| matches!(value, "1" | "yes" | "true");
        Ok(Start {
            config: said(&self.config).or_else(|| path("CONFIG_FILE")).or_else(|| installed(CONFIG)),
            config_dir: said(&self.config_dir).or_else(|| path("CONFIG_FILES")).or_else(|| installed(CONFIG_DIR)),
            advanced_config: said(&self.advanced_config)
                .or_else(|| path("ADVANCED_CONFIG_FILE"))
                .or_else(|| installed(ADVANCED_CONFIG)),
            enabled_plugins: said(&self.enabled_plugins)
                .or_else(|| path("ENABLED_PLUGINS_FILE"))
                .or_else(|| self.is_installed.then(|| ENABLED_PLUGINS.into())),
            pid_file: path("PID_FILE").or(own_pid_file),
            keeps_pid_file: value("KEEP_PID_FILE_ON_EXIT").is_some_and(is_yes),
            data_dir,
            set: self.set.clone(),
            is_installed: self.is_installed,
            variables,
            warnings,
        })
    }

    /// The data folder, the file of the process id that belongs to it, and warnings.
    fn data_folder(&self, variables: &[Variable]) -> (PathBuf, Option<PathBuf>, Vec<String>) {
        let path = |name: &str| value_of(variables, name).map(PathBuf::from);
        let is_image = container::is_image();
        let of_base = || Some(path("MNESIA_BASE")?.join(value_of(variables, "NODENAME").unwrap_or("leveret")));
        let of_rabbitmq = path("MNESIA_DIR").or_else(|| of_base().filter(|_| !is_image));
        let given = self.data_dir.clone().filter(|path| !path.as_os_str().is_empty());
        let mut warnings = Vec::new();
        let data_dir = match (given, &of_rabbitmq) {
            (Some(data_dir), other) => {
                if other.as_ref().is_some_and(|other| *other != data_dir) {
                    warnings.push(
                        "RABBITMQ_MNESIA_DIR and RABBITMQ_MNESIA_BASE have no effect: --data-dir or LEVERET_DATA_DIR says \
                         where the data is"
                            .to_owned(),
                    );
                }
                data_dir
            }
            (None, Some(of_rabbitmq)) => of_rabbitmq.clone(),
            (None, None) if is_image => {
                let home = path("DATA_DIR").unwrap_or_else(|| container::HOME.into());
                let base = path("MNESIA_BASE").unwrap_or_else(|| home.join("mnesia"));
                let found = data_folder::find(&home, &base);
                warnings.extend(found.remarks);
                found.path
            }
            (None, None) => if self.is_installed { DATA_DIR } else { "data" }.into(),
        };
        if self.is_installed || is_image {
            warnings.extend(mounts::warning_of(&data_dir));
        }
        // RabbitMQ's own path for it, if the data is at RabbitMQ's own path.
        let pid_file = of_rabbitmq.filter(|directory| self.is_installed && *directory == data_dir).map(|directory| {
            let mut name = directory.into_os_string();
            name.push(".pid");
            PathBuf::from(name)
        });
        (data_dir, pid_file, warnings)
    }
}

/// The value of a variable, whose name is given without its prefix.
fn value_of<'a>(variables: &'a [Variable], name: &str) -> Option<&'a str> {
    let found = variables.iter().find(|variable| variable.name.strip_prefix("RABBITMQ_") == Some(name));
    found.map(|found| found.value.as_str())
}

impl Start {
    /// The default places of the log's files.
    pub(crate) fn log_places(&self, config: &Config) -> LogPlaces {
        let directory = match self.is_installed {
            true => LOG_DIRECTORY.to_owned(),
            false => self.data_dir.join("log").display().to_string(),
        };
        LogPlaces { directory, file: format!("{}.log", node_name(config)), is_installed: self.is_installed }
    }
}

/// The variables in a rabbitmq-env.conf.
fn variables_of(path: &Path) -> Result<Vec<Variable>, Vec<String>> {
    let text =
        std::fs::read_to_string(path).map_err(|reason| vec![format!("cannot read {}: {reason}", path.display())])?;
    let found = environment_file(&path.display().to_string(), &text);
    found.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}
