//! The table of scenarios by clients: one test per cell, named `client::scenario`; again over TLS, named
//! `tls::client::scenario`, and with quorum queues, named `quorum::client::scenario`. Some of the latter two always run, and all
//! of them with LEVERET_TLS_TABLE=whole (`make -C tests tls`) or LEVERET_QUORUM_TABLE=whole (`make -C tests quorum`). RabbitMQ's own
//! clients have scenarios of streams besides, named `streams::client::scenario`.

mod by_default;
mod over_tls;
mod streams;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use leveret_tests::cell::{self, Transport};
use leveret_tests::table::{ClientLibrary, Program, Scenario, TABLES, Table, exception, strays};
use libtest_mimic::{Arguments, Failed, Trial};

const END: &str = "<!-- end of table -->\n";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let given = env::var_os("LEVERET_TEST_URI").is_some();
    let mut trials = vec![
        Trial::test("the_readme_shows_the_tables", readme),
        Trial::test("exceptions_name_scenarios", || {
            let strays = strays();
            if strays.is_empty() { Ok(()) } else { Err(format!("no such scenario: {strays:?}").into()) }
        }),
    ];
    for table in TABLES {
        for client in table.clients {
            for scenario in table.scenarios {
                let runs_on_a_given_broker = !client.leveret_only && scenario.runs_on_a_given_broker();
                let skipped = exception(client, scenario.name).is_some() || (given && !runs_on_a_given_broker);
                let trial = Trial::test(format!("{}::{}", client.name, scenario.name), move || {
                    run(client, scenario, Transport::Plain).map_err(Failed::from)
                });
                trials.push(trial.with_ignored_flag(skipped));
            }
        }
    }
    trials.extend(over_tls::trials());
    trials.extend(by_default::trials());
    trials.extend(streams::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Cells that are run once more when they fail, since their client fails by itself now and then. Client, scenario and how it fails.
const ONCE_MORE: &[(&str, &str, &str)] = &[(
    "rabbitmq-java",
    "publish",
    "on a busy machine it loses one of a hundred deliveries in one of a hundred runs; captured packets have all of them, in order",
)];

/// Runs a cell.
fn run(client: &ClientLibrary, scenario: &Scenario, transport: Transport) -> Result<(), String> {
    let first = cell::run(command(client.program), scenario, transport);
    let known = ONCE_MORE.iter().find(|(name, of, _)| (*name, *of) == (client.name, scenario.name));
    match (first, known) {
        (Err(error), Some((.., why))) => {
            eprintln!("{}::{} failed and runs once more, because {why}: {error}", client.name, scenario.name);
            cell::run(command(client.program), scenario, transport)
        }
        (result, _) => result,
    }
}

fn command(program: Program) -> Command {
    let clients = cell::clients();
    let installed = clients.join(".installed");
    match program {
        Program::Python(script) => interpreted(installed.join("venv/bin/python"), &clients.join(script)),
        Program::Installed(name) => Command::new(installed.join(name)),
        Program::Java { folder, main } => {
            let classes = clients.join(folder).join("target/classes");
            let libraries = fs::read_to_string(installed.join(format!("{folder}.classpath"))).unwrap_or_default();
            let mut command = Command::new("java");
            command.args(["-XX:TieredStopAtLevel=1", "-cp"]);
            command.arg(format!("{}:{}", classes.display(), libraries.trim())).arg(main);
            command
        }
        Program::Node(script) => interpreted("node", &clients.join(script)),
        Program::Ruby(script) => interpreted("ruby", &clients.join(script)),
        Program::Php(script) => interpreted("php", &clients.join(script)),
        Program::Ours(name) => Command::new(match name {
            "lapin-client" => env!("CARGO_BIN_EXE_lapin-client"),
            "fe2o3-client" => env!("CARGO_BIN_EXE_fe2o3-client"),
            _ => panic!("no binary {name}"),
        }),
    }
}

fn interpreted(interpreter: impl AsRef<OsStr>, script: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(script);
    command
}

fn readme() -> Result<(), Failed> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let mut text = fs::read_to_string(&path)?;
    let before = text.clone();
    for table in TABLES {
        put(&mut text, table)?;
    }
    if text == before {
        return Ok(());
    }
    if env::var_os("LEVERET_WRITE_TABLE").is_some() {
        fs::write(&path, text)?;
        return Ok(());
    }
    Err("README.md shows another table; run `make -C tests table`".into())
}

fn put(text: &mut String, table: &Table) -> Result<(), Failed> {
    let mark = format!("<!-- table of {}: written by `make -C tests table` -->\n", table.title);
    let begin = text.find(&mark).ok_or_else(|| format!("no table of {} in README.md", table.title))? + mark.len();
    let end = begin + text[begin..].find(END).ok_or("no end of a table in README.md")?;
    text.replace_range(begin..end, &table.markdown());
    Ok(())
}
