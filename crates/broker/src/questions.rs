//! Questions to a queue about itself, which change none of its messages.
//!
//! All go one way, as one value that is plain data: [`QueueRef::ask`](crate::queue_handle::QueueRef::ask) takes a
//! [`QueueQuestion`], the queue's home answers it with one function, and the answer may come later. Each question is a type of its
//! own as well, so that its asker gets an answer of the right type.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_queue::{
    ConsumerId, ConsumerStatus, Count, Peeked, QueueCounts, QueueState, QueueStatus, Scan, SetAside, StreamFilter,
    StreamStart,
};

use crate::ticket::Awaited;
use crate::time::Nanos;

/// A question as its asker knows it.
pub trait Ask: Into<QueueQuestion> + Send + 'static {
    /// Its answer.
    type Answer: Send + 'static;

    /// The answer of a queue that is gone.
    fn gone() -> Self::Answer;

    /// The answer out of the form that all have.
    fn of(answer: QueueAnswer) -> Self::Answer;
}

/// Both enums, with a variant for each question.
macro_rules! questions {
    ($($name:ident => $answer:ty, gone $gone:expr;)*) => {
        /// A question of any kind.
        #[derive(Debug, Clone)]
        pub enum QueueQuestion {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)*
        }

        /// The answer to a question, of the same name.
        #[derive(Debug)]
        pub enum QueueAnswer {
            $(#[doc = concat!("To [`", stringify!($name), "`].")] $name($answer),)*
        }

        $(
            impl From<$name> for QueueQuestion {
                fn from(question: $name) -> Self {
                    Self::$name(question)
                }
            }

            impl Ask for $name {
                type Answer = $answer;

                fn gone() -> $answer {
                    $gone
                }

                fn of(answer: QueueAnswer) -> $answer {
                    match answer {
                        QueueAnswer::$name(answer) => answer,
                        // Another answer is none: whoever gave it isn't the queue.
                        _ => Self::gone(),
                    }
                }
            }
        )*
    };
}

questions! {
    Status => Option<Box<QueueStatus>>, gone None;
    RunState => QueueState, gone QueueState::Deleted;
    Size => (u64, usize), gone (0, 0);
    ConsumerState => Option<Box<ConsumerStatus>>, gone None;
    Counts => Option<Box<QueueCounts>>, gone None;
    CountOf => Option<u64>, gone None;
    HeadTimestamp => Option<u64>, gone None;
    SetAsideOf => (u64, u64), gone (0, 0);
    Peek => Vec<Peeked>, gone Vec::new();
    PeekAside => Aside, gone Aside::default();
    ParkedEnds => Option<(u64, u64)>, gone None;
    ReadyEnds => Option<(u64, u64, u64)>, gone None;
    KeptOffsetOf => Option<u64>, gone None;
    WriterSequence => (Option<u64>, Awaited), gone (None, Awaited::default());
    Search => Option<(u64, Box<Scan>)>, gone None;
    StreamEnds => Option<StreamEnd>, gone None;
}

/// Everything about it, as the view of one queue shows it. `None` if it is gone.
#[derive(Debug, Clone, Copy)]
pub struct Status;

/// Whether it is running, failed or deleted.
#[derive(Debug, Clone, Copy)]
pub struct RunState;

/// Ready messages and consumers.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The time, if a client declared it again, which is a use for `x-expires`.
    pub used: Option<Nanos>,
}

/// One of its consumers as a listing shows it; `None` if it is gone.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerState(pub ConsumerId);

/// Its counts, with rates; `None` if nothing has been counted at all.
#[derive(Debug, Clone, Copy)]
pub struct Counts;

/// Its count of one kind; `None` if nothing has been counted at all.
#[derive(Debug, Clone, Copy)]
pub struct CountOf(pub Count);

/// The property `timestamp` of its next message, in seconds since the Unix epoch; `None` while the message is only on disk.
#[derive(Debug, Clone, Copy)]
pub struct HeadTimestamp;

/// Number and body bytes of its messages that were set aside in this way.
#[derive(Debug, Clone, Copy)]
pub struct SetAsideOf(pub SetAside);

/// At most `count` ready messages, after the first `offset`, in the order in which they would be delivered.
#[derive(Debug, Clone, Copy)]
pub struct Peek {
    /// Messages that are left out.
    pub offset: u64,
    /// Most messages.
    pub count: usize,
}

/// Messages that were set aside, the lowest number first.
#[derive(Debug, Clone, Copy)]
pub struct PeekAside {
    /// How they were set aside.
    pub which: SetAside,
    /// Messages that are left out.
    pub offset: u64,
    /// Most messages.
    pub count: usize,
}

/// The answer to [`PeekAside`].
#[derive(Debug, Clone, Default)]
pub struct Aside {
    /// Number of all that were set aside in this way.
    pub messages: u64,
    /// Their body bytes.
    pub bytes: u64,
    /// The messages that were asked for.
    pub peeked: Vec<Peeked>,
}

/// The lowest and the highest number of parked messages among these.
#[derive(Debug, Clone)]
pub struct ParkedEnds(pub RangeInclusive<u64>);

/// The lowest number of a ready message among these, an upper bound of the highest, and how many there are. Of a stream, its
/// messages.
#[derive(Debug, Clone)]
pub struct ReadyEnds(pub RangeInclusive<u64>);

/// The offset that a stream keeps for this name: that of the first message that its consumer hasn't settled.
#[derive(Debug, Clone)]
pub struct KeptOffsetOf(pub Arc<str>);

/// The number of the last message that was published to a stream by this name, and the place that it waits for.
#[derive(Debug, Clone)]
pub struct WriterSequence(pub Arc<str>);

/// A search of a stream: where it begins, and what it looks for. `None` for other queues.
#[derive(Debug, Clone)]
pub struct Search {
    /// Where it is to begin.
    pub start: StreamStart,
    /// The messages that are looked for, if not all are.
    pub filter: Option<Arc<StreamFilter>>,
}

/// The ends of a stream. `None` for other queues.
#[derive(Debug, Clone, Copy)]
pub struct StreamEnds;

/// The answer to [`StreamEnds`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// Offset of the oldest message that is there; of the next one if there is none.
    pub first: u64,
    /// Offset of the next message.
    pub next: u64,
    /// Offset of the first message of the last chunk; `None` without chunks.
    pub last_chunk: Option<u64>,
}

impl From<(u64, u64, Option<u64>)> for StreamEnd {
    fn from((first, next, last_chunk): (u64, u64, Option<u64>)) -> Self {
        Self { first, next, last_chunk }
    }
}
