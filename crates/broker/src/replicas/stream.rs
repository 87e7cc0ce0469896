//! The commit stream of a placement that this node leads: what its queues append are proposals. A stream lasts as long as the leadership.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use leveret_log::{GroupId, Wait};
use leveret_queue::{Link, Place, Signal, WaitReason, Watermarks};
use parking_lot::Mutex;

use super::awaited::AwaitedConsumers;
use super::command::{EntryHeader, put_control, put_header, put_origin, put_record};
use super::held_reports::HeldReports;
use super::received::{OriginTurn, ReceivedPublishes};
use crate::publish_origin::{self, PublishOrigin, WriterMark};
use crate::streams::{AnsweredCalls, CommitStream, ControlRecord, LocalStream, Record, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::Nanos;

/// Bytes of an entry at which it gets no further command.
const ENTRY_BYTES: usize = 1 << 20;
/// The same while a group is open, which is in one entry, so that it is carried out as a whole or not at all.
const GROUP_BYTES: usize = 64 << 20;
/// Bytes that are proposed or are to be, above which publishers wait.
const IN_FLIGHT_MAX: u64 = 4 << 20;

/// The commit stream of a placement that this node leads.
pub struct PlacedStream {
    id: StreamId,
    /// The term of the leadership.
    term: u64,
    open: Mutex<Open>,
    answered: AnsweredCalls,
    /// Bytes of commands that aren't applied.
    in_flight: AtomicU64,
    /// The node's log, which takes what is applied: while it has no room, nothing is proposed.
    store: Arc<LocalStream>,
    calls: StreamCalls,
    /// The publishes of each writer so far.
    received: ReceivedPublishes,
    is_unannounced: AtomicBool,
    /// Calls that wait until commands up to a place are applied.
    waiting: Mutex<Vec<(Place, OnceApplied)>>,
    /// The messages that clients held when the leadership began.
    pub(crate) reports: HeldReports,
    /// The active consumers that its queues wait for.
    pub(crate) awaited: AwaitedConsumers,
    /// The time at which it began.
    pub(crate) since: Nanos,
    lease: Lease,
}

/// The time for which nobody else can lead; none at first. Messages are only handed out before its end: two leaders would give the same ones to two
/// clients.
struct Lease {
    until: AtomicU64,
    /// Whether it isn't used, since the leadership is being handed over.
    is_unused: AtomicBool,
    /// Whether consumers were given nothing since it had ended.
    is_missed: AtomicBool,
    /// The links of gets that wait for the next lease, with their keys.
    gets: Mutex<Vec<(Arc<dyn Link>, u64)>>,
}

impl Default for Lease {
    fn default() -> Self {
        let (is_unused, is_missed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { until: AtomicU64::new(0), is_unused, is_missed, gets: Mutex::default() }
    }
}

impl Lease {
    fn holds(&self, now: Nanos) -> bool {
        now < self.until.load(Ordering::Acquire) && !self.is_unused.load(Ordering::Acquire)
    }
}

/// A call that waits for an entry.
type OnceApplied = Box<dyn FnOnce() + Send>;

/// The calls that a stream makes.
pub(crate) struct StreamCalls {
    /// Wakes whoever proposes.
    pub wake: Box<dyn Fn() + Send + Sync>,
    /// Something is applied: this node's writers look.
    pub applied: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Open {
    /// Number of commands so far.
    count: u64,
    /// Commands that wait to be proposed, in parts of one entry each.
    parts: VecDeque<Part>,
    /// Entries that are proposed: their numbers, the places of their last commands, and their bytes.
    proposed: VecDeque<(u64, u64, u64)>,
    /// The number of the next entry.
    sequence: u64,
    /// Groups that are open: whatever is appended until they are closed is in one entry.
    groups: u32,
    /// Whether a publisher or an answer waits for some of them.
    is_urgent: bool,
    has_ended: bool,
}

#[derive(Default)]
struct Part {
    commands: Vec<u8>,
    /// Place of the last command.
    last: u64,
    /// Whether a group is open in it.
    is_held: bool,
}

impl Open {
    /// Adds commands of this number. Returns their bytes.
    fn add(&mut self, put: impl FnOnce(&mut Vec<u8>) -> u64) -> u64 {
        if self.has_ended {
            self.count += 1;
            return 0;
        }
        // Commands that are put together are in one entry.
        let is_open =
            |part: &mut Part| part.commands.len() < ENTRY_BYTES || part.is_held && part.commands.len() < GROUP_BYTES;
        let mut part = self.parts.pop_back_if(is_open).unwrap_or_default();
        part.is_held = self.groups > 0;
        let before = part.commands.len();
        self.count += put(&mut part.commands);
        part.last = self.count;
        let bytes = part.commands.len() - before;
        self.parts.push_back(part);
        bytes as u64
    }
}

impl PlacedStream {
    pub(crate) fn new(
        id: StreamId,
        term: u64,
        store: Arc<LocalStream>,
        writers: BTreeMap<u64, WriterMark>,
        calls: StreamCalls,
        since: Nanos,
    ) -> Self {
        let (in_flight, is_unannounced) = (AtomicU64::new(0), AtomicBool::new(false));
        let (open, answered) = (Mutex::default(), AnsweredCalls::default());
        let received = ReceivedPublishes::new(writers);
        let reports = HeldReports::default();
        Self {
            id,
            term,
            open,
            received,
            answered,
            in_flight,
            store,
            calls,
            is_unannounced,
            waiting: Mutex::default(),
            reports,
            awaited: AwaitedConsumers::default(),
            since,
            lease: Lease::default(),
        }
    }

    /// The term of the leadership.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The place of everything that was appended so far.
    pub(crate) fn appended_ticket(&self) -> Ticket {
        Ticket::new(self.id, self.appended_place())
    }

    /// A majority follows this leader until then, whatever happens. Returns whether consumers missed something meanwhile.
    pub fn renew_lease(&self, until: Nanos) -> bool {
        self.lease.until.store(until, Ordering::Release);
        self.tell_gets();
        self.lease.is_missed.swap(false, Ordering::AcqRel)
    }

    /// Hands nothing out from now on, or again: the leadership is being handed over, or wasn't.
    pub(crate) fn stop_handing_out(&self, stops: bool) {
        self.lease.is_unused.store(stops, Ordering::Release);
        if !stops {
            self.tell_gets();
        }
    }

    /// Calls once all that was appended so far is applied. It is never called if the leadership ends before.
    pub fn when_all_applied(&self, call: Box<dyn FnOnce() + Send>) {
        self.when_applied(self.appended_place(), call);
    }

    /// Calls once the commands up to this place are applied. It is never called if the leadership ends before.
    pub(crate) fn when_applied(&self, place: Place, call: Box<dyn FnOnce() + Send>) {
        self.waiting.lock().push((place, call));
        self.call_applied();
    }

    fn call_applied(&self) {
        let reached = self.answered.watermarks();
        let over: Vec<_> =
            self.waiting.lock().extract_if(.., |(place, _)| reached.have(*place, true)).map(|(_, call)| call).collect();
        over.into_iter().for_each(|call| call());
    }

    fn tell_gets(&self) {
        let gets = std::mem::take(&mut *self.lease.gets.lock());
        gets.into_iter().for_each(|(link, key)| link.signal(Signal::Loaded(key)));
    }

    /// Whether messages may be handed out. If not, consumers are told when they may again.
    #[inline]
    pub(crate) fn may_hand_out(&self, now: Nanos) -> bool {
        self.lease.holds(now) || {
            self.lease.is_missed.store(true, Ordering::Release);
            false
        }
    }

    /// The same for one who gets a message, and is told to ask again.
    pub(crate) fn may_get(&self, link: &Arc<dyn Link>, key: u64, now: Nanos) -> bool {
        if self.may_hand_out(now) {
            return true;
        }
        self.lease.gets.lock().push((link.clone(), key));
        // It may have been renewed, or have ended for good, in between.
        if self.lease.holds(now) || self.is_over() {
            self.tell_gets();
        }
        false
    }

    /// Whether something waits to be proposed; with true, somebody waits for it.
    pub fn waiting(&self) -> Option<bool> {
        let open = self.open.lock();
        open.parts.front().is_some_and(|part| !part.is_held).then_some(open.is_urgent)
    }

    /// The next entry to be proposed. `held_below` is the index below which every member has all entries.
    pub fn take_entry(&self, held_below: u64) -> Option<Bytes> {
        let mut open = self.open.lock();
        let Part { commands, last, .. } = open.parts.pop_front_if(|part| !part.is_held)?;
        open.is_urgent &= !open.parts.is_empty();
        let sequence = open.sequence;
        open.sequence += 1;
        open.proposed.push_back((sequence, last, commands.len() as u64));
        let mut entry = Vec::with_capacity(32 + commands.len());
        put_header(EntryHeader { sequence, held_below, term: Some(self.term) }, &mut entry);
        entry.extend_from_slice(&commands);
        Some(entry.into())
    }

    /// The entry with this number is applied.
    pub fn applied(&self, sequence: u64) {
        let mut reached = None;
        {
            let mut open = self.open.lock();
            while let Some((_, last, bytes)) = open.proposed.pop_front_if(|(number, ..)| *number <= sequence) {
                reached = Some(last);
                self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        if let Some(last) = reached {
            self.answered.advance(Place::new(last));
            self.answered.wake();
            self.call_applied();
            (self.calls.applied)();
        }
    }

    fn note(&self, bytes: u64, count: u64, wait: Wait, open: &mut Open) -> Ticket {
        open.is_urgent |= wait != Wait::Lazy;
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
        self.is_unannounced.store(true, Ordering::Release);
        Ticket::new(self.id, Place::new(count))
    }

    fn appended_place(&self) -> Place {
        Place::new(self.open.lock().count)
    }

    fn put_record(&self, record: Record<'_>, wait: Wait, begins_group: bool) -> Ticket {
        let origin = match &record {
            Record::Messages { part, .. } => publish_origin::current(part.count),
            Record::Settle { .. } => None,
        };
        self.put(wait, begins_group, |to| {
            let count = put_record(record, to);
            if let Some((origin, accepted)) = origin {
                put_origin(origin, accepted, to);
            }
            count
        })
    }

    fn put(&self, wait: Wait, begins_group: bool, put: impl FnOnce(&mut Vec<u8>) -> u64) -> Ticket {
        let mut open = self.open.lock();
        open.groups += u32::from(begins_group);
        let bytes = open.add(put);
        let count = open.count;
        self.note(bytes, count, wait, &mut open)
    }
}

/// Records, of which the queues of a placement have few kinds: their messages are their own, and none is a stream.
impl PlacedStream {
    /// Appends a record.
    pub(crate) fn append(&self, record: Record<'_>, wait: Wait) -> Ticket {
        self.put_record(record, wait, false)
    }

    /// Appends a control record.
    pub(crate) fn append_control(&self, record: ControlRecord<'_>, wait: Wait) -> Ticket {
        self.put(wait, false, |to| put_control(record, to))
    }

    /// Begins a publish of a writer.
    pub(crate) fn begin(&self, origin: PublishOrigin) -> OriginTurn<'_> {
        if self.open.lock().has_ended {
            return OriginTurn::Lost;
        }
        self.received.begin(origin, || self.appended_ticket())
    }

    /// A publish couldn't be begun: those behind it in its epoch can't be, either.
    pub(crate) fn missed(&self, origin: PublishOrigin) {
        self.received.missed(origin);
    }

    /// Not all messages of a publish that was begun were accepted.
    pub(crate) fn refused(&self, origin: PublishOrigin, accepted: u32) {
        self.received.refused(origin, accepted);
        if accepted == 0 {
            let mut open = self.open.lock();
            let bytes = open.add(|to| {
                put_origin(origin, accepted, to);
                1
            });
            let count = open.count;
            self.note(bytes, count, Wait::Lazy, &mut open);
        }
    }

    /// Whether what is appended is never reached.
    pub(crate) fn is_over(&self) -> bool {
        self.open.lock().has_ended
    }

    /// Appends a record as part of a group, which the first one begins.
    pub(crate) fn append_in(&self, group: &mut Option<GroupId>, record: Record<'_>) -> Ticket {
        let ticket = self.put_record(record, Wait::Lazy, group.is_none());
        group.get_or_insert(GroupId::of_stream(ticket.place().number()));
        ticket
    }

    /// Closes a group: all of it takes effect once the ticket is reached.
    pub(crate) fn commit_group(&self, wait: Wait) -> Ticket {
        let mut open = self.open.lock();
        open.is_urgent |= wait != Wait::Lazy;
        open.groups -= 1;
        if open.groups == 0 {
            open.parts.iter_mut().for_each(|part| part.is_held = false);
            self.is_unannounced.store(true, Ordering::Release);
        }
        Ticket::new(self.id, Place::new(open.count))
    }
}

impl CommitStream for PlacedStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn has_room(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT_MAX && self.store.has_room()
    }

    fn watermarks(&self) -> Watermarks {
        self.answered.watermarks()
    }

    fn progress(&self) -> Watermarks {
        self.answered.watermarks()
    }

    fn appended(&self) -> Place {
        self.appended_place()
    }

    fn notify(&self, awaited: Awaited, waiter: Waiter) {
        self.answered.notify(awaited, waiter);
    }

    fn notify_later(&self, awaited: Awaited, waiter: Waiter) {
        self.answered.notify_later(awaited, waiter);
    }

    fn give_up(&self) {
        self.store.give_up();
    }

    fn announce(&self) {
        if self.is_unannounced.swap(false, Ordering::AcqRel) {
            (self.calls.wake)();
        }
    }

    fn defer_syncs(&self) {}

    fn publish_wait(&self) -> WaitReason {
        if self.store.has_room() { WaitReason::Replication } else { self.store.publish_wait() }
    }

    /// Waits of its places end as of a stream that is gone.
    fn leave(&self) {
        {
            let mut open = self.open.lock();
            open.has_ended = true;
            open.parts.clear();
            open.proposed.clear();
        }
        self.answered.leave();
        self.tell_gets();
    }
}
