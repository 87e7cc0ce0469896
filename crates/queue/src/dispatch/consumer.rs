//! A consumer: its options, its credit, and why it waits.

use std::sync::Arc;

use super::comebacks::Comebacks;
use super::seeker::Seeker;
use super::single_active::Activity;
use crate::effects::Link;
use crate::filters::MessageFilter;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};
use crate::reads::OwnReads;
use crate::set_aside::Claims;
use crate::stream_start::StreamOptions;
use crate::wait::{QueueWait, WaitReason};

/// The limit of a consumer's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerFlow {
    /// AMQP 0-9-1 (`basic.qos`): maximum number of unacknowledged messages; 0 is unlimited.
    Prefetch(u32),
    /// AMQP 1.0 link credit (2.6.7): nothing is delivered before [`Flow::Credit`], and settling returns no credit.
    Credit {
        /// The link's initial delivery-count, a serial number.
        delivery_count: u32,
    },
}

impl ConsumerFlow {
    /// Whether it is link credit (AMQP 1.0).
    pub fn is_credit(self) -> bool {
        matches!(self, ConsumerFlow::Credit { .. })
    }
}

/// A change of the deliveries that a consumer can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Its connection can, or can't, take more bytes.
    Room(bool),
    /// Its session can, or can't, send more transfers (AMQP 1.0, 2.5.6).
    Window(bool),
    /// Deliveries were taken back from it because it left them unsettled for too long, or it has settled all of these. Until then
    /// it gets nothing more, and another consumer becomes the single active one.
    Overdue(bool),
    /// Its receiver granted link credit (AMQP 1.0, 2.6.7). Ignored by a consumer with a prefetch.
    ///
    /// With `drain`, ready messages are delivered as far as the credit goes, and then the rest of the credit is used up. A
    /// returned credit of 0 says that this is done; otherwise [`crate::Signal::Drained`] follows, after the last delivery.
    Credit {
        /// Deliveries that the receiver counted; the link's initial delivery-count if it has seen none.
        delivery_count: u32,
        /// Number of further deliveries that it allows.
        link_credit: u32,
        /// Whether unused credit is given up, see above.
        drain: bool,
    },
}

/// A consumer's use of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConsumerMode {
    /// It takes them.
    #[default]
    Move,
    /// It is shown each ready message, and leaves it to the others (AMQP 1.0 distribution-mode copy).
    Copy,
}

/// The options of a new consumer.
#[derive(Clone)]
pub struct ConsumerOptions {
    /// The receiver of its signals.
    pub link: Arc<dyn Link>,
    /// Its key within the connection.
    pub key: u64,
    /// The client's name for it, as shown to operators.
    pub tag: Arc<str>,
    /// The connection and channel, as shown to operators.
    pub channel: Arc<str>,
    /// Delivered messages count as settled.
    pub automatic_ack: bool,
    /// The limit of its deliveries.
    pub flow: ConsumerFlow,
    /// Higher ones are served first; lower ones get messages that higher ones have no credit or room for.
    pub priority: i32,
    /// No other consumer may exist on the queue.
    pub exclusive: bool,
    /// Whether it takes messages or browses them.
    pub mode: ConsumerMode,
    /// The messages that it wants, in other queues than streams: all if there is none.
    pub filter: Option<Arc<MessageFilter>>,
    /// Where it begins in a stream, and its filter. Other queues don't look at it.
    pub stream: Option<Box<StreamOptions>>,
    /// Milliseconds for which it may leave a delivery unsettled, as shown to operators; `None` for the queue's.
    pub timeout_ms: Option<u64>,
    /// Its user, as shown to operators.
    pub user: Arc<str>,
    /// Its arguments, as shown to operators.
    pub arguments: leveret_model::Arguments,
}

/// A link's flow state as its sender sees it (AMQP 1.0, 2.6.7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CreditState {
    /// The sender's delivery-count, a serial number.
    pub delivery_count: u32,
    /// Remaining link credit.
    pub credit: u32,
    /// Messages that are ready for it.
    pub available: u32,
}

/// A link's credit without messages that it took and didn't send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsent {
    /// The link's delivery-count with these messages, a serial number. If the queue's is another one, a drain that the link
    /// doesn't know yet has used up its credit, and nothing changes.
    pub counted: u32,
    /// The link's delivery-count without them.
    pub delivery_count: u32,
    /// The credit that its receiver has granted from there on.
    pub credit: u32,
}

/// Counts by powers of two of microseconds between publish and hand-out.
pub type LatencyBuckets = [u64; 24];

/// The orders that a consumer is in.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub ring: bool,
    pub spare: bool,
    pub holder: bool,
    pub large: bool,
    pub draining: bool,
    pub spent: bool,
    /// Its share of the messages reserved in its level.
    pub promised: u64,
    /// Its share of the sum of open credit.
    pub open_credit: u32,
    /// Its key in the set of idle seekers.
    pub idle_at: Option<u64>,
    pub draining_at: Option<u64>,
    /// Whether it is among those that could fetch a message that they claimed.
    pub fetches: bool,
}

pub(crate) struct Consumer {
    pub options: ConsumerOptions,
    /// Its place in the order in which consumers were registered, also at earlier leaders of a replicated queue.
    pub registered: u64,
    /// Whether it was registered at an earlier leader, and has had no turn since.
    pub keeps_order: bool,
    pub unacknowledged: u32,
    /// Whether its connection takes more bytes.
    pub room: bool,
    /// Whether its session takes more transfers.
    pub window: bool,
    /// Whether it has to settle deliveries that were taken back.
    pub overdue: bool,
    pub scheduled: bool,
    /// Ready messages that are reserved for its turn.
    pub promise: u64,
    /// Its part in a queue with a single active consumer.
    pub activity: Activity,
    /// The activity that its receiver was told last.
    pub told: Option<bool>,
    /// Number of times that it was told.
    pub activity_changes: u32,
    /// Its place in the orders of all consumers.
    pub standing: Standing,
    /// Link credit; unused with a prefetch.
    link_credit: u32,
    delivery_count: u32,
    /// Whether undelivered credit is given up once nothing is ready.
    pub draining: bool,
    /// The position of a consumer that browses or has a filter: it goes through the queue by itself.
    pub seeker: Option<Box<Seeker>>,
    /// The deferred messages that it has claimed; it gets no others meanwhile.
    pub claims: Option<Box<Claims>>,
    pub changed: Nanos,
    pub delivered: u64,
    pub latency: Box<LatencyBuckets>,
}

impl Consumer {
    pub(crate) fn new(options: ConsumerOptions, came_back: &Comebacks, now: Nanos) -> Self {
        let delivery_count = match options.flow {
            ConsumerFlow::Credit { delivery_count } => delivery_count,
            ConsumerFlow::Prefetch(_) => 0,
        };
        let browses = options.mode == ConsumerMode::Copy;
        let seeker = || Box::new(Seeker::new(options.filter.clone(), browses, came_back));
        let seeker = (browses || options.filter.is_some()).then(seeker);
        Self {
            options,
            registered: 0,
            keeps_order: false,
            unacknowledged: 0,
            room: true,
            window: true,
            overdue: false,
            scheduled: false,
            promise: 0,
            activity: Activity::default(),
            told: None,
            activity_changes: 0,
            standing: Standing::default(),
            link_credit: 0,
            delivery_count,
            draining: false,
            seeker,
            claims: None,
            changed: now,
            delivered: 0,
            latency: Box::new([0; 24]),
        }
    }

    /// Deliveries so far, as a serial number.
    pub(crate) fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    /// Number of messages that it may still be given.
    pub(crate) fn credit(&self) -> u32 {
        match self.options.flow {
            ConsumerFlow::Credit { .. } => self.link_credit,
            ConsumerFlow::Prefetch(0) => u32::MAX,
            ConsumerFlow::Prefetch(_) if self.options.automatic_ack => u32::MAX,
            ConsumerFlow::Prefetch(prefetch) => prefetch.saturating_sub(self.unacknowledged),
        }
    }

    fn is_able(&self) -> bool {
        let is_served = self.activity.is_served() || is_planted(Bug::ServeWaiting);
        self.room && self.window && !self.overdue && is_served && self.credit() > 0
    }

    /// Whether it could take a ready message.
    pub(crate) fn is_eligible(&self) -> bool {
        self.claims.is_none() && self.is_able()
    }

    /// The messages that were read for it alone, where a read from this number on is under way.
    pub(crate) fn own_reads(&mut self, from: u64) -> Option<&mut OwnReads> {
        let sought = self.seeker.as_mut().map(|seeker| &mut seeker.reads);
        let claimed = self.claims.as_mut().map(|claims| &mut claims.reads);
        sought.into_iter().chain(claimed).find(|reads| reads.is_reading(from))
    }

    /// Whether it could take a message that it claimed.
    pub(crate) fn can_fetch(&self) -> bool {
        self.claims.as_ref().is_some_and(|claims| claims.reads.is_able()) && self.is_able()
    }

    /// Whether its turns are its own: no ready messages are reserved for them.
    pub(crate) fn is_alone(&self) -> bool {
        self.seeker.is_some() || self.claims.is_some()
    }

    /// Sets the credit from a receiver's flow: `delivery_count + link_credit` is the limit that it allows, in serial arithmetic
    /// (RFC 1982). Deliveries that it hadn't seen when it sent the flow count against it.
    pub(crate) fn grant(&mut self, delivery_count: u32, link_credit: u32) {
        let ahead = self.delivery_count.wrapping_sub(delivery_count).cast_signed();
        self.link_credit = match u32::try_from(ahead) {
            Ok(sent) => link_credit.saturating_sub(sent),
            Err(_) => link_credit.saturating_add(ahead.unsigned_abs()),
        };
    }

    /// Messages that it took weren't sent.
    pub(crate) fn not_sent(&mut self, unsent: Unsent) {
        if self.options.flow.is_credit() && self.delivery_count == unsent.counted {
            (self.delivery_count, self.link_credit) = (unsent.delivery_count, unsent.credit);
        }
    }

    /// Uses up the remaining credit without messages.
    pub(crate) fn use_up_credit(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.link_credit);
        self.link_credit = 0;
    }

    pub(crate) fn credit_state(&self, available: u64) -> CreditState {
        CreditState {
            delivery_count: self.delivery_count,
            credit: self.link_credit,
            available: u32::try_from(available).unwrap_or(u32::MAX),
        }
    }

    /// Counts `count` messages that were delivered to it.
    pub(crate) fn handed(&mut self, count: u32) {
        if let ConsumerFlow::Credit { .. } = self.options.flow {
            self.link_credit = self.link_credit.checked_sub(count).expect("no transfer above the link credit");
            self.delivery_count = self.delivery_count.wrapping_add(count);
        }
        self.delivered += u64::from(count);
    }

    /// A turn for which no ready messages were reserved is over.
    pub(crate) fn end_turn_alone(&mut self, now: Nanos) {
        if std::mem::take(&mut self.scheduled) {
            self.changed = now;
        }
    }

    pub(crate) fn record_latency(&mut self, elapsed: Nanos, count: u64) {
        let bucket = (64 - (elapsed / 1000).leading_zeros() as usize).min(self.latency.len() - 1);
        self.latency[bucket] += count;
    }

    /// The reason why it waits. `queue` is the reason that holds all consumers: nothing is ready, or a read is under way.
    pub(crate) fn wait(&self, queue: Option<QueueWait>) -> QueueWait {
        let own = |reason| QueueWait { reason, since: self.changed };
        if self.overdue {
            own(WaitReason::Overdue)
        } else if self.activity == Activity::Waiting {
            own(WaitReason::Inactive)
        } else if self.activity == Activity::Quiescing {
            own(WaitReason::Replaced)
        } else if !self.room {
            own(WaitReason::Room)
        } else if !self.window {
            own(WaitReason::Window)
        } else if self.credit() == 0 {
            own(match self.options.flow {
                ConsumerFlow::Prefetch(_) => WaitReason::Credit,
                ConsumerFlow::Credit { .. } => WaitReason::LinkCredit,
            })
        } else if let Some(wait) = queue {
            QueueWait { since: wait.since.max(self.changed), ..wait }
        } else {
            own(WaitReason::Turn)
        }
    }
}
