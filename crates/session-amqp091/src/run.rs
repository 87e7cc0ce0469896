//! Messages on their way in, and the run that they are collected in: messages of one channel and way that go to their queues together.

use std::sync::Arc;

use bytes::Bytes;
use leveret_message::{Batch, BatchBuilder, StoredMessage};

use leveret_broker::bodies::BodyFile;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::streams::waits::InOrder;
use leveret_broker::wait_for::{Reached, WaitEnd, WaitFor};
use leveret_session::fan_out;

pub(super) const DELIVERY_MODE_PERSISTENT: u8 = 2;

/// A body that lies in the read buffer, that was assembled, or whose bytes are on their way to a file or were dropped.
pub(crate) enum BodyRef<'a> {
    Slice(&'a [u8]),
    Whole(Bytes),
    File(Box<BodyFile>),
    Dropped(u64),
}

impl BodyRef<'_> {
    /// The size of the body in bytes, wherever it is.
    pub(super) fn length(&self) -> u64 {
        match self {
            BodyRef::File(file) => file.length(),
            BodyRef::Dropped(bytes) => *bytes,
            body => body.bytes().len() as u64,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            BodyRef::Slice(bytes) => bytes,
            BodyRef::Whole(bytes) => bytes,
            BodyRef::File(_) | BodyRef::Dropped(_) => &[],
        }
    }
}

/// A message on its way in, except for its body: a `basic.publish` with its properties.
#[derive(Clone, Copy)]
pub(crate) struct Arriving<'a> {
    pub channel: u16,
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    pub mandatory: bool,
    pub properties: &'a [u8],
}

/// A checked and routed publish, except for its body.
pub(crate) struct Prepared {
    pub route: Arc<Route>,
    pub persistent: bool,
    pub expiry_ms: u64,
    pub overlay: Vec<u8>,
    /// The properties, if they aren't kept as they came.
    pub rewritten: Option<Vec<u8>>,
}

/// A message that is returned to its publisher.
#[derive(Clone, Copy)]
pub(super) struct Returned<'a> {
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    pub properties: &'a [u8],
    pub body: &'a [u8],
}

/// Messages of one channel and [way](Route::is_same_way) that are collected to be handed on together.
#[derive(Default)]
pub(crate) struct PublishRun {
    builder: BatchBuilder,
    route: Option<Arc<Route>>,
    channel: u16,
    persistent: bool,
    /// Number of messages at which the run is handed on.
    messages_max: usize,
    /// Indexes in the run of messages that are returned if they reach no queue.
    mandatory: Vec<u32>,
    /// The body file of its only message, if that is a large one.
    file: Option<BodyFile>,
}

/// The state of a run while its queues get it.
pub(crate) struct RunOnItsWay {
    pub channel: u16,
    pub mandatory: Vec<u32>,
}

/// Messages that are returned if their queues turn out to have been deleted before they came.
pub(crate) struct LateReturn {
    pub channel: u16,
    pub batch: Arc<Batch>,
    /// Indexes of those that the client wants back.
    pub mandatory: Vec<u32>,
}

/// Returns that may be due when queues that answer later have answered. In a box, since few connections have any.
#[derive(Default)]
pub(crate) struct LateReturns {
    waiting: Option<Box<InOrder<LateReturn>>>,
}

impl LateReturns {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    /// Adds messages of which `wait` will tell whether they are returned.
    pub(super) fn add(&mut self, wait: WaitFor, late: LateReturn) {
        self.waiting.get_or_insert_default().push(wait, late);
    }

    /// Drops those of a channel that ends.
    pub(super) fn forget(&mut self, channel: u16) {
        if let Some(waiting) = &mut self.waiting {
            waiting.retain(|late| late.channel != channel);
        }
    }

    /// Takes out the next one whose wait has ended, and how.
    pub(super) fn next(&mut self, reached: &impl Reached) -> Option<(LateReturn, WaitEnd)> {
        let waiting = self.waiting.as_mut()?;
        let next = waiting.pop(reached);
        if waiting.is_empty() {
            self.waiting = None;
        }
        next
    }
}

/// A run that was taken out to be handed to its queues.
pub(super) struct TakenRun {
    pub route: Arc<Route>,
    pub batch: Arc<Batch>,
    pub persistent: bool,
    pub file: Option<BodyFile>,
    pub on_its_way: RunOnItsWay,
}

impl PublishRun {
    /// Whether messages of this channel and way are collected.
    #[inline]
    pub(super) fn is_of(&self, channel: u16, persistent: bool, route: &Arc<Route>) -> bool {
        self.channel == channel
            && self.persistent == persistent
            && self.route.as_ref().is_some_and(|other| other.is_same_way(route))
    }

    /// Makes an empty run collect messages of this channel and way.
    pub(super) fn turn_to(&mut self, channel: u16, persistent: bool, route: Arc<Route>) {
        self.messages_max = fan_out::messages_max(&route);
        self.route = Some(route);
        self.channel = channel;
        self.persistent = persistent;
    }

    /// The next message is returned if it reaches no queue.
    #[inline]
    pub(super) fn next_is_mandatory(&mut self) {
        self.mandatory.push(self.builder.len() as u32);
    }

    /// Adds a message with its body.
    #[inline]
    pub(super) fn push(&mut self, message: &StoredMessage<'_>) {
        self.builder.push_message(message);
    }

    /// Adds a message with a body of its own, which is written to a file if there is one.
    pub(super) fn push_large(&mut self, message: &StoredMessage<'_>, body: Bytes, file: Option<BodyFile>) {
        self.builder.push_large(message, body);
        self.file = file;
    }

    /// Adds a message whose body is on its way to a file.
    pub(super) fn push_file(&mut self, message: &StoredMessage<'_>, file: BodyFile) {
        self.builder.push_file(message, file.body(Bytes::new()));
        self.file = Some(file);
    }

    /// Whether it is handed on before more is collected; `burst` is the most that pacing allows at a time.
    #[inline]
    pub(super) fn is_full(&self, burst: usize) -> bool {
        self.builder.len() >= self.messages_max.min(burst) || self.builder.is_full()
    }

    /// Takes out what was collected. None if there is nothing, or if it has to wait.
    pub(super) fn take(&mut self) -> Option<TakenRun> {
        if self.builder.is_empty() || self.is_pending() {
            return None;
        }
        let file = self.file.take();
        let batch = Arc::new(self.builder.finish());
        let on_its_way = RunOnItsWay { channel: self.channel, mandatory: std::mem::take(&mut self.mandatory) };
        Some(TakenRun { route: self.route.clone()?, batch, persistent: self.persistent, file, on_its_way })
    }

    /// The queues of the last message.
    pub(super) fn queues(&self) -> impl Iterator<Item = &QueueRef> {
        self.route.iter().flat_map(|route| route.queues.iter())
    }

    /// Whether a message of this connection was ever routed to a queue.
    pub(crate) fn has_route(&self) -> bool {
        self.route.is_some()
    }

    /// Whether it waits for its body file.
    pub(crate) fn is_pending(&self) -> bool {
        self.file.as_ref().is_some_and(BodyFile::is_pending)
    }

    /// Stops waiting for the body file. A message whose body isn't stored anywhere else is lost; its publisher left
    /// without a confirm.
    pub(crate) fn give_up_file(&mut self) {
        if self.file.take().is_some() && self.builder.has_files() {
            self.builder.finish();
            self.mandatory.clear();
        }
    }
}
