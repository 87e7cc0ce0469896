/// The category of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogCategory {
    /// Everything else.
    Default,
    /// Connections of clients.
    Connection,
    /// Channels, sessions and links.
    Channel,
    /// Queues.
    Queue,
    /// Users and their logins.
    User,
    /// Upgrades. No line has this category yet.
    Upgrade,
    /// Federation. No line has this category yet.
    Federation,
    /// Mirrors of classic queues, which RabbitMQ removed. No line has this category.
    Mirroring,
    /// Raft. No line has this category yet.
    Ra,
}

impl LogCategory {
    /// Number of categories.
    pub const COUNT: usize = 9;

    /// All categories.
    pub const ALL: [LogCategory; Self::COUNT] = [
        LogCategory::Default,
        LogCategory::Connection,
        LogCategory::Channel,
        LogCategory::Queue,
        LogCategory::User,
        LogCategory::Upgrade,
        LogCategory::Federation,
        LogCategory::Mirroring,
        LogCategory::Ra,
    ];

    /// The name in `log.NAME.level`.
    pub fn name(self) -> &'static str {
        match self {
            LogCategory::Default => "default",
            LogCategory::Connection => "connection",
            LogCategory::Channel => "channel",
            LogCategory::Queue => "queue",
            LogCategory::User => "user",
            LogCategory::Upgrade => "upgrade",
            LogCategory::Federation => "federation",
            LogCategory::Mirroring => "mirroring",
            LogCategory::Ra => "ra",
        }
    }

    /// The category of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }
}
