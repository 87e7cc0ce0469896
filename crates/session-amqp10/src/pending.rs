//! Frames of a session that wait for room in the client's window, in order.

use std::collections::VecDeque;

use leveret_amqp10::Serial;
use leveret_queue::{CreditState, Taken};

use super::link_state::LinkState;
use leveret_broker::bodies::{BodyReader, Pieces};
use leveret_broker::queue_handle::QueueRef;

/// An entry that waits.
pub(crate) enum Pending {
    /// The rest of a delivery, of which a part or nothing was sent.
    Rest(Rest),
    /// Messages that were taken, and none of which was begun.
    Run { handle: u32, taken: Taken },
    /// A message that was taken and not begun, whose body is being read from its file.
    Large { handle: u32, taken: Taken, reader: BodyReader },
    /// A link's state, to be sent after the entries before it.
    State(LinkState),
}

/// A message that needs several transfers.
pub(crate) struct Rest {
    pub handle: u32,
    pub delivery_id: Serial,
    pub tag: [u8; 4],
    pub settled: bool,
    pub payload: Vec<u8>,
    pub sent: usize,
    /// The body after the payload, from a file, and the queue that it belongs to.
    pub body: Option<(Pieces, QueueRef)>,
}

impl Rest {
    /// Number of bytes that haven't been sent.
    pub(crate) fn left(&self) -> u64 {
        (self.payload.len() - self.sent) as u64 + self.body.as_ref().map_or(0, |(pieces, _)| pieces.left())
    }

    /// Number of bytes that can be sent now.
    pub(crate) fn available(&self) -> usize {
        self.payload.len() - self.sent + self.body.as_ref().map_or(0, |(pieces, _)| pieces.available())
    }

    /// Appends the next bytes, which have to be available.
    pub(crate) fn append(&mut self, count: usize, out: &mut Vec<u8>) {
        let first = count.min(self.payload.len() - self.sent);
        out.extend_from_slice(&self.payload[self.sent..self.sent + first]);
        self.sent += first;
        if let Some((pieces, _)) = &mut self.body {
            pieces.append(count - first, out);
        }
    }
}

impl Pending {
    pub(crate) fn is_for(&self, handle: u32) -> bool {
        match self {
            Pending::Rest(rest) => rest.handle == handle,
            Pending::Run { handle: of, .. } | Pending::Large { handle: of, .. } => *of == handle,
            Pending::State(state) => state.handle == handle,
        }
    }

    /// Bytes of encoded messages that the entry holds.
    fn bytes(&self) -> usize {
        match self {
            Pending::Rest(rest) => rest.payload.len(),
            Pending::Run { .. } | Pending::Large { .. } | Pending::State(_) => 0,
        }
    }

    /// Whether more of it has to be read before anything can be done.
    pub(crate) fn waits_for_disk(&self) -> bool {
        match self {
            Pending::Rest(Rest { body: Some((pieces, _)), payload, sent, .. }) => {
                *sent == payload.len() && !pieces.has_news()
            }
            Pending::Large { reader: BodyReader::Pieces(pieces), .. } => !pieces.has_news(),
            Pending::Large { reader: BodyReader::Whole(whole), .. } => !whole.has_news(),
            Pending::Rest(_) | Pending::Run { .. } | Pending::State(_) => false,
        }
    }
}

/// Whether a state makes an earlier one of the same link superfluous.
fn is_repeated(earlier: &LinkState, later: &LinkState) -> bool {
    let kind = |state: &LinkState| (state.handle, state.drain, state.active.is_some());
    kind(earlier) == kind(later)
}

/// The entries of one session that wait.
#[derive(Default)]
pub(crate) struct PendingQueue {
    queue: VecDeque<Pending>,
    bytes: usize,
}

impl PendingQueue {
    /// Whether no entry waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of entries: runs of messages, rests of messages and flows.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of encoded messages that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of entries and messages that wait for one link.
    pub(crate) fn count(&self, handle: u32) -> usize {
        self.queue.iter().filter(|pending| pending.is_for(handle)).count()
    }

    /// The next entry.
    pub(crate) fn front(&self) -> Option<&Pending> {
        self.queue.front()
    }

    pub(crate) fn pop_front(&mut self) -> Option<Pending> {
        let pending = self.queue.pop_front()?;
        self.bytes -= pending.bytes();
        Some(pending)
    }

    pub(crate) fn push_front(&mut self, pending: Pending) {
        self.bytes += pending.bytes();
        self.queue.push_front(pending);
    }

    pub(crate) fn push_back(&mut self, pending: Pending) {
        self.bytes += pending.bytes();
        self.queue.push_back(pending);
    }

    /// Adds a link's state behind all that waits. A client that asks repeatedly while its window is full gets only the
    /// last answer; otherwise its requests would fill the memory.
    pub(crate) fn push_state(&mut self, state: LinkState) {
        // From the back: a repeated request is found at once, however much waits.
        let same = |pending: &Pending| matches!(pending, Pending::State(earlier) if is_repeated(earlier, &state));
        if let Some(at) = self.queue.iter().rposition(same) {
            self.queue.remove(at);
        }
        self.push_back(Pending::State(state));
    }

    /// Adds the entries of `others` behind its own.
    pub(crate) fn append(&mut self, mut others: Self) {
        self.bytes += others.bytes;
        self.queue.append(&mut others.queue);
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Pending) -> bool) {
        self.queue.retain(keep);
        self.bytes = self.queue.iter().map(Pending::bytes).sum();
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes out the messages of one link of which nothing was begun.
    pub(crate) fn take_unbegun(&mut self, handle: u32) -> Vec<Taken> {
        let mut unbegun = Vec::new();
        for pending in std::mem::take(&mut self.queue) {
            match pending {
                Pending::Run { handle: of, taken } | Pending::Large { handle: of, taken, .. } if of == handle => {
                    unbegun.push(taken);
                }
                other => self.queue.push_back(other),
            }
        }
        unbegun
    }

    /// Whether the end of a drain waits for one link.
    pub(crate) fn has_drained(&self, handle: u32) -> bool {
        self.queue
            .iter()
            .any(|pending| matches!(pending, Pending::State(state) if state.handle == handle && state.drain))
    }

    /// Corrects the states of one link that wait.
    pub(crate) fn correct_states(&mut self, handle: u32, now: CreditState) {
        for pending in &mut self.queue {
            if let Pending::State(state) = pending
                && state.handle == handle
            {
                (state.delivery_count, state.link_credit) = (now.delivery_count, now.credit);
            }
        }
    }

    /// Takes out the entries of one link.
    pub(crate) fn take_link(&mut self, handle: u32) -> Vec<Pending> {
        let (taken, kept) = std::mem::take(&mut self.queue).into_iter().partition(|pending| pending.is_for(handle));
        self.queue = kept;
        self.retain(|_| true);
        let taken: VecDeque<Pending> = taken;
        taken.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(handle: u32, link_credit: u32, drain: bool) -> LinkState {
        LinkState { handle, delivery_count: 0, link_credit, available: 0, drain, active: None }
    }

    fn rest(handle: u32, bytes: usize) -> Pending {
        let payload = vec![0; bytes];
        Pending::Rest(Rest { handle, delivery_id: Serial(0), tag: [0; 4], settled: true, payload, sent: 0, body: None })
    }

    #[test]
    fn questions_that_are_repeated_have_one_answer() {
        let mut pending = PendingQueue::default();
        pending.push_back(rest(1, 10));
        for credit in 0..1000 {
            pending.push_state(state(1, credit, false));
            pending.push_state(state(1, credit, true));
            pending.push_state(state(2, credit, false));
        }
        assert_eq!((pending.queue.len(), pending.bytes()), (4, 10));
        assert!(matches!(pending.queue.back(), Some(Pending::State(last)) if *last == state(2, 999, false)));
    }

    #[test]
    fn an_answer_does_not_take_the_place_of_the_activity() {
        let mut pending = PendingQueue::default();
        for active in [true, false] {
            pending.push_state(LinkState { active: Some(active), ..state(1, 5, false) });
            pending.push_state(state(1, 5, false));
        }
        let states = pending.queue.iter().map(|pending| match pending {
            Pending::State(state) => state.active,
            _ => None,
        });
        assert_eq!(states.collect::<Vec<_>>(), [Some(false), None]);
    }

    #[test]
    fn bytes_are_counted_in_and_out() {
        let mut pending = PendingQueue::default();
        for bytes in [10, 20, 30] {
            pending.push_back(rest(bytes as u32 % 20, bytes));
        }
        let mut others = PendingQueue::default();
        others.push_back(rest(0, 5));
        pending.append(others);
        assert_eq!(pending.bytes(), 65);
        assert_eq!(pending.take_link(10).len(), 2);
        assert_eq!(pending.bytes(), 25);
        let first = pending.pop_front().expect("two wait");
        pending.push_front(first);
        pending.retain(|pending| pending.bytes() < 20);
        assert_eq!(pending.bytes(), 5);
        pending.pop_front();
        assert_eq!((pending.bytes(), pending.is_empty()), (0, true));
    }
}
