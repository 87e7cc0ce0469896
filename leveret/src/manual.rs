//! Manual pages and completion for shells, generated from the command lines.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use leveret_ctl::Tool;

use crate::arguments::ServerArguments;

/// The names of the binary.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Leveret,
    #[value(name = "rabbitmq-server")]
    Server,
    #[value(name = "rabbitmqctl")]
    Ctl,
    #[value(name = "rabbitmq-diagnostics")]
    Diagnostics,
    #[value(name = "rabbitmq-plugins")]
    Plugins,
    #[value(name = "rabbitmq-upgrade")]
    Upgrade,
    #[value(name = "rabbitmq-queues")]
    Queues,
    #[value(name = "rabbitmq-streams")]
    Streams,
}

impl Name {
    fn command_line(self) -> Command {
        match self {
            Name::Leveret => {
                let tool = |tool, name: &'static str| {
                    move |old: Command| {
                        let about = old.get_about().cloned().unwrap_or_default();
                        leveret_ctl::command_line(tool).name(name).about(about)
                    }
                };
                crate::Arguments::command()
                    .mut_subcommand("ctl", tool(Tool::Ctl, "ctl"))
                    .mut_subcommand("diagnostics", tool(Tool::Diagnostics, "diagnostics"))
                    .mut_subcommand("plugins", tool(Tool::Plugins, "plugins"))
                    .mut_subcommand("upgrade", tool(Tool::Upgrade, "upgrade"))
                    .mut_subcommand("queues", tool(Tool::Queues, "queues"))
                    .mut_subcommand("streams", tool(Tool::Streams, "streams"))
            }
            Name::Server => ServerArguments::installed_command(),
            Name::Ctl => leveret_ctl::command_line(Tool::Ctl),
            Name::Diagnostics => leveret_ctl::command_line(Tool::Diagnostics),
            Name::Plugins => leveret_ctl::command_line(Tool::Plugins),
            Name::Upgrade => leveret_ctl::command_line(Tool::Upgrade),
            Name::Queues => leveret_ctl::command_line(Tool::Queues),
            Name::Streams => leveret_ctl::command_line(Tool::Streams),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// For which shell
    shell: Shell,
    /// For which name of the binary
    #[arg(value_enum, default_value_t = Name::Leveret)]
    name: Name,
}

/// Prints a shell's completion script.
pub(crate) fn complete(arguments: &CompletionArguments) -> ExitCode {
    let mut command = arguments.name.command_line();
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    print(&text)
}

#[derive(Debug, Args)]
pub(crate) struct ManualArguments {
    /// For which name of the binary
    #[arg(value_enum, default_value_t = Name::Leveret)]
    name: Name,
}

/// Prints a manual page for man(1).
pub(crate) fn manual(arguments: &ManualArguments) -> ExitCode {
    let mut command = arguments.name.command_line();
    // The commands of a tool are on its page, each with its arguments.
    if !matches!(arguments.name, Name::Leveret | Name::Server) {
        command = command.flatten_help(true);
    }
    let section = if matches!(arguments.name, Name::Leveret) { "1" } else { "8" };
    let page = clap_mangen::Man::new(command.version(env!("CARGO_PKG_VERSION"))).section(section);
    let mut text = Vec::new();
    match page.render(&mut text) {
        Ok(()) => print(&text),
        Err(reason) => {
            eprintln!("leveret: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a text. A closed pipe is no error: its reader has read enough.
fn print(text: &[u8]) -> ExitCode {
    let _ = stdout().lock().write_all(text);
    ExitCode::SUCCESS
}
