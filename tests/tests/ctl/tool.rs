//! The tools, by names of the binary.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use leveret_tests::node::binary;

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a line such as `rabbitmqctl -q list_users` on the node of a data directory, with a text on standard input.
pub(crate) fn run(directory: &Path, line: &str, input: &str) -> Said {
    let words = words(line);
    let tool = match words[0].as_str() {
        "rabbitmqctl" => "ctl",
        "rabbitmq-diagnostics" => "diagnostics",
        "rabbitmq-plugins" => "plugins",
        "rabbitmq-upgrade" => "upgrade",
        "rabbitmq-queues" => "queues",
        "rabbitmq-streams" => "streams",
        other => panic!("{other} is no tool"),
    };
    let mut command = Command::new(binary());
    command.arg(tool).args(&words[1..]).env("LEVERET_DATA_DIR", directory).env_remove("RABBITMQ_NODENAME");
    // So that the machine's own file isn't changed.
    command.env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("enabled_plugins"));
    finish(command, input)
}

/// Runs a program to its end.
pub(crate) fn finish(mut command: Command, input: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run the binary");
    // A program that needs no input may have ended by now.
    let _ = child.stdin.take().expect("standard input").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("an end");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Said { exit: output.status.code().expect("no signal"), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The words of a line as parsed by a shell: only quotes of both kinds are supported.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn a_line_is_split_as_by_a_shell() {
    assert_eq!(words("a  b 'c \"d' \"\" e\"f g\"h"), ["a", "b", "c \"d", "", "ef gh"]);
}
