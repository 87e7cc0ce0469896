//! The command-line tools, one for each of RabbitMQ's program names.

use std::path::Path;

/// A command-line tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// All commands that change the node, and those that list its objects.
    Ctl,
    /// Commands that inspect and check.
    Diagnostics,
    /// Commands about plugins. All plugins are built in.
    Plugins,
    /// Commands to run before and after an upgrade.
    Upgrade,
    /// Commands about quorum queues and their members.
    Queues,
    /// Commands about streams and super streams.
    Streams,
}

impl Tool {
    /// All tools.
    pub const ALL: [Tool; 6] =
        [Tool::Ctl, Tool::Diagnostics, Tool::Plugins, Tool::Upgrade, Tool::Queues, Tool::Streams];

    /// RabbitMQ's name of the tool.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tool::Ctl => "rabbitmqctl",
            Tool::Diagnostics => "rabbitmq-diagnostics",
            Tool::Plugins => "rabbitmq-plugins",
            Tool::Upgrade => "rabbitmq-upgrade",
            Tool::Queues => "rabbitmq-queues",
            Tool::Streams => "rabbitmq-streams",
        }
    }

    /// The tool for the name of a program, such as `/usr/sbin/rabbitmqctl`; `None` for other names.
    #[must_use]
    pub fn called_as(program: &Path) -> Option<Self> {
        let name = program.file_name()?;
        Tool::ALL.into_iter().find(|tool| *name == *tool.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_link_selects_the_tool() {
        assert_eq!(Tool::called_as(Path::new("/usr/sbin/rabbitmqctl")), Some(Tool::Ctl));
        assert_eq!(Tool::called_as(Path::new("rabbitmq-plugins")), Some(Tool::Plugins));
        assert_eq!(Tool::called_as(Path::new("/usr/bin/leveret")), None);
    }
}
