//! The table of scenarios by clients: one test per cell, named `client::scenario`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, fs};

use leveret_tests::table::{CLIENTS, SCENARIOS, STOPS_THE_BROKER, exception, markdown};
use leveret_tests::{cell, table};
use libtest_mimic::{Arguments, Failed, Trial};

const BEGIN: &str = "<!-- table: written by `make -C tests table` -->\n";
const END: &str = "<!-- end of table -->\n";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let given = env::var_os("LEVERET_TEST_URI").is_some();
    let mut trials = vec![Trial::test("the_readme_shows_the_table", readme)];
    for client in CLIENTS {
        for scenario in SCENARIOS {
            let skipped =
                exception(client.name, scenario.name).is_some() || (given && STOPS_THE_BROKER.contains(&scenario.name));
            let trial = Trial::test(format!("{}::{}", client.name, scenario.name), move || {
                cell::run(command(&client), scenario.name).map_err(Failed::from)
            });
            trials.push(trial.with_ignored_flag(skipped));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// How a client's program starts. `make -C tests/clients install` puts the parts in place.
fn command(client: &table::Client) -> Command {
    let clients = cell::clients();
    let installed = clients.join(".installed");
    match client.name {
        "pika" => {
            let mut command = Command::new(installed.join("venv/bin/python"));
            command.arg(clients.join("pika/client.py"));
            command
        }
        "go" => Command::new(installed.join("go-client")),
        "java" => {
            let classes = clients.join("java/target/classes");
            let libraries = fs::read_to_string(installed.join("java.classpath")).unwrap_or_default();
            let mut command = Command::new("java");
            command.args(["-XX:TieredStopAtLevel=1", "-cp"]);
            command.arg(format!("{}:{}", classes.display(), libraries.trim())).arg("ScenarioClient");
            command
        }
        "node" => {
            let mut command = Command::new("node");
            command.arg(clients.join("node/client.js"));
            command
        }
        _ => Command::new(PathBuf::from(env!("CARGO_BIN_EXE_lapin-client"))),
    }
}

fn readme() -> Result<(), Failed> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&path)?;
    let begin = text.find(BEGIN).ok_or("no table in README.md")? + BEGIN.len();
    let end = text.find(END).ok_or("no end of the table in README.md")?;
    if text[begin..end] == markdown() {
        return Ok(());
    }
    if env::var_os("LEVERET_WRITE_TABLE").is_some() {
        fs::write(&path, format!("{}{}{}", &text[..begin], markdown(), &text[end..]))?;
        return Ok(());
    }
    Err("README.md shows another table; run `make -C tests table`".into())
}
