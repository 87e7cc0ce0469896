//! Messages on their way in, which go to their queues together.

use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::bodies::BodyFile;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::wait_for::WaitFor;
use leveret_message::{Batch, BatchBuilder, StoredMessage};
use leveret_session::fan_out::{self, FanOut};

use super::confirming::Acknowledged;

/// The messages of a client on their way to their queues. A client that never publishes has none.
#[derive(Default)]
pub(crate) struct PublishRuns {
    /// The messages that go to their queues next.
    run: Option<Box<PublishRun>>,
    /// A run that not all of its queues have.
    unfinished: Option<Box<OnItsWay>>,
    has_published: bool,
}

/// Messages of one route.
struct PublishRun {
    builder: BatchBuilder,
    route: Arc<Route>,
    persistent: bool,
    /// Number of messages at which it is handed on.
    messages_max: usize,
    /// The acknowledgements of its messages, by their index.
    acks: Vec<(u32, Acknowledged)>,
    /// The condition under which what it keeps for later subscribers is safe.
    kept: WaitFor,
    /// The body file of its last message.
    file: Option<BodyFile>,
}

/// A run that goes to its queues now.
pub(crate) struct TakenRun {
    pub route: Arc<Route>,
    pub batch: Arc<Batch>,
    pub persistent: bool,
    pub file: Option<BodyFile>,
    pub acks: Vec<(u32, Acknowledged)>,
    pub kept: WaitFor,
}

/// A run while its queues get it.
pub(crate) struct OnItsWay {
    pub acks: Vec<(u32, Acknowledged)>,
    pub kept: WaitFor,
    pub fan_out: FanOut,
}

/// A body that isn't copied into the batch.
pub(crate) struct LargeBody {
    pub body: Bytes,
    /// The file that it is written to, if one is.
    pub file: Option<BodyFile>,
    /// The run has only a reference to the file.
    pub in_file: bool,
}

impl PublishRuns {
    /// The client has published.
    pub(crate) fn begin(&mut self) {
        self.has_published = true;
    }

    /// Whether it ever published.
    pub(crate) fn has_published(&self) -> bool {
        self.has_published
    }

    /// Whether the run's messages go where this one goes.
    pub(crate) fn goes_along(&self, route: &Route, persistent: bool) -> bool {
        self.run.as_ref().is_some_and(|run| run.persistent == persistent && run.route.is_same_way(route))
    }

    /// Adds a message to the run, which [goes along](Self::goes_along) or is the first one. Returns whether the run has as many messages
    /// as it may, of which `burst` are the most.
    pub(crate) fn push(
        &mut self,
        message: &StoredMessage<'_>,
        route: &Arc<Route>,
        (ack, kept): (Option<Acknowledged>, WaitFor),
        large: Option<LargeBody>,
        burst: usize,
    ) -> bool {
        let persistent = message.envelope.durable;
        let is_same = self.goes_along(route, persistent);
        let run = self.run.get_or_insert_with(|| {
            Box::new(PublishRun {
                builder: BatchBuilder::default(),
                route: route.clone(),
                persistent,
                messages_max: fan_out::messages_max(route),
                acks: Vec::new(),
                kept: WaitFor::default(),
                file: None,
            })
        });
        if !is_same {
            (run.messages_max, run.persistent, run.route) = (fan_out::messages_max(route), persistent, route.clone());
        }
        let at = run.builder.len() as u32;
        run.acks.extend(ack.map(|ack| (at, ack)));
        if !kept.is_nothing() {
            run.kept = WaitFor::all([std::mem::take(&mut run.kept), kept]);
        }
        match large {
            None => run.builder.push_message(message),
            Some(LargeBody { body, file, in_file }) => {
                run.file = file;
                match &run.file {
                    Some(file) if in_file => run.builder.push_file(message, file.body(Bytes::new())),
                    _ => run.builder.push_large(message, body),
                }
            }
        }
        run.builder.len() >= run.messages_max.min(burst) || run.builder.is_full()
    }

    /// Whether the run waits for the file of a body.
    pub(crate) fn is_pending(&self) -> bool {
        self.run.as_ref().and_then(|run| run.file.as_ref()).is_some_and(BodyFile::is_pending)
    }

    /// The queues of the last route.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &QueueRef> {
        self.run.iter().flat_map(|run| run.route.queues.iter())
    }

    /// Takes the run, unless it is empty or waits for a file.
    pub(crate) fn take_run(&mut self) -> Option<TakenRun> {
        if self.is_pending() {
            return None;
        }
        let run = self.run.as_mut().filter(|run| !run.builder.is_empty())?;
        Some(TakenRun {
            route: run.route.clone(),
            batch: Arc::new(run.builder.finish()),
            persistent: run.persistent,
            file: run.file.take(),
            acks: std::mem::take(&mut run.acks),
            kept: std::mem::take(&mut run.kept),
        })
    }

    /// Forgets the run.
    pub(crate) fn drop_run(&mut self) {
        self.run = None;
    }

    /// Whether there is a run that not all of its queues have.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Not all queues have this run.
    pub(crate) fn set_unfinished(&mut self, run: Box<OnItsWay>) {
        self.unfinished = Some(run);
    }

    /// The run that not all of its queues have.
    pub(crate) fn take_unfinished(&mut self) -> Option<Box<OnItsWay>> {
        self.unfinished.take()
    }
}
