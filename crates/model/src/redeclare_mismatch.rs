use serde::{Deserialize, Serialize};

/// The answer of a vhost to a declaration of a queue that exists with other properties or arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedeclareMismatch {
    /// It is refused, as in RabbitMQ.
    #[default]
    Reject,
    /// It is accepted and logged; the queue stays as it is.
    Warn,
    /// It is accepted; the queue stays as it is.
    Accept,
}

impl RedeclareMismatch {
    /// All of them.
    pub const ALL: [RedeclareMismatch; 3] =
        [RedeclareMismatch::Accept, RedeclareMismatch::Warn, RedeclareMismatch::Reject];

    /// The name in the metadata of vhosts.
    pub fn name(self) -> &'static str {
        match self {
            RedeclareMismatch::Reject => "reject",
            RedeclareMismatch::Warn => "warn",
            RedeclareMismatch::Accept => "accept",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it is the default one.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
