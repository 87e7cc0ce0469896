//! The state of a consumer that goes through the queue by itself: one that browses, or that has a filter.

use std::sync::Arc;

use super::comebacks::Comebacks;
use crate::filters::MessageFilter;
use crate::planted::{Bug, is_planted};
use crate::reads::OwnReads;

/// The position of a consumer that browses or has a filter.
#[derive(Debug)]
pub(crate) struct Seeker {
    /// See [`Seeker::next`].
    next: u64,
    /// The messages that it wants; all if there is none.
    pub(crate) filter: Option<Arc<MessageFilter>>,
    /// The index of the next message that came back, unless it browses: it is shown each message once.
    comeback: Option<u64>,
    /// The messages that it waits for, or that were read for it.
    pub(crate) reads: OwnReads,
}

impl Seeker {
    /// The position of a new consumer. What `came_back` earlier is ahead of it.
    pub(crate) fn new(filter: Option<Arc<MessageFilter>>, browses: bool, came_back: &Comebacks) -> Self {
        let comeback = (!browses && !is_planted(Bug::MissComebacks)).then(|| came_back.end());
        Self { next: 0, filter, comeback, reads: OwnReads::default() }
    }

    /// The position: it has looked at every message with a lower number, or the message wasn't ready when it passed, or came back
    /// since.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Where it has to look, as a number from which on messages are ahead of it: its position, or the beginning if messages came
    /// back that it hasn't looked at.
    pub(crate) fn looks_from(&self, came_back: &Comebacks) -> u64 {
        match self.comeback {
            Some(index) if index < came_back.end() => 0,
            _ => self.next,
        }
    }

    /// The next message that came back behind it, if that is ready. Begins anew if it has missed some.
    pub(crate) fn next_comeback(&mut self, came_back: &Comebacks, is_ready: impl Fn(u64) -> bool) -> Option<u64> {
        let index = self.comeback.as_mut()?;
        while *index < came_back.end() {
            let Some(number) = came_back.get(*index) else {
                *index = came_back.end();
                self.next = 0;
                return None;
            };
            if number < self.next && is_ready(number) {
                return Some(number);
            }
            *index += 1;
        }
        self.reads.free_below(self.next);
        None
    }

    /// It has looked at these messages.
    pub(crate) fn looked_at(&mut self, first: u64, count: u64) {
        if first >= self.next {
            self.next = first + count;
            self.reads.free_below(self.next);
        } else if let Some(index) = &mut self.comeback {
            *index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_came_back_are_looked_at_again() {
        let mut came_back = Comebacks::default();
        came_back.push(3);
        let mut seeker = Seeker::new(None, false, &came_back);
        seeker.looked_at(0, 10);
        assert_eq!((seeker.looks_from(&came_back), seeker.next_comeback(&came_back, |_| true)), (10, None));
        for number in [4, 12, 5, 4] {
            came_back.push(number);
        }
        assert_eq!(seeker.looks_from(&came_back), 0);
        assert_eq!(seeker.next_comeback(&came_back, |_| true), Some(4));
        seeker.looked_at(4, 1);
        // Message 12 is ahead anyway, and message 5 isn't ready.
        assert_eq!(seeker.next_comeback(&came_back, |number| number != 5), Some(4));
        seeker.looked_at(4, 1);
        assert_eq!(seeker.next_comeback(&came_back, |_| true), None);
        assert_eq!((seeker.next(), seeker.looks_from(&came_back)), (10, 10));
    }

    #[test]
    fn a_seeker_that_missed_some_begins_anew() {
        let mut came_back = Comebacks::default();
        let mut seeker = Seeker::new(None, false, &came_back);
        seeker.looked_at(0, 10);
        (0..=Comebacks::MOST as u64).for_each(|number| came_back.push(number % 10));
        assert_eq!((seeker.next_comeback(&came_back, |_| true), seeker.next()), (None, 0));
        assert_eq!(seeker.looks_from(&came_back), 0);
    }

    #[test]
    fn one_that_browses_sees_nothing_twice() {
        let mut came_back = Comebacks::default();
        let mut seeker = Seeker::new(None, true, &came_back);
        seeker.looked_at(0, 10);
        came_back.push(3);
        assert_eq!((seeker.looks_from(&came_back), seeker.next_comeback(&came_back, |_| true)), (10, None));
    }
}
