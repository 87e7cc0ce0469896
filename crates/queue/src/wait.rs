//! Reasons for waits: every wait has a reason code, shown to operators with the time since when it applies.

use crate::nanos::Nanos;

/// Reason codes, in the words that the HTTP API shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// Consumer: nothing is ready.
    Empty,
    /// Consumer: its prefetch is used up; it has to acknowledge.
    Credit,
    /// Consumer: its receiver granted no more link credit (AMQP 1.0).
    LinkCredit,
    /// Consumer: the incoming window of its session is used up (AMQP 1.0), or too much of its session or channel is unsettled.
    Window,
    /// Consumer: its connection doesn't take more bytes; the client must read its socket.
    Room,
    /// Consumer: the head of the queue is being read from disk.
    Disk,
    /// Consumer: scheduled; its core will serve it.
    Turn,
    /// Consumer: another one is the single active consumer of the queue.
    Inactive,
    /// Consumer: it has to settle its deliveries, then a consumer of a higher priority is the single active one.
    Replaced,
    /// Consumer: deliveries were taken back from it after its timeout; it has to settle all of them.
    Overdue,
    /// Queue: messages are ready and there is no consumer.
    NoConsumers,
    /// Queue: messages are ready and no consumer can take any (credit or room).
    ConsumersBusy,
    /// Queue: published messages wait for the disk's sync.
    Sync,
    /// Queue: its length limit refuses publishes.
    Full,
    /// Queue: an exclusive consumer holds it.
    ExclusiveConsumer,
    /// Queue: every message is delivered and unacknowledged.
    Unacknowledged,
    /// Queue: it stopped, and has to be rebuilt from its log.
    Failed,
    /// Queue: a publisher is held back, since the log's buffer is full.
    LogFull,
    /// Connection: a large body is being written to a file of its own.
    BodyFile,
    /// Queue: a publisher is held back, since the disk is full: the log could not create a file.
    DiskFull,
    /// Queue: a publisher is held back, since an alarm for memory or disk is raised.
    Alarm,
    /// Queue and connection: publishers are paced, since messages stand although consumers take them without pause.
    Pacing,
    /// Connection: it publishes to queues of another node, which has to take what is on its way, or has an alarm.
    Link,
    /// Queue and connection: publishers are held back, since too much waits for a majority of the queue's members.
    Replication,
    /// Queue and connection: publishers are held back, since no majority of the queue's members has a leader.
    NoQuorum,
}

impl WaitReason {
    /// All reasons, in their order.
    pub const ALL: [WaitReason; 25] = [
        Self::Empty,
        Self::Credit,
        Self::LinkCredit,
        Self::Window,
        Self::Room,
        Self::Disk,
        Self::Turn,
        Self::Inactive,
        Self::Replaced,
        Self::Overdue,
        Self::NoConsumers,
        Self::ConsumersBusy,
        Self::Sync,
        Self::Full,
        Self::ExclusiveConsumer,
        Self::Unacknowledged,
        Self::Failed,
        Self::LogFull,
        Self::BodyFile,
        Self::DiskFull,
        Self::Alarm,
        Self::Pacing,
        Self::Link,
        Self::Replication,
        Self::NoQuorum,
    ];

    /// Whether a publisher that is held back for this reason goes on as soon as a commit stream has room.
    pub fn is_for_room(self) -> bool {
        matches!(self, Self::LogFull | Self::DiskFull | Self::Link | Self::Replication | Self::NoQuorum)
    }

    /// The code as shown.
    pub fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Credit => "credit",
            Self::LinkCredit => "link_credit",
            Self::Window => "window",
            Self::Room => "room",
            Self::Disk => "disk",
            Self::Turn => "turn",
            Self::Inactive => "inactive",
            Self::Replaced => "replaced",
            Self::Overdue => "overdue",
            Self::NoConsumers => "no_consumers",
            Self::ConsumersBusy => "consumers_busy",
            Self::Sync => "sync",
            Self::Full => "full",
            Self::ExclusiveConsumer => "exclusive_consumer",
            Self::Unacknowledged => "unacknowledged",
            Self::Failed => "failed",
            Self::LogFull => "log_full",
            Self::DiskFull => "disk_full",
            Self::BodyFile => "body_file",
            Self::Alarm => "alarm",
            Self::Pacing => "pacing",
            Self::Link => "link",
            Self::Replication => "replication",
            Self::NoQuorum => "no_quorum",
        }
    }
}

/// A wait, and the time since when it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueWait {
    /// The reason.
    pub reason: WaitReason,
    /// Monotonic nanoseconds at which it began.
    pub since: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place_and_a_code_of_its_own() {
        for (at, reason) in WaitReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
            assert!(WaitReason::ALL[..at].iter().all(|other| other.code() != reason.code()));
        }
    }
}
