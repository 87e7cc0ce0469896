use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use leveret_config::{Config, Durability, LogLevel, Warning};
use leveret_log::Report;
use leveret_management::{Api, Definitions, MetricsOptions};
use leveret_node::{DirectoryLock, LocalSocket, Node, NodeOptions, node_name};
use tracing::level_filters::LevelFilter;
use tracing::{error, info, warn};
use tracing_appender::non_blocking::WorkerGuard;

use crate::banner::Banner;
use crate::listeners::Listeners;

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

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// A file in the format of rabbitmq.conf
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept; made if it isn't there
    #[arg(long, value_name = "DIR", env = "LEVERET_DATA_DIR", default_value = "data")]
    data_dir: PathBuf,
    /// A key of rabbitmq.conf; wins over the file
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs a node until it is asked to stop.
pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    let (config, warnings) = match configure(arguments) {
        Ok(configured) => configured,
        Err(reasons) => {
            reasons.iter().for_each(|reason| eprintln!("leveret: {reason}"));
            return ExitCode::FAILURE;
        }
    };
    let _log = log_to_stdout(&config);
    warnings.iter().for_each(|warning| warn!("{warning}"));
    match serve(&config, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("leveret: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// File first, then `--set`; every mistake is told, not only the first.
fn configure(arguments: &ServerArguments) -> Result<(Config, Vec<Warning>), Vec<String>> {
    let (mut config, mut warnings, mut mistakes) = (Config::default(), Vec::new(), Vec::new());
    if let Some(path) = &arguments.config {
        match std::fs::read_to_string(path) {
            Ok(text) => match config.read(&path.display().to_string(), &text) {
                Ok(found) => warnings.extend(found),
                Err(found) => mistakes.extend(found.iter().map(ToString::to_string)),
            },
            Err(reason) => mistakes.push(format!("cannot read {}: {reason}", path.display())),
        }
    }
    for assignment in &arguments.set {
        match config.set(assignment) {
            Ok(warning) => warnings.extend(warning),
            Err(mistake) => mistakes.push(mistake.to_string()),
        }
    }
    if mistakes.is_empty() { Ok((config, warnings)) } else { Err(mistakes) }
}

/// Lines are written by a thread of their own: a pipe that nobody reads must not hold up a core. What the guard's drop
/// can't write within a second is lost, as is what comes while 100,000 lines wait.
fn log_to_stdout(config: &Config) -> WorkerGuard {
    let level = match config.log.level {
        LogLevel::None => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let level = if config.log.console { level } else { LevelFilter::OFF };
    let (writer, guard) = tracing_appender::non_blocking(std::io::stdout());
    tracing_subscriber::fmt().with_writer(writer).with_max_level(level).with_ansi(false).with_target(false).init();
    guard
}

fn serve(config: &Config, arguments: &ServerArguments) -> Result<(), Box<dyn Error>> {
    // A directory or a port that is taken is found before anything is recovered.
    let lock = DirectoryLock::acquire(&arguments.data_dir)?;
    let listeners = Listeners::open(config)?;

    let definitions = config.load_definitions.as_ref().map(|path| Definitions::read(path.as_ref())).transpose()?;
    let mut options = NodeOptions::new(config, Arc::new(end_the_process));
    if definitions.as_ref().is_some_and(Definitions::have_users) {
        // As in RabbitMQ: whoever brings users wants no guest.
        options.first_user = None;
    }
    let (mut node, report) = Node::start(lock, options)?;
    tell(&report);
    let durability = durability(config);
    let api = Api::new(node.handle(), node_name(), arguments.data_dir.clone(), durability.to_owned());
    api.set_configuration(config.effective());
    if let Some(definitions) = definitions {
        let loading = definitions.load(&api, config.definitions_skip_if_unchanged);
        match node.side_runtime().block_on(loading)? {
            true => info!("definitions are loaded"),
            false => info!("definitions haven't changed since they were loaded"),
        }
    }
    node.spawn(api.clone().sample());
    let others = listeners.ports();
    for listener in listeners.http {
        listener.serve(&node, leveret_management::api_under(&config.management_path_prefix, api.clone()));
    }
    let pages = config.metrics.clone();
    let pages = MetricsOptions { path: pages.path, per_object: pages.per_object, authentication: pages.authentication };
    for listener in listeners.prometheus {
        listener.serve(&node, leveret_management::metrics(api.clone(), pages.clone()));
    }
    let local_socket = serve_commands(&node, api.clone());
    let ports = node.accept(listeners.amqp, others, listeners.tls)?;

    let cores = node.handle().connections_per_core().len();
    let banner = Banner { ports, data_directory: &arguments.data_dir, durability, cores };
    // A closed stdout is no reason not to serve.
    let _ = writeln!(std::io::stdout(), "{banner}\nServer startup complete");

    let signal = node.wait_for_signal();
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
fn end_the_process(text: &str) {
    error!("{text}");
    eprintln!("leveret: {text}");
    std::process::exit(1);
}
