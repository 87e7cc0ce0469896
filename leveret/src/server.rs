use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Args, FromArgMatches};
use leveret_config::{Config, Durability, LogLevel, LogPlaces};
use leveret_log::Report;
use leveret_management::{Api, Definitions, MetricsOptions};
use leveret_node::{DirectoryLock, LocalSocket, Log, Node, NodeOptions, node_name, refuse_huge_pages};
use tracing::{error, info, warn};

use crate::banner::Banner;
use crate::listeners::Listeners;
use crate::reload::Reload;
use crate::{configuration, notify};

/// What a confirm promises in queues that don't say something else (`x-durability`).
fn durability(config: &Config) -> &'static str {
    match config.queue_durability {
        Durability::Synced => "flushed (a confirmed message survives a power cut)",
        Durability::Os => "written (a confirmed message survives a crash of the node, not a power cut)",
        Durability::Memory => "memory (a confirmed message doesn't survive a restart)",
    }
}

/// RabbitMQ's words, which clients show.
const STOP_REASON: &str = "broker forced connection closure with reason 'shutdown'";

#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArguments {
    /// A file in the format of rabbitmq.conf
    #[arg(long, value_name = "FILE", env = "RABBITMQ_CONFIG_FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A directory whose files that end in .conf win over that file, later names over earlier ones
    #[arg(long, value_name = "DIR", env = "RABBITMQ_CONFIG_FILES")]
    pub(crate) config_dir: Option<PathBuf>,
    /// A file in the format of advanced.config, whose terms win over those files
    #[arg(long, value_name = "FILE", env = "RABBITMQ_ADVANCED_CONFIG_FILE")]
    pub(crate) advanced_config: Option<PathBuf>,
    /// A file with the plugins that are wanted, in the format of RabbitMQ's enabled_plugins: of what is built in, what it
    /// doesn't name is off. Where there is no such file, all is on
    #[arg(long, value_name = "FILE", env = "RABBITMQ_ENABLED_PLUGINS_FILE")]
    pub(crate) enabled_plugins: Option<PathBuf>,
    /// A file of variables, in the format of rabbitmq-env.conf; the environment wins over it
    #[arg(long, value_name = "FILE", env = "RABBITMQ_CONF_ENV_FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// Where everything is kept; made if it isn't there
    #[arg(long, value_name = "DIR", env = "LEVERET_DATA_DIR", default_value = "data")]
    data_dir: PathBuf,
    /// A key of rabbitmq.conf; wins over the files
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Whether RabbitMQ's paths are those of the node.
    #[arg(skip)]
    is_installed: bool,
}

/// Where an installed node logs.
const LOG_DIRECTORY: &str = "/var/log/rabbitmq";
/// What a fatal error waits for its line to be written.
const LAST_LINE_PATIENCE: Duration = Duration::from_secs(1);

impl ServerArguments {
    /// What stands behind `rabbitmq-server`: RabbitMQ's paths, where nothing else is said and they are there.
    pub(crate) fn installed(words: impl IntoIterator<Item = OsString>) -> Self {
        let matches = Self::installed_command().get_matches_from(words);
        let mut arguments = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let is_there =
            |name: &str, path: &PathBuf| matches.value_source(name) != Some(ValueSource::DefaultValue) || path.exists();
        arguments.config = arguments.config.filter(|path| is_there("config", path));
        arguments.config_dir = arguments.config_dir.filter(|path| is_there("config_dir", path));
        if matches.value_source("data_dir") == Some(ValueSource::DefaultValue) {
            let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let of_base = || {
                let node = variable("RABBITMQ_NODENAME").unwrap_or_else(|| "leveret".into());
                Some(variable("RABBITMQ_MNESIA_BASE")?.join(node))
            };
            arguments.data_dir = variable("RABBITMQ_MNESIA_DIR").or_else(of_base).unwrap_or(arguments.data_dir);
        }
        arguments.advanced_config = arguments.advanced_config.filter(|path| is_there("advanced_config", path));
        arguments.env_file = arguments.env_file.filter(|path| is_there("env_file", path));
        arguments.is_installed = true;
        arguments
    }

    /// Where files of the log are, if nothing else is said.
    fn log_places(&self, config: &Config) -> LogPlaces {
        let directory = match self.is_installed {
            true => LOG_DIRECTORY.to_owned(),
            false => self.data_dir.join("log").display().to_string(),
        };
        LogPlaces { directory, file: format!("{}.log", node_name(config)), is_installed: self.is_installed }
    }

    /// The command line of `rabbitmq-server`.
    pub(crate) fn installed_command() -> clap::Command {
        let command = clap::Command::new("rabbitmq-server").about("Starts a node with RabbitMQ's paths");
        Self::augment_args(command.version(env!("CARGO_PKG_VERSION")))
            .mut_arg("config", |config| config.default_value("/etc/rabbitmq/rabbitmq.conf"))
            .mut_arg("config_dir", |directory| directory.default_value("/etc/rabbitmq/conf.d"))
            .mut_arg("advanced_config", |config| config.default_value("/etc/rabbitmq/advanced.config"))
            .mut_arg("enabled_plugins", |file| file.default_value("/etc/rabbitmq/enabled_plugins"))
            .mut_arg("env_file", |file| file.default_value("/etc/rabbitmq/rabbitmq-env.conf"))
            .mut_arg("data_dir", |directory| directory.default_value("/var/lib/rabbitmq/leveret"))
    }
}

/// Runs a node until it is asked to stop.
pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    // First of all: what is a huge page by then stays one.
    refuse_huge_pages();
    let (config, warnings) = match configuration::of_server(arguments) {
        Ok(configured) => configured,
        Err(reasons) => {
            reasons.iter().for_each(|reason| eprintln!("leveret: {reason}"));
            return ExitCode::FAILURE;
        }
    };
    let log = match Log::start(&config.log, arguments.log_places(&config)) {
        Ok(log) => log,
        Err(reason) => {
            eprintln!("leveret: {reason}");
            return ExitCode::FAILURE;
        }
    };
    warnings.iter().for_each(|warning| warn!("{warning}"));
    let served = serve(&config, arguments, &log);
    if let Err(reason) = &served {
        error!(critical = true, "{reason}");
        eprintln!("leveret: {reason}");
    }
    log.stop();
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(config: &Config, arguments: &ServerArguments, log: &Log) -> Result<(), Box<dyn Error>> {
    // A directory or a port that is taken is found before anything is recovered.
    let lock = DirectoryLock::acquire(&arguments.data_dir)?;
    let listeners = Listeners::open(config)?;

    let definitions = config.load_definitions.as_ref().map(|path| Definitions::read(path.as_ref())).transpose()?;
    let last_words = log.clone();
    let mut options = NodeOptions::new(config, Arc::new(move |text: &str| end_the_process(text, &last_words)));
    if definitions.is_some() {
        // As in RabbitMQ: whoever brings definitions wants neither guest nor the vhost "/".
        options.first_user = None;
    }
    let (mut node, report) = Node::start(lock, options)?;
    tell(&report);
    let durability = durability(config);
    let api = Api::new(node.handle(), node_name(config), arguments.data_dir.clone(), durability.to_owned());
    api.set_configuration(config.effective());
    api.set_plugins(arguments.enabled_plugins.clone(), &config.plugins);
    api.set_log(log.clone());
    if let Some(definitions) = definitions {
        let loading = definitions.load(&api, config.definitions_skip_if_unchanged);
        match node.side_runtime().block_on(loading)? {
            true => info!("definitions are loaded"),
            false => info!("definitions haven't changed since they were loaded"),
        }
        node.finish_first_start()?;
    }
    node.spawn(api.clone().sample());
    let others = listeners.ports();
    node.others_listen(listeners.others());
    for listener in listeners.http {
        listener.serve(&node, leveret_management::api_under(&config.management_path_prefix, api.clone()));
    }
    let pages = config.metrics.clone();
    let pages = MetricsOptions { path: pages.path, per_object: pages.per_object, authentication: pages.authentication };
    for listener in listeners.prometheus {
        listener.serve(&node, leveret_management::metrics(api.clone(), pages.clone()));
    }
    let local_socket = serve_commands(&node, api.clone());
    let mut reload = Reload {
        arguments: arguments.clone(),
        running: config.clone(),
        api: api.clone(),
        node: node.handle(),
        log: log.clone(),
    };
    node.on_hangup(move || reload.now())?;
    let ports = node.accept(listeners.amqp, others, listeners.tls)?;

    let cores = node.handle().connections_per_core().len();
    let banner = Banner { ports, data_directory: &arguments.data_dir, durability, cores };
    // A closed stdout is no reason not to serve.
    let _ = writeln!(std::io::stdout(), "{banner}");
    info!("Server startup complete");
    if !log.is_on_stdout(LogLevel::Info) {
        let _ = writeln!(std::io::stdout(), "Server startup complete");
    }
    notify::manager("READY=1");

    let signal = node.wait_for_signal();
    notify::manager("STOPPING=1");
    info!("{signal}: closing connections and stopping");
    drop(local_socket);
    node.stop(STOP_REASON);
    info!("stopped");
    Ok(())
}

/// A node without its socket serves clients; what can't be done is to command it.
fn serve_commands(node: &Node, api: Api) -> Option<LocalSocket> {
    match node.open_local_socket() {
        Ok((socket, listener)) => {
            let router = leveret_management::local(api);
            node.spawn(async move {
                if let Err(reason) = leveret_management::serve_local(listener, router).await {
                    error!("the socket of rabbitmqctl has failed: {reason}");
                }
            });
            Some(socket)
        }
        Err(reason) => {
            warn!("rabbitmqctl can't reach this node: {reason}");
            None
        }
    }
}

fn tell(report: &Report) {
    if let Some(cut) = &report.cut {
        warn!(
            "the last batch of {} was torn (bytes {} to {}): nothing in it was confirmed; it is kept as {}",
            cut.file, cut.range.start, cut.range.end, cut.kept
        );
    }
    report.damaged.iter().for_each(|damage| error!("storage is damaged: {damage:?}"));
    info!(
        "recovered {} records after the {} logs of the last checkpoint ({})",
        report.replayed,
        report.restored,
        if report.clean { "clean stop" } else { "the node was not stopped cleanly" }
    );
}

/// Storage has failed: nothing may be confirmed any more.
fn end_the_process(text: &str, log: &Log) {
    error!(critical = true, "{text}");
    log.flush(LAST_LINE_PATIENCE);
    eprintln!("leveret: {text}");
    std::process::exit(1);
}
