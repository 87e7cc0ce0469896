//! Why a command didn't do what it should, with the exit codes of RabbitMQ's tools (those of sysexits(3)).

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 64: the command line makes no sense, or asks for what isn't built.
    Usage(String),
    /// 65: a value that can't be, or an object that isn't there.
    Data(String),
    /// 67: no such user.
    NoUser(String),
    /// 69: the node can't be reached, or a check has failed.
    Unavailable(String),
    /// 70: the node refuses.
    Refused(String),
    /// 75: it takes too long.
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

    /// What is said on standard error.
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

    /// A value on the command line that can't be, in RabbitMQ's words.
    pub(crate) fn bad_argument(reason: &str) -> Self {
        Failure::Data(format!("Error (argument validation): {reason}"))
    }

    /// In RabbitMQ's words.
    pub(crate) fn no_vhost(vhost: &str) -> Self {
        Failure::Data(format!("Virtual host '{vhost}' does not exist"))
    }

    /// In RabbitMQ's words.
    pub(crate) fn no_user(user: &str) -> Self {
        Failure::NoUser(format!("User \"{user}\" does not exist"))
    }

    /// The node said no.
    pub(crate) fn refused(reason: &str) -> Self {
        Failure::Refused(format!("Error:\n{reason}"))
    }

    /// A check has failed.
    pub(crate) fn check(reason: &str) -> Self {
        Failure::Unavailable(format!("Error:\n{reason}"))
    }
}
