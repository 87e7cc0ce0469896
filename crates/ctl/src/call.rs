//! The invocation of a command.

use std::io::Read;
use std::time::Duration;

use clap::ArgMatches;

use crate::arguments::CommonOptions;
use crate::client::NodeClient;
use crate::failure::Failure;
use crate::tool::Tool;

/// Limit of a text read from standard input or a file, in bytes: definitions of some 200,000 queues.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// Default timeout of a response, as in RabbitMQ's tools.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The invocation of a command: its options, arguments and output.
pub(crate) struct Call<'a> {
    pub(crate) tool: Tool,
    pub(crate) options: CommonOptions,
    matches: ArgMatches,
    output: &'a mut String,
    /// The node, if the caller has found it.
    found: Option<NodeClient>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(tool: Tool, options: CommonOptions, matches: ArgMatches, output: &'a mut String) -> Self {
        Call { tool, options, matches, output, found: None }
    }

    /// The same invocation for a node that was found before.
    pub(crate) fn to(mut self, node: &NodeClient) -> Self {
        self.found = Some(node.clone());
        self
    }

    /// Writes a progress message for people.
    pub(crate) fn say(&mut self, text: &str) {
        if !self.options.quiet && !self.options.silent && !self.options.formatter.is_for_programs() {
            self.output.push_str(text);
            self.output.push('\n');
        }
    }

    /// The output so far, for a command that writes as it goes.
    pub(crate) fn take_output(&mut self) -> String {
        std::mem::take(self.output)
    }

    /// The node to talk to.
    ///
    /// # Errors
    /// No node answers, or its process has no node since `stop_app`.
    pub(crate) fn node(&self) -> Result<NodeClient, Failure> {
        let process = self.process()?;
        match process.is_running() {
            true => Ok(process),
            // RabbitMQ's text and exit code.
            false => Err(Failure::Usage(
                "Error: this command requires the 'rabbit' app to be running on the target node. Start it with \
                 'rabbitmqctl start_app'."
                    .to_owned(),
            )),
        }
    }

    /// As [`Call::node`], where it doesn't matter whether the node runs or only its process.
    ///
    /// # Errors
    /// No process answers.
    pub(crate) fn process(&self) -> Result<NodeClient, Failure> {
        if let Some(found) = &self.found {
            return Ok(found.clone());
        }
        NodeClient::connect(&self.options.place, self.options.timeout.unwrap_or(TIMEOUT))
    }

    /// An argument or the value of an option, if given.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.matches.get_one::<String>(name).map(String::as_str)
    }

    /// A mandatory argument.
    pub(crate) fn word(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// The values of a repeatable argument.
    pub(crate) fn words(&self, name: &str) -> Vec<String> {
        self.matches.get_many::<String>(name).unwrap_or_default().cloned().collect()
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.matches.get_flag(flag)
    }

    /// The virtual host of `-p`.
    pub(crate) fn vhost(&self) -> String {
        self.options.vhost.clone().unwrap_or_else(|| "/".to_owned())
    }

    /// An argument that is read from standard input if it wasn't given, without its line end.
    ///
    /// # Errors
    /// Standard input is empty.
    pub(crate) fn secret(&mut self, name: &str) -> Result<String, Failure> {
        if let Some(given) = self.given(name) {
            return Ok(given.to_owned());
        }
        let text = input()?;
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(line) => Ok(line.to_owned()),
            None => Err(Failure::Usage("Password is not provided via argument or stdin".to_owned())),
        }
    }
}

/// Reads all of standard input.
///
/// # Errors
/// It can't be read, or is too long.
pub(crate) fn input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 <= INPUT_BYTES_MAX => Ok(text),
        Ok(_) => Err(Failure::Data(format!("Error: standard input has more than {INPUT_BYTES_MAX} bytes"))),
        Err(reason) => Err(Failure::Data(format!("Error: cannot read standard input: {reason}"))),
    }
}
