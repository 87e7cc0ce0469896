use std::path::Path;

/// A name of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Everything that changes something, and lists.
    Ctl,
    /// What looks and checks.
    Diagnostics,
    /// Plugins, which are all built in.
    Plugins,
    /// What is done before and after an upgrade.
    Upgrade,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 4] = [Tool::Ctl, Tool::Diagnostics, Tool::Plugins, Tool::Upgrade];

    /// RabbitMQ's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Tool::Ctl => "rabbitmqctl",
            Tool::Diagnostics => "rabbitmq-diagnostics",
            Tool::Plugins => "rabbitmq-plugins",
            Tool::Upgrade => "rabbitmq-upgrade",
        }
    }

    /// The tool that a program was called as, such as `/usr/sbin/rabbitmqctl`; none if it has another name.
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
    fn a_link_says_which_tool_it_is() {
        assert_eq!(Tool::called_as(Path::new("/usr/sbin/rabbitmqctl")), Some(Tool::Ctl));
        assert_eq!(Tool::called_as(Path::new("rabbitmq-plugins")), Some(Tool::Plugins));
        assert_eq!(Tool::called_as(Path::new("/usr/bin/leveret")), None);
    }
}
