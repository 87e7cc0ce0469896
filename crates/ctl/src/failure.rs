//! Reasons for the failure of a command, with the exit codes of RabbitMQ's tools (those of sysexits(3)).

/// The reason for the failure of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 64: the command line is invalid, or asks for something unsupported.
    Usage(String),
    /// 65: a value is invalid, or an object doesn't exist.
    Data(String),
    /// 67: the user doesn't exist.
    NoUser(String),
    /// 69: the node can't be reached, or a check has failed.
    Unavailable(String),
    /// 70: the node refuses.
    Refused(String),
    /// 75: the operation timed out.
    Timeout(String),
}

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 64,
            Failure::Data(_) => 65,
            Failure::NoUser(_) => 67,
            Failure::Unavailable(_) => 69,
            Failure::Refused(_) => 70,
            Failure::Timeout(_) => 75,
        }
    }

    /// The text for standard error.
    pub(crate) fn text(&self) -> &str {
        match self {
            Failure::Usage(text)
            | Failure::Data(text)
            | Failure::NoUser(text)
            | Failure::Unavailable(text)
            | Failure::Refused(text)
            | Failure::Timeout(text) => text,
        }
    }

    /// An invalid value on the command line, in RabbitMQ's words.
    pub(crate) fn bad_argument(reason: &str) -> Self {
        Failure::Data(format!("Error (argument validation): {reason}"))
    }

    /// A missing virtual host, in RabbitMQ's words.
    pub(crate) fn no_vhost(vhost: &str) -> Self {
        Failure::Data(format!("Virtual host '{vhost}' does not exist"))
    }

    /// A missing user, in RabbitMQ's words.
    pub(crate) fn no_user(user: &str) -> Self {
        Failure::NoUser(format!("User \"{user}\" does not exist"))
    }

    /// A missing user, in the words of commands that change its permissions.
    pub(crate) fn no_user_for_permissions(user: &str) -> Self {
        Failure::NoUser(format!("Error:\nUser {user} does not exist"))
    }

    /// A missing user, in the words of commands for which it is the object of a look-up: RabbitMQ's exit code is that of a check.
    pub(crate) fn no_such_user(user: &str) -> Self {
        Failure::check(&format!("{{:no_such_user, \"{user}\"}}"))
    }

    /// A refusal by the node.
    pub(crate) fn refused(reason: &str) -> Self {
        Failure::Refused(format!("Error:\n{reason}"))
    }

    /// A failed check.
    pub(crate) fn check(reason: &str) -> Self {
        Failure::Unavailable(format!("Error:\n{reason}"))
    }
}
