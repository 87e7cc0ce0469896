//! Readers of the reference.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_message::Batch;
use leveret_queue::{
    ConsumerFlow, ConsumerId, CreditState, Flow, MessageFilter, StreamFilter, StreamOptions, StreamStart,
};
use leveret_selector::{Dialect, Selector};

use super::{Known, MS, Rig};

/// The filter of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filtered {
    No,
    X,
    Nothing,
}

/// The options of a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderPlan {
    pub(crate) start: StreamStart,
    pub(crate) flow: ConsumerFlow,
    pub(crate) automatic: bool,
    pub(crate) filtered: Filtered,
}

impl ReaderPlan {
    pub(super) fn options(&self) -> StreamOptions {
        let of = |text: &str| {
            let expression = Some(Selector::parse(text, Dialect::Amqp).expect("it parses"));
            let messages = MessageFilter { expression, ..MessageFilter::default() };
            Some(Arc::new(StreamFilter { messages, ..StreamFilter::default() }))
        };
        let filter = match self.filtered {
            Filtered::No => None,
            Filtered::X => of("p.subject = 'x'"),
            Filtered::Nothing => of("p.subject = 'nothing'"),
        };
        StreamOptions { start: self.start, filter, ..StreamOptions::default() }
    }
}

/// The reference's knowledge of a reader.
#[derive(Debug)]
pub(super) struct RefReader {
    /// The offset behind the last message that it got.
    next: u64,
    /// Its first message has this time or a later one.
    since_ms: u64,
    filtered: Filtered,
    flow: ConsumerFlow,
    automatic: bool,
    pub(super) held: VecDeque<u64>,
    /// Room, window, and whether it isn't overdue.
    pub(super) able: [bool; 3],
    pub(super) is_scheduled: bool,
    pub(super) is_draining: bool,
    pub(super) link_credit: u32,
    delivery_count: u32,
}

impl RefReader {
    pub(super) fn new(next: u64, plan: &ReaderPlan) -> Self {
        let since_ms = if let StreamStart::Timestamp(at_ms) = plan.start { at_ms } else { 0 };
        let delivery_count = match plan.flow {
            ConsumerFlow::Credit { delivery_count } => delivery_count,
            ConsumerFlow::Prefetch(_) => 0,
        };
        Self {
            next,
            since_ms,
            filtered: plan.filtered,
            flow: plan.flow,
            automatic: plan.automatic,
            held: VecDeque::new(),
            able: [true; 3],
            is_scheduled: false,
            is_draining: false,
            link_credit: 0,
            delivery_count,
        }
    }

    pub(super) fn is_link(&self) -> bool {
        self.flow.is_credit()
    }

    pub(super) fn credit(&self) -> u32 {
        match self.flow {
            ConsumerFlow::Credit { .. } => self.link_credit,
            ConsumerFlow::Prefetch(0) => u32::MAX,
            ConsumerFlow::Prefetch(_) if self.automatic => u32::MAX,
            ConsumerFlow::Prefetch(most) => most - self.held.len() as u32,
        }
    }

    pub(super) fn is_eligible(&self) -> bool {
        self.able == [true; 3] && self.credit() > 0
    }

    /// The message that it gets next.
    pub(super) fn first_wanted(&self, messages: &[Known], (low, end): (u64, u64)) -> Option<u64> {
        (self.next.max(low)..end).find(|offset| {
            let message = &messages[*offset as usize];
            let is_wanted = match self.filtered {
                Filtered::No => true,
                Filtered::X => message.is_x,
                Filtered::Nothing => false,
            };
            is_wanted && !message.is_gap && message.time_ms >= self.since_ms
        })
    }

    /// It was given this message.
    pub(super) fn got(&mut self, offset: u64) {
        assert!(self.is_eligible(), "above its credit");
        (self.next, self.since_ms) = (offset + 1, 0);
        if !self.automatic {
            self.held.push_back(offset);
        }
        if self.is_link() {
            self.link_credit -= 1;
            self.delivery_count = self.delivery_count.wrapping_add(1);
        }
    }

    fn use_up_credit(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(std::mem::take(&mut self.link_credit));
        (self.is_draining, self.is_scheduled) = (false, false);
    }
}

/// A message as a reader sees it.
pub(super) struct Seen {
    serial: u64,
    time_ms: u64,
}

impl Seen {
    pub(super) fn of(batch: &Batch, index: usize) -> Self {
        let message = batch.message(index);
        let view = message.view();
        let BodyRef::Data(data) = Sections::parse(view.body).expect("it was encoded here").body else {
            panic!("another body: {:?}", view.body);
        };
        let serial = data.first().first_chunk().expect("a serial number");
        Self { serial: u64::from_be_bytes(*serial), time_ms: view.envelope.received_ms }
    }

    pub(super) fn is(&self, known: &Known) -> bool {
        (self.serial, self.time_ms) == (known.serial, known.time_ms)
    }
}

impl Rig {
    /// The offset at which a reader begins.
    pub(super) fn begin(&self, start: StreamStart) -> u64 {
        let (low, end) = (self.low, self.end);
        let first_of = |found: Option<(&u64, &Arc<Batch>)>| found.map_or(end, |(first, _)| *first);
        match start {
            StreamStart::First => low,
            // If it was one of a group that a crash prevented, the one before it isn't known.
            StreamStart::Last if self.messages.iter().any(|message| message.is_gap) => {
                let last = self.queue.status().stream.and_then(|stream| stream.last_chunk);
                last.map_or(end, |first| first.max(low)).min(first_of(self.live_chunks().next_back()))
            }
            StreamStart::Last => first_of(self.live_chunks().next_back()),
            StreamStart::Next => end,
            StreamStart::Offset(offset) => offset.max(low),
            StreamStart::LastN(0) => end,
            StreamStart::LastN(count) => self.live(low).rev().take(count as usize).last().unwrap_or(end),
            StreamStart::Timestamp(at_ms) => first_of(self.live_chunks().find(|(_, batch)| batch.times(0).0 >= at_ms)),
        }
    }

    /// A receiver that hasn't seen its last `lag` deliveries yet grants credit.
    pub(crate) fn grant(&mut self, at: usize, lag: u32, credit: u32, drain: bool) {
        let Some(id) = self.nth(at).filter(|id| self.readers[id].is_link()) else { return };
        let (offsets, now) = ((self.low, self.end), self.now_ms * MS);
        let reader = self.readers.get_mut(&id).expect("it is there");
        let flow = Flow::Credit { delivery_count: reader.delivery_count.wrapping_sub(lag), link_credit: credit, drain };
        reader.link_credit = credit.saturating_sub(lag);
        reader.is_scheduled &= reader.is_eligible();
        // A search for a time begins somewhere before it.
        let next = if reader.since_ms == 0 { reader.next.max(offsets.0) } else { offsets.0 };
        let wanted = reader.first_wanted(&self.messages, offsets);
        let mut effects = leveret_queue::Effects::default();
        let state = self.queue.flow(ConsumerId(id), flow, now, &mut effects).expect("it is a link");
        let CreditState { delivery_count, credit, available } = state;
        let most = self.live(next).count() as u64;
        let reader = self.readers.get_mut(&id).expect("it is there");
        assert!(u64::from(available) <= most, "{available} available");
        assert!(wanted.is_none() || available > 0);
        // It may not have come to messages yet that it doesn't want.
        if reader.filtered == Filtered::No && reader.since_ms == 0 {
            assert_eq!(u64::from(available), most);
        }
        let at_once = drain && (reader.link_credit == 0 || available == 0);
        reader.is_draining = drain && !at_once;
        if at_once {
            reader.use_up_credit();
        }
        assert_eq!((delivery_count, credit), (reader.delivery_count, reader.link_credit));
        self.with(|_, later| *later = effects);
    }

    /// A drain has ended.
    pub(super) fn drained(&mut self, id: u64, delivery_count: u32) {
        let reader = self.readers.get_mut(&id).expect("it is there");
        assert!(reader.is_draining, "drained without being asked");
        let wanted = reader.first_wanted(&self.messages, (self.low, self.end));
        assert!(reader.link_credit == 0 || wanted.is_none(), "{id} is drained and {wanted:?} is there for it");
        reader.use_up_credit();
        assert_eq!(delivery_count, reader.delivery_count);
    }
}
